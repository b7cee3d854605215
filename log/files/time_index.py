"""The sparse index from timestamps to offsets (`<base offset>.timeindex`).

An entry is a big-endian int64 timestamp in milliseconds and an int32 offset minus base offset. It says: no record up to
and including that offset's batch has a larger timestamp, and any record with a larger one comes after it. The last
entry of a sealed segment is its largest timestamp, by which retention and time lookups go.
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, NamedTuple

from log.errors import CorruptIndexError, LogError, OffsetsOutOfOrderError
from log.files.sparse_index import MAX_INT32, SparseIndex


class TimestampOffset(NamedTuple):
    """A timestamp in milliseconds (-1: none) and an absolute offset."""

    timestamp: int
    offset: int


class TimeIndex(SparseIndex[TimestampOffset]):
    """The entry of an empty index is (-1, base offset)."""

    __slots__ = ()

    ENTRY_SIZE: ClassVar[int] = 12
    _ENTRY: ClassVar[Struct] = Struct(">qi")
    _FIRST: ClassVar[Struct] = Struct(">q")

    def _made(self, first: int, second: int) -> TimestampOffset:
        return TimestampOffset(first, self.base_offset + second)

    def _none(self) -> TimestampOffset:
        return TimestampOffset(-1, self.base_offset)

    @property
    def is_full(self) -> bool:
        """One slot is kept for the closing entry."""
        return self.entries >= self.max_entries - 1

    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Add an entry if `timestamp` is above the last one's.

        Raises `LogError` if the index is full (unless `skip_full_check`), or timestamp or offset is below the last
        entry's.
        """
        with self._lock:
            if self.is_full and not skip_full_check:
                raise LogError(f"time index {self.path} is full with {self.entries} entries")
            last = self.last_entry()
            if self.entries:
                if offset < last.offset:
                    raise OffsetsOutOfOrderError(
                        f"offset {offset} is below the last entry's {last.offset} in {self.path}"
                    )
                if timestamp < last.timestamp:
                    raise LogError(f"timestamp {timestamp} is below the last entry's {last.timestamp} in {self.path}")
            if timestamp > last.timestamp:
                self._require_room()
                relative = offset - self.base_offset
                if not 0 <= relative <= MAX_INT32:
                    raise LogError(f"offset {offset} does not fit the index of base offset {self.base_offset}")
                self._write_entry(self._ENTRY.pack(timestamp, relative))
                self._last = TimestampOffset(timestamp, offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The greatest entry with a timestamp <= `timestamp`; (-1, base offset) if there is none."""
        with self._lock:
            return self._floor(timestamp) if self.entries else self._none()

    def truncate_to(self, offset: int) -> None:
        """Keep only entries with offsets below `offset`."""
        with self._lock:
            if not self.entries:
                return
            self._truncate_to_entries(self._slot_of_second(offset - self.base_offset))

    def check(self) -> None:
        """Raise `CorruptIndexError` if length, last timestamp or last offset can't be right."""
        with self._lock:
            self._check()
            if not self.entries:
                return
            first, last = self._peek_entry(0), self.last_entry()
            if last.timestamp < first.timestamp or last.offset < first.offset or last.offset < self.base_offset:
                raise CorruptIndexError(
                    f"last entry of {self.path} is timestamp {last.timestamp} at offset {last.offset}; the first is "
                    f"timestamp {first.timestamp} at offset {first.offset}"
                )
