"""The segments of a log, ordered by base offset.

Readers take a snapshot and need no lock; a change (under the log's lock) builds new lists. So a lookup costs one binary
search, and an append none: the active segment is at hand.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from log.errors import LogError
from log.files.segment import LogSegment

_NONE: tuple[list[int], list[LogSegment]] = ([], [])  # never changed, like any that is published
_UNCOUNTED = (_NONE[0], 0)


class LogSegments:
    """An ordered map from base offset to segment."""

    __slots__ = ("_active", "_sealed", "_state")

    def __init__(self) -> None:
        # Both lists, replaced together; never changed once published, so reading them is lock-free.
        self._state = _NONE
        self._active: LogSegment | None = None
        self._sealed = _UNCOUNTED
        """Of which segments (their base offsets) all but the last, which grow no more, have so many bytes."""

    def add(self, segment: LogSegment) -> LogSegment | None:
        """Insert `segment`; returns the one with the same base offset that it replaces."""
        bases, segments = self._state
        at = bisect_left(bases, segment.base_offset)
        replaced = segments[at] if at < len(bases) and bases[at] == segment.base_offset else None
        after = at if replaced is None else at + 1
        self._publish([*bases[:at], segment.base_offset, *bases[after:]], [*segments[:at], segment, *segments[after:]])
        return replaced

    def remove(self, base_offset: int) -> LogSegment | None:
        """Take the segment out of the map; its files stay."""
        bases, segments = self._state
        at = bisect_left(bases, base_offset)
        if at == len(bases) or bases[at] != base_offset:
            return None
        self._publish(bases[:at] + bases[at + 1 :], segments[:at] + segments[at + 1 :])
        return segments[at]

    def clear(self) -> None:
        self._publish([], [])

    def _publish(self, bases: list[int], segments: list[LogSegment]) -> None:
        self._state = (bases, segments)
        self._active = segments[-1] if segments else None

    # ---- lookups

    @property
    def active(self) -> LogSegment:
        """The last segment, which takes appends. Raises `LogError` if there is none."""
        active = self._active
        if active is None:
            raise LogError("the log has no segment")
        return active

    @property
    def first(self) -> LogSegment | None:
        segments = self._state[1]
        return segments[0] if segments else None

    @property
    def first_base_offset(self) -> int | None:
        bases = self._state[0]
        return bases[0] if bases else None

    def get(self, base_offset: int) -> LogSegment | None:
        found = self.floor(base_offset)
        return found if found is not None and found.base_offset == base_offset else None

    def floor(self, offset: int) -> LogSegment | None:
        """The segment with the greatest base offset <= `offset`."""
        active = self._active
        if active is not None and offset >= active.base_offset:
            return active
        bases, segments = self._state
        at = bisect_right(bases, offset)
        return segments[at - 1] if at else None

    def lower(self, offset: int) -> LogSegment | None:
        """The segment with the greatest base offset < `offset`."""
        return self.floor(offset - 1)

    def higher(self, offset: int) -> LogSegment | None:
        """The segment with the smallest base offset > `offset`."""
        bases, segments = self._state
        at = bisect_right(bases, offset)
        return segments[at] if at < len(bases) else None

    def from_floor(self, offset: int) -> list[LogSegment]:
        """The floor segment of `offset` and all later ones; all of them if there is no floor."""
        bases, segments = self._state
        return segments[max(0, bisect_right(bases, offset) - 1) :]

    def between(self, start: int, end: int) -> list[LogSegment]:
        """Segments that may hold offsets in [start, end): from the floor of `start` to those with base < `end`."""
        bases, segments = self._state
        return segments[max(0, bisect_right(bases, start) - 1) : bisect_left(bases, end)]

    def base_offsets(self) -> list[int]:
        return list(self._state[0])

    @property
    def size_in_bytes(self) -> int:
        bases, segments = self._state
        if len(segments) == 1:  # nothing is sealed: thousands of logs remember nothing
            return segments[0].records.size
        sealed = self._sealed
        if sealed[0] is not bases:
            sealed = self._sealed = (bases, sum(segment.size for segment in segments[:-1]))
        return sealed[1] + segments[-1].records.size if segments else 0

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._state[1])

    def __reversed__(self) -> Iterator[LogSegment]:
        return reversed(self._state[1])

    def __len__(self) -> int:
        return len(self._state[0])
