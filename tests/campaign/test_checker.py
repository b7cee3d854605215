"""Histories with one violation planted in each: the checker names it, and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from tests.campaign.checker import Acknowledged, Found, History, Place, Position, check

PLACE: Place = ("queue", 0)
Final = dict[Place, list[Found]]


def sound() -> tuple[History, Final]:
    history = History(
        sent={"a": 5, "b": 2},
        acknowledged=[Acknowledged(PLACE, number, "a", number) for number in range(4)]
        + [Acknowledged(PLACE, None, "b", 0)],
        once={"a"},
        delivered={PLACE: {0, 1, 2, 3, 4, 5}},
        commits=[Position(10, PLACE, 2), Position(20, PLACE, 4), Position(40, PLACE, 6)],
        starts=[Position(5, PLACE, 0), Position(15, PLACE, 2), Position(30, PLACE, 4), Position(39, PLACE, 4)],
        transfers={1: "committed", 2: "aborted", 3: "unknown", 4: "unknown"},
        legs=[(1, -5), (3, -7), (1, 5), (3, 7)],
    )
    found = [*(Found(number, "a", number) for number in range(4)), Found(4, "b", 0), Found(5, "b", 0)]
    return history, {PLACE: found}


def begin_anew(history: History) -> None:
    """In the place of the third start; commits begin again behind it."""
    del history.starts[2]
    history.anew.append(Position(30, PLACE, 0))
    history.commits.append(Position(33, PLACE, 3))
    history.starts[2:] = [Position(35, PLACE, 3), Position(39, PLACE, 3)]


def lose(history: History, final: Final) -> None:
    del final[PLACE][3]
    history.delivered[PLACE].discard(3)


def move(history: History, final: Final) -> None:
    history.acknowledged[1] = Acknowledged(PLACE, 4, "a", 1)


def invent(history: History, final: Final) -> None:
    final[PLACE][5] = Found(5, "b", 2)


def double(history: History, final: Final) -> None:
    final[PLACE][5] = Found(5, "a", 3)


def reorder(history: History, final: Final) -> None:
    history.acknowledged.append(Acknowledged(PLACE, None, "b", 1))
    final[PLACE][4:] = [Found(4, "b", 1), Found(5, "b", 0)]


def skip(history: History, final: Final) -> None:
    history.delivered[PLACE].discard(2)


def vanish(history: History, final: Final) -> None:
    history.delivered[PLACE].add(6)


def go_back(history: History, final: Final) -> None:
    history.starts[2] = Position(30, PLACE, 2)


def go_back_after_beginning_anew(history: History, final: Final) -> None:
    begin_anew(history)
    history.starts[3] = Position(39, PLACE, 1)


def halve(history: History, final: Final) -> None:
    del history.legs[0]


def show_aborted(history: History, final: Final) -> None:
    history.legs += [(2, -1), (2, 1)]


def halve_unknown(history: History, final: Final) -> None:
    del history.legs[1]


def make_up(history: History, final: Final) -> None:
    history.legs += [(9, -1), (9, 1)]


PLANTED: dict[Callable[[History, Final], None], str] = {
    lose: "lost",
    move: "moved",
    invent: "invented",
    double: "doubled",
    reorder: "reordered",
    skip: "undelivered",
    vanish: "vanished",
    go_back: "went back",
    go_back_after_beginning_anew: "went back",
    halve: "a committed transfer",
    show_aborted: "an aborted transfer",
    halve_unknown: "half a transfer",
    make_up: "a transfer that nobody made",
}


def test_a_sound_history() -> None:
    assert check(*sound()) == []


def test_a_record_that_was_given_up_may_come_late() -> None:
    history, final = sound()
    final[PLACE][4:] = [Found(4, "b", 1), Found(5, "b", 0)]
    assert check(history, final) == []


def test_a_client_may_begin_anew_by_itself() -> None:
    history, final = sound()
    begin_anew(history)
    assert check(history, final) == []


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_violation_is_named(plant: Callable[[History, Final], None]) -> None:
    history, final = copy.deepcopy(sound())
    plant(history, final)
    problems = check(history, final)
    assert len(problems) == 1, problems
    assert problems[0].startswith(PLANTED[plant])
