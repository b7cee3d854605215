"""What a history of a campaign must be, told from what clients wrote down alone. Pure functions.

A queue: records with an identity of their own (who wrote it, and which number it was), to be found where they were
acknowledged, once, in the order of each writer. A bank: transfers of two records each, to be seen whole or not at all.
A group: each record is delivered, and who goes on begins where a commit was answered before, or behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Place = tuple[str, int]
"""A topic and a partition."""
Outcome = Literal["committed", "aborted", "unknown"]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A record that a broker took. `offset` is None where the client was not told it."""

    place: Place
    offset: int | None
    writer: str
    number: int


@dataclass(frozen=True, slots=True)
class Found:
    """A record that a reader was given in the end."""

    offset: int
    writer: str
    number: int


@dataclass(frozen=True, slots=True)
class Position:
    """Of a group: a commit when it was answered, or where somebody began who asked for the commit at that time.

    `at_ns`: of the machine's monotonic clock, for all clients.
    """

    at_ns: int
    place: Place
    offset: int


@dataclass
class History:
    """`once`: writers whose records may not be there twice; `delivered`: what a group was given, by place."""

    sent: dict[str, int] = field(default_factory=dict)
    """How many records each writer handed over; its numbers begin with 0."""
    acknowledged: list[Acknowledged] = field(default_factory=list)
    once: set[str] = field(default_factory=set)
    delivered: dict[Place, set[int]] = field(default_factory=dict)
    commits: list[Position] = field(default_factory=list)
    starts: list[Position] = field(default_factory=list)
    anew: list[Position] = field(default_factory=list)
    """Where a client began anew though it was told to ask again: what was committed before counts no more there."""
    transfers: dict[int, Outcome] = field(default_factory=dict)
    legs: list[tuple[int, int]] = field(default_factory=list)
    """Of the bank, as a reader of committed records saw them in the end: transfer and amount."""


def check(history: History, final: Mapping[Place, Sequence[Found]]) -> list[str]:
    """What is wrong with it; nothing if nothing is."""
    return [
        *_lost(history, final),
        *_invented(history, final),
        *_doubled(history, final),
        *_reordered(history, final),
        *_undelivered(history, final),
        *_gone_back(history),
        *_half_transfers(history),
    ]


def _lost(history: History, final: Mapping[Place, Sequence[Found]]) -> list[str]:
    at = {(place, each.offset): (each.writer, each.number) for place, found in final.items() for each in found}
    there = {(place, each.writer, each.number) for place, found in final.items() for each in found}
    problems = []
    for one in history.acknowledged:
        if (one.place, one.writer, one.number) not in there:
            problems.append(f"lost: {one}")
        elif one.offset is not None and at.get((one.place, one.offset)) != (one.writer, one.number):
            problems.append(f"moved: {one}, where {at.get((one.place, one.offset))} is")
    return problems


def _invented(history: History, final: Mapping[Place, Sequence[Found]]) -> list[str]:
    return [
        f"invented: {place} {each}"
        for place, found in final.items()
        for each in found
        if not 0 <= each.number < history.sent.get(each.writer, 0)
    ]


def _doubled(history: History, final: Mapping[Place, Sequence[Found]]) -> list[str]:
    counts = Counter((each.writer, each.number) for found in final.values() for each in found)
    return [
        f"doubled: {number} of {writer}, {count} times"
        for (writer, number), count in counts.items()
        if count > 1 and writer in history.once
    ]


def _reordered(history: History, final: Mapping[Place, Sequence[Found]]) -> list[str]:
    """By the first occurrence of each: a retry may write a record again.

    A record that its client gave up may still come later, from where it was on its way; only acknowledged ones count.
    """
    acknowledged = {(one.writer, one.number) for one in history.acknowledged}
    problems = []
    for place, found in final.items():
        last: dict[str, int] = {}
        seen: set[tuple[str, int]] = set()
        for each in found:
            if (each.writer, each.number) in seen or (each.writer, each.number) not in acknowledged:
                continue
            seen.add((each.writer, each.number))
            if each.number < last.get(each.writer, -1):
                problems.append(f"reordered: {place} {each} after number {last[each.writer]}")
            last[each.writer] = each.number
    return problems


def _undelivered(history: History, final: Mapping[Place, Sequence[Found]]) -> list[str]:
    problems = []
    for place, given in history.delivered.items():
        missing = [each.offset for each in final.get(place, ()) if each.offset not in given]
        if missing:
            problems.append(f"undelivered: {len(missing)} records of {place} to the group, first {missing[0]}")
        vanished = given - {each.offset for each in final.get(place, ())}
        if vanished:
            problems.append(f"vanished: the group was given {place} {min(vanished)}, which is not there")
    return problems


def _gone_back(history: History) -> list[str]:
    noted = sorted(
        [*((each, False) for each in history.commits), *((each, True) for each in history.anew)],
        key=lambda each: each[0].at_ns,
    )
    highest: dict[Place, int] = {}
    problems, index = [], 0
    for start in sorted(history.starts, key=lambda each: each.at_ns):
        while index < len(noted) and noted[index][0].at_ns < start.at_ns:
            each, is_anew = noted[index]
            highest[each.place] = each.offset if is_anew else max(highest.get(each.place, 0), each.offset)
            index += 1
        if start.offset < highest.get(start.place, 0):
            problems.append(f"went back: {start}, where {highest[start.place]} was committed")
    return problems


def _half_transfers(history: History) -> list[str]:
    legs: dict[int, list[int]] = {}
    for transfer, amount in history.legs:
        legs.setdefault(transfer, []).append(amount)
    problems = []
    for transfer, outcome in history.transfers.items():
        amounts = legs.pop(transfer, [])
        whole = len(amounts) == 2 and sum(amounts) == 0
        if outcome == "committed" and not whole:
            problems.append(f"a committed transfer, {transfer}, is seen as {amounts}")
        elif outcome == "aborted" and amounts:
            problems.append(f"an aborted transfer, {transfer}, is seen as {amounts}")
        elif amounts and not whole:
            problems.append(f"half a transfer, {transfer}, is seen as {amounts}")
    return problems + [
        f"a transfer that nobody made, {transfer}, is seen as {amounts}" for transfer, amounts in legs.items()
    ]
