"""What looking up is in both sparse indexes: entries of two integers, the first of which increases."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Generic, TypeVar

from log.files.file_range import OpenFileBound
from log.files.index_file import WARM_BYTES, IndexFile

E = TypeVar("E")

MAX_INT32 = 0x7FFFFFFF
_INT = Struct(">i")


class SparseIndex(IndexFile, Generic[E]):
    """`_ENTRY` is the layout of an entry, `_FIRST` that of its first integer; the second is an int32. Subclasses say
    what they mean: `_made` makes the entry, `_none` is what an empty index answers."""

    __slots__ = ("_last",)

    _ENTRY: ClassVar[Struct]
    _FIRST: ClassVar[Struct]

    _last: E | None

    def __init__(self, path: str, base_offset: int, max_size: int, *, bound: OpenFileBound | None = None) -> None:
        self._last = None
        super().__init__(path, base_offset, max_size, bound=bound)

    def _made(self, first: int, second: int) -> E:
        raise NotImplementedError

    def _none(self) -> E:
        raise NotImplementedError

    def entry(self, slot: int) -> E:
        """Entry number `slot`. Raises `IndexError`."""
        with self._lock:
            if not 0 <= slot < self.entries:
                raise IndexError(f"entry {slot} of an index with {self.entries} entries")
            return self._entry(slot)

    def last_entry(self) -> E:
        """The last entry, or that of an empty index."""
        last = self._last
        if last is None:
            with self._lock:
                last = self._peek_entry(self.entries - 1) if self.entries else self._none()
                self._last = last
        return last

    # ---- for subclasses, under the lock

    def _truncate_to_entries(self, entries: int) -> None:
        super()._truncate_to_entries(entries)
        self._last = None

    def _peek_entry(self, slot: int) -> E:
        return self._made(*self._ENTRY.unpack(self._peek(slot)))

    def _entry(self, slot: int) -> E:
        return self._made(*self._ENTRY.unpack_from(self._view(), slot * self.ENTRY_SIZE))

    def _floor(self, first: int) -> E:
        """The greatest entry whose first integer is <= `first`, or that of an empty index."""
        slot = self._floor_slot(first)
        return self._none() if slot < 0 else self._entry(slot)

    def _floor_slot(self, first: int) -> int:
        """The slot of the greatest entry whose first integer is <= `first`, -1 if none.

        The last 8 KiB are tried first: nearly all lookups are near the end, and so the same few pages stay warm.
        """
        view, size = self._view(), self.ENTRY_SIZE
        first_at = self._FIRST.unpack_from
        low, high = 0, self.entries - 1
        hot = max(0, high - WARM_BYTES // size)
        if first_at(view, hot * size)[0] < first:
            low = hot
        elif first_at(view, 0)[0] > first:
            return -1
        else:
            high = hot
        while low < high:
            middle = (low + high + 1) // 2
            if first_at(view, middle * size)[0] > first:
                high = middle - 1
            else:
                low = middle
        return low

    def _slot_of_second(self, second: int) -> int:
        """The slot of the first entry whose second integer is >= `second`; the number of entries if none."""
        view, size = self._view(), self.ENTRY_SIZE
        at = size - _INT.size
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) // 2
            if _INT.unpack_from(view, middle * size + at)[0] < second:
                low = middle + 1
            else:
                high = middle
        return low
