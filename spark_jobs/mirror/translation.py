"""Where the records of a source partition lie in the target: the table by which offsets of groups are translated.

A partition has stretches, one for what each batch has copied; those that follow each other in both clusters are one.
In a stretch without gaps (no compacted records, no markers of transactions) that nobody else wrote into, offsets are
translated one to one. In any other, as MirrorMaker 2 does where it does not know better, an offset becomes that of
the stretch's beginning: a group may read records again, and misses none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

# Stretches kept of a partition; offsets before the oldest can't be translated.
MAX_STRETCHES = 1000


class Stretch(NamedTuple):
    """Source offsets from `start` up to `end` (not included) went to the target's from `target` up to `target_end`;
    `even` says that each offset has its own place there."""

    start: int
    end: int
    target: int
    target_end: int
    even: bool


def extended(stretches: Sequence[Stretch], added: Stretch) -> list[Stretch]:
    """The table with what another batch has copied. What it copies again is where the newer copy is."""
    kept = [each for each in stretches if each.end <= added.start]
    cut = next((each for each in stretches if each.start < added.start < each.end), None)
    if cut is not None:
        kept.append(cut._replace(end=added.start, target_end=cut.target + (added.start - cut.start) * cut.even))
    last = kept[-1] if kept else None
    if last is not None and last.even and added.even and (last.end, last.target_end) == (added.start, added.target):
        kept[-1] = last._replace(end=added.end, target_end=added.target_end)
    else:
        kept.append(added)
    return kept[-MAX_STRETCHES:]


def translated(stretches: Sequence[Stretch], offset: int) -> int | None:
    """Where a group that has read up to `offset` goes on in the target; None where that is not known (yet)."""
    found = None
    for each in stretches:
        if each.start > offset:
            break
        if offset >= each.end:
            found = each.target_end
        elif each.even:
            found = each.target + offset - each.start
        else:
            found = each.target
    return found


def to_json(stretches: Iterable[Stretch]) -> list[list[int]]:
    """For the file of the table."""
    return [list(each) for each in stretches]


def from_json(rows: Iterable[Any]) -> list[Stretch]:
    """Back from the file."""
    return [Stretch(*row) for row in rows]
