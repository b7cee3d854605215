"""The sparse index from offsets to positions in a segment's `.log` file (`<base offset>.index`).

An entry is two big-endian int32: offset minus base offset, and the position of a batch; `lookup` answers a place from
which a forward scan finds the batch. There is one entry per `index.interval.bytes` of log or so.
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, NamedTuple

from log.errors import CorruptIndexError, LogError, OffsetsOutOfOrderError
from log.index_file import WARM_BYTES, IndexFile

_ENTRY = Struct(">ii")
_INT = Struct(">i")
_MAX_INT32 = 0x7FFFFFFF
_WARM_ENTRIES = WARM_BYTES // 8


class OffsetPosition(NamedTuple):
    """An absolute offset and a position in bytes."""

    offset: int
    position: int


class OffsetIndex(IndexFile):
    ENTRY_SIZE: ClassVar[int] = 8

    def append(self, offset: int, position: int) -> None:
        """Add an entry. Raises `LogError` if the index is full, or `offset` is not above the last entry's."""
        with self._lock:
            self._require_room()
            if self.entries and offset <= self.last_entry().offset:
                raise OffsetsOutOfOrderError(
                    f"offset {offset} (position {position}) is not above the last entry's offset "
                    f"{self.last_entry().offset} in {self.path}"
                )
            relative = offset - self.base_offset
            if not 0 <= relative <= _MAX_INT32:
                raise LogError(f"offset {offset} does not fit the index of base offset {self.base_offset}")
            self._write_entry(_ENTRY.pack(relative, position))
            self._last = OffsetPosition(offset, position)

    def lookup(self, target: int) -> OffsetPosition:
        """The greatest entry with offset <= `target`; (base offset, 0) if there is none."""
        with self._lock:
            if not self.entries:
                return OffsetPosition(self.base_offset, 0)
            last = self.last_entry()
            if target >= last.offset:
                return last
            slot = self._floor_slot(target - self.base_offset)
            return OffsetPosition(self.base_offset, 0) if slot < 0 else self._entry(slot)

    def upper_bound(self, start: OffsetPosition, size: int) -> OffsetPosition | None:
        """The smallest entry with position >= `start.position + size`; None if there is none."""
        with self._lock:
            if not self.entries:
                return None
            wanted = start.position + size
            view = self._view()
            low, high = 0, self.entries
            while low < high:
                middle = (low + high) // 2
                if _INT.unpack_from(view, middle * 8 + 4)[0] < wanted:
                    low = middle + 1
                else:
                    high = middle
            return self._entry(low) if low < self.entries else None

    def entry(self, slot: int) -> OffsetPosition:
        """Entry number `slot`. Raises `IndexError`."""
        with self._lock:
            if not 0 <= slot < self.entries:
                raise IndexError(f"entry {slot} of an index with {self.entries} entries")
            return self._entry(slot)

    def last_entry(self) -> OffsetPosition:
        """The last entry; (base offset, 0) if the index is empty."""
        last = self._last
        if last is None:
            with self._lock:
                last = OffsetPosition(self.base_offset, 0)
                if self.entries:
                    relative, position = _ENTRY.unpack(self._peek(self.entries - 1))
                    last = OffsetPosition(self.base_offset + relative, position)
                self._last = last
        return last

    def truncate_to(self, offset: int) -> None:
        """Keep only entries with offsets below `offset`."""
        with self._lock:
            if not self.entries:
                return
            slot = self._floor_slot(offset - 1 - self.base_offset)
            self._truncate_to_entries(slot + 1)

    def check(self, log_size: int) -> None:
        """Raise `CorruptIndexError` if the entries can't belong to a log file of `log_size` bytes.

        Looks at the file's length and the last entry only, so it costs the same for every size.
        """
        with self._lock:
            self._check()
            if not self.entries:
                return
            last = self.last_entry()
            if last.offset <= self.base_offset or not 0 < last.position < log_size:
                raise CorruptIndexError(
                    f"last entry of {self.path} is offset {last.offset} at position {last.position}; "
                    f"the log has base offset {self.base_offset} and {log_size} bytes"
                )

    _last: OffsetPosition | None = None

    def _truncate_to_entries(self, entries: int) -> None:
        super()._truncate_to_entries(entries)
        self._last = None

    def _entry(self, slot: int) -> OffsetPosition:
        relative, position = _ENTRY.unpack_from(self._view(), slot * 8)
        return OffsetPosition(self.base_offset + relative, position)

    def _floor_slot(self, relative: int) -> int:
        """The slot of the greatest entry whose relative offset is <= `relative`, -1 if none.

        The last 8 KiB are tried first: nearly all lookups are near the end, and so the same few pages stay warm.
        """
        view = self._view()
        offset_at = _INT.unpack_from
        low, high = 0, self.entries - 1
        hot = max(0, high - _WARM_ENTRIES)
        if offset_at(view, hot * 8)[0] < relative:
            low = hot
        elif offset_at(view, 0)[0] > relative:
            return -1
        else:
            high = hot
        while low < high:
            middle = (low + high + 1) // 2
            if offset_at(view, middle * 8)[0] > relative:
                high = middle - 1
            else:
                low = middle
        return low
