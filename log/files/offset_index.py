"""The sparse index from offsets to positions in a segment's `.log` file (`<base offset>.index`).

An entry is two big-endian int32: offset minus base offset, and the position of a batch; `lookup` answers a place from
which a forward scan finds the batch. There is one entry per `index.interval.bytes` of log or so.
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, NamedTuple

from log.errors import CorruptIndexError, LogError, OffsetsOutOfOrderError
from log.files.sparse_index import MAX_INT32, SparseIndex


class OffsetPosition(NamedTuple):
    """An absolute offset and a position in bytes."""

    offset: int
    position: int


class OffsetIndex(SparseIndex[OffsetPosition]):
    """The entry of an empty index is (base offset, 0)."""

    __slots__ = ()

    ENTRY_SIZE: ClassVar[int] = 8
    _ENTRY: ClassVar[Struct] = Struct(">ii")
    _FIRST: ClassVar[Struct] = Struct(">i")

    def _made(self, first: int, second: int) -> OffsetPosition:
        return OffsetPosition(self.base_offset + first, second)

    def _none(self) -> OffsetPosition:
        return OffsetPosition(self.base_offset, 0)

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
            if not 0 <= relative <= MAX_INT32:
                raise LogError(f"offset {offset} does not fit the index of base offset {self.base_offset}")
            self._write_entry(self._ENTRY.pack(relative, position))
            self._last = OffsetPosition(offset, position)

    def lookup(self, target: int) -> OffsetPosition:
        """The greatest entry with offset <= `target`; (base offset, 0) if there is none."""
        with self._lock:
            if not self.entries:
                return self._none()
            last = self.last_entry()
            return last if target >= last.offset else self._floor(target - self.base_offset)

    def back_from(self, target: int, steps: int) -> tuple[OffsetPosition, int]:
        """The entry that stands `steps` before the greatest with offset <= `target`, and how many entries that passes.

        If there are not so many: (base offset, 0), and all of them.
        """
        with self._lock:
            slot = self._floor_slot(target - self.base_offset) if self.entries else -1
            return (self._entry(slot - steps), steps) if slot >= steps else (self._none(), slot + 1)

    def upper_bound(self, start: OffsetPosition, size: int) -> OffsetPosition | None:
        """The smallest entry with position >= `start.position + size`; None if there is none."""
        with self._lock:
            if not self.entries:
                return None
            slot = self._slot_of_second(start.position + size)
            return self._entry(slot) if slot < self.entries else None

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
