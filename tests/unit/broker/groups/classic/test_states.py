"""The table of a classic group's phases: every state with every event, as the group executes it."""

from itertools import product

import pytest

from broker.groups.classic.group import ClassicGroup
from broker.groups.classic.rebalance import Rebalancer
from broker.groups.classic.states import TABLE, Effect, Event, GroupState, IllegalTransitionError
from timer.clock import ManualClock

E, F, S = Event, Effect, GroupState
WAY = {
    S.EMPTY: (),
    S.STABLE: (E.RESTORED,),
    S.PREPARING_REBALANCE: (E.REBALANCE,),
    S.COMPLETING_REBALANCE: (E.REBALANCE, E.JOINED),
    S.DEAD: (E.REMOVED,),
}
"""Events that lead a new group to each state."""

EXPECTED = {
    (S.EMPTY, E.RESTORED): (F.NOTHING, S.STABLE),
    (S.EMPTY, E.REBALANCE): (F.AWAIT_FIRST_JOINS, S.PREPARING_REBALANCE),
    (S.PREPARING_REBALANCE, E.REBALANCE): (F.NOTHING, S.PREPARING_REBALANCE),
    (S.COMPLETING_REBALANCE, E.REBALANCE): (F.CALL_BACK, S.PREPARING_REBALANCE),
    (S.STABLE, E.REBALANCE): (F.AWAIT_JOINS, S.PREPARING_REBALANCE),
    (S.DEAD, E.REBALANCE): (F.NOTHING, S.DEAD),
    (S.EMPTY, E.MEMBER_GONE): (F.NOTHING, S.EMPTY),
    (S.PREPARING_REBALANCE, E.MEMBER_GONE): (F.CHECK_JOINS, S.PREPARING_REBALANCE),
    (S.COMPLETING_REBALANCE, E.MEMBER_GONE): (F.CALL_BACK, S.PREPARING_REBALANCE),
    (S.STABLE, E.MEMBER_GONE): (F.AWAIT_JOINS, S.PREPARING_REBALANCE),
    (S.DEAD, E.MEMBER_GONE): (F.NOTHING, S.DEAD),
    (S.EMPTY, E.COUNT_CHANGED): (F.NOTHING, S.EMPTY),
    (S.PREPARING_REBALANCE, E.COUNT_CHANGED): (F.CHECK_JOINS, S.PREPARING_REBALANCE),
    (S.COMPLETING_REBALANCE, E.COUNT_CHANGED): (F.NOTHING, S.COMPLETING_REBALANCE),
    (S.STABLE, E.COUNT_CHANGED): (F.NOTHING, S.STABLE),
    (S.DEAD, E.COUNT_CHANGED): (F.NOTHING, S.DEAD),
    (S.PREPARING_REBALANCE, E.MORE_MEMBERS): (F.AWAIT_MORE_JOINS, S.PREPARING_REBALANCE),
    (S.PREPARING_REBALANCE, E.NOBODY_BACK): (F.AWAIT_JOINS, S.PREPARING_REBALANCE),
    (S.PREPARING_REBALANCE, E.JOINED): (F.BEGIN_GENERATION, S.COMPLETING_REBALANCE),
    (S.PREPARING_REBALANCE, E.NOBODY_LEFT): (F.BECOME_EMPTY, S.EMPTY),
    (S.COMPLETING_REBALANCE, E.ASSIGNED): (F.HAND_OUT, S.STABLE),
    (S.COMPLETING_REBALANCE, E.ASSIGNMENT_LOST): (F.CALL_BACK, S.PREPARING_REBALANCE),
    **{(state, E.DISMISSED): (F.DISMISS, S.DEAD) for state in S},
    **{(state, E.REMOVED): (F.NOTHING, S.DEAD) for state in S},
}


def group_in(state: GroupState, clock: ManualClock) -> ClassicGroup:
    group = ClassicGroup("g", clock)
    for event in WAY[state]:
        group.take(event)
    assert group.state is state
    return group


@pytest.mark.parametrize(("state", "event"), list(product(S, E)), ids=lambda value: value.name)
def test_every_pair_has_its_effect_or_is_refused_without_one(state: GroupState, event: Event) -> None:
    clock = ManualClock()
    group = group_in(state, clock)
    before = group.current_state_timestamp
    clock.advance(5)
    expected = EXPECTED.get((state, event))
    if expected is None:
        with pytest.raises(IllegalTransitionError, match=f"{event.name} in {state.value}"):
            group.take(event)
        assert (group.state, group.current_state_timestamp) == (state, before)
        return
    effect, after = expected
    assert group.take(event) is effect
    assert group.state is after
    assert group.current_state_timestamp == (before if after is state else clock.wall_ms())


def test_the_table_has_every_state_and_nothing_leaves_the_last() -> None:
    assert set(TABLE) == set(S)
    assert {state for _, state in TABLE[S.DEAD].values()} == {S.DEAD}


def test_every_effect_is_somewhere_in_the_table() -> None:
    assert {effect for row in TABLE.values() for effect, _ in row.values()} == set(F)


def test_every_effect_can_be_run() -> None:
    rebalancer = Rebalancer(None, None, None, None, None)  # type: ignore[arg-type]
    assert set(rebalancer._effects) == set(F) - {F.NOTHING}
