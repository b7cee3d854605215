"""The sparse index from timestamps to offsets (`<base offset>.timeindex`).

An entry is a big-endian int64 timestamp in milliseconds and an int32 offset minus base offset. It says: no record up to
and including that offset's batch has a larger timestamp, and any record with a larger one comes after it. The last
entry of a sealed segment is its largest timestamp, by which retention and time lookups go.
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, NamedTuple

from log.errors import CorruptIndexError, LogError, OffsetsOutOfOrderError
from log.index_file import WARM_BYTES, IndexFile

_ENTRY = Struct(">qi")
_LONG = Struct(">q")
_INT = Struct(">i")
_MAX_INT32 = 0x7FFFFFFF
_WARM_ENTRIES = WARM_BYTES // 12


class TimestampOffset(NamedTuple):
    """A timestamp in milliseconds (-1: none) and an absolute offset."""

    timestamp: int
    offset: int


class TimeIndex(IndexFile):
    ENTRY_SIZE: ClassVar[int] = 12

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
                if not 0 <= relative <= _MAX_INT32:
                    raise LogError(f"offset {offset} does not fit the index of base offset {self.base_offset}")
                self._write_entry(_ENTRY.pack(timestamp, relative))
                self._last = TimestampOffset(timestamp, offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The greatest entry with a timestamp <= `timestamp`; (-1, base offset) if there is none."""
        with self._lock:
            if not self.entries:
                return TimestampOffset(-1, self.base_offset)
            slot = self._floor_slot(timestamp)
            return TimestampOffset(-1, self.base_offset) if slot < 0 else self._entry(slot)

    def entry(self, slot: int) -> TimestampOffset:
        """Entry number `slot`. Raises `IndexError`."""
        with self._lock:
            if not 0 <= slot < self.entries:
                raise IndexError(f"entry {slot} of an index with {self.entries} entries")
            return self._entry(slot)

    def last_entry(self) -> TimestampOffset:
        """The last entry; (-1, base offset) if the index is empty."""
        last = self._last
        if last is None:
            with self._lock:
                last = TimestampOffset(-1, self.base_offset)
                if self.entries:
                    last = self._peek_entry(self.entries - 1)
                self._last = last
        return last

    def truncate_to(self, offset: int) -> None:
        """Keep only entries with offsets below `offset`."""
        with self._lock:
            if not self.entries:
                return
            view = self._view()
            relative = offset - self.base_offset
            low, high = 0, self.entries
            while low < high:
                middle = (low + high) // 2
                if _INT.unpack_from(view, middle * 12 + 8)[0] < relative:
                    low = middle + 1
                else:
                    high = middle
            self._truncate_to_entries(low)

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

    _last: TimestampOffset | None = None

    def _truncate_to_entries(self, entries: int) -> None:
        super()._truncate_to_entries(entries)
        self._last = None

    def _peek_entry(self, slot: int) -> TimestampOffset:
        timestamp, relative = _ENTRY.unpack(self._peek(slot))
        return TimestampOffset(timestamp, self.base_offset + relative)

    def _entry(self, slot: int) -> TimestampOffset:
        timestamp, relative = _ENTRY.unpack_from(self._view(), slot * 12)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def _floor_slot(self, timestamp: int) -> int:
        view = self._view()
        timestamp_at = _LONG.unpack_from
        low, high = 0, self.entries - 1
        hot = max(0, high - _WARM_ENTRIES)
        if timestamp_at(view, hot * 12)[0] < timestamp:
            low = hot
        elif timestamp_at(view, 0)[0] > timestamp:
            return -1
        else:
            high = hot
        while low < high:
            middle = (low + high + 1) // 2
            if timestamp_at(view, middle * 12)[0] > timestamp:
                high = middle - 1
            else:
                low = middle
        return low
