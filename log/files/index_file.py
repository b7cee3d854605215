"""What the two sparse indexes share: a preallocated file of fixed-size entries.

Entries are written with `pwrite` and looked up through a read-only mapping. A store through a mapping would end the
process with SIGBUS when the disk is full; a failed `pwrite` is an error that the log can answer. The mapping of a
file is replaced under the index's lock before the file is cut, so a lookup never touches a page that is gone.

The active segment's index has its full length from the start (zeros behind the entries) and is cut to its entries when
the segment is sealed, closed or recovered. Sealed indexes are opened on first use, within an `OpenFileBound`.
A torn or wrong index is found here and built anew by `log/management/loader.py` and `recovery.py`.
"""

from __future__ import annotations

import mmap
import os
from functools import lru_cache
from threading import RLock
from typing import ClassVar

from log.errors import CorruptIndexError, LogError
from log.files.file_range import OpenFileBound
from log.files.handles import MovableFile, pread_fully, pwrite_fully, unlink_if_exists

WARM_BYTES = 8192


class IndexFile(MovableFile):
    """A file of `ENTRY_SIZE`-byte entries in increasing order; see the subclasses for what an entry is.

    Opening an existing file counts every whole entry in it (a preallocated tail included, so an index that was not
    closed cleanly must be rebuilt). All methods may be called from any thread.
    """

    __slots__ = ("_bound", "_dirty", "_fd", "_length", "_map", "base_offset", "entries", "max_entries", "max_size")

    ENTRY_SIZE: ClassVar[int]

    def __init__(self, path: str, base_offset: int, max_size: int, *, bound: OpenFileBound | None = None) -> None:
        self.path = path
        self.base_offset = base_offset
        self.max_size = max_size
        self.entries = 0
        self._lock = RLock()
        self._bound = bound
        self._fd = -1
        self._map: mmap.mmap | None = None
        # Whether something was written that no fsync has covered.
        self._dirty = False
        try:
            self._length = os.stat(path).st_size
        except FileNotFoundError:
            self._length = 0
            self._create()
        else:
            self.entries = self._length // self.ENTRY_SIZE
        _, self.max_entries = self._sizes(max(max_size, self._length))

    # ---- size

    @property
    def is_full(self) -> bool:
        return self.entries >= self.max_entries

    @property
    def used_bytes(self) -> int:
        return self.entries * self.ENTRY_SIZE

    @property
    def length(self) -> int:
        """The file's length, preallocated tail included."""
        return self._length

    def resize(self, size: int) -> None:
        """Set the file's length to `size` rounded down to whole entries; entries are kept, so never below them."""
        with self._lock:
            size, self.max_entries = self._sizes(max(size, self.used_bytes))
            if size != self._length:
                # Not dirty by this: a start notices a tail that was not cut after all, and rebuilds the index.
                self._unmap()
                if self._fd >= 0:
                    os.ftruncate(self._fd, size)
                else:
                    # Most logs that a start opens are not written to soon: no descriptor is kept for them.
                    os.truncate(self.path, size)
                self._length = size

    def grow_to_maximum(self) -> None:
        """Preallocate again, because entries will be added."""
        self.resize(self.max_size)

    def trim_to_entries(self) -> None:
        """Cut the preallocated tail."""
        self.resize(self.used_bytes)

    def seal(self) -> None:
        """No more entries will come: cut the tail and let the bound close the file when it likes."""
        with self._lock:
            self.trim_to_entries()
            self._close_fd()
            if self._map is not None and self._bound is not None:
                self._bound.touch(self)

    def truncate(self) -> None:
        """Drop all entries; the file keeps its length."""
        with self._lock:
            self._truncate_to_entries(0)

    def reset(self) -> None:
        """Empty the index and preallocate it, to be rebuilt."""
        with self._lock:
            self._truncate_to_entries(0)
            self.grow_to_maximum()

    # ---- life

    def flush(self) -> None:
        """fsync what was written since the last time. A sealed, closed index is synced through a fresh descriptor."""
        with self._lock:
            if not self._dirty:
                return
            fd = self._fd if self._fd >= 0 else os.open(self.path, os.O_RDWR)
            try:
                os.fsync(fd)
            finally:
                if fd != self._fd:
                    os.close(fd)
            self._dirty = False

    def close(self) -> None:
        """Cut the tail, fsync what was written, and close the file. It opens again on the next use."""
        with self._lock:
            self.trim_to_entries()
            self.flush()
            self.close_handles()

    def close_handles(self) -> None:
        """Close descriptor and mapping without touching the file: for a disk that has failed."""
        with self._lock:
            self._unmap()
            self._close_fd()
            if self._bound is not None:
                self._bound.forget(self)

    def close_idle(self) -> bool:
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._fd >= 0:
                return True  # active again: not ours to close, and pinned from now on
            self._unmap()
            return True
        finally:
            self._lock.release()

    def delete(self) -> None:
        with self._lock:
            self.close_handles()
            unlink_if_exists(self.path)

    # ---- for subclasses, under the lock

    def _check(self) -> None:
        """Raise `CorruptIndexError` if the entries of a file found on disk can't be right."""
        if self._length % self.ENTRY_SIZE:
            raise CorruptIndexError(
                f"index file {self.path} has {self._length} bytes, which is not a multiple of {self.ENTRY_SIZE}"
            )

    def _peek(self, slot: int) -> bytes:
        """The bytes of one entry, without a mapping: start-up looks at one entry of very many files."""
        if self._map is not None:
            return self._map[slot * self.ENTRY_SIZE : (slot + 1) * self.ENTRY_SIZE]
        fd = self._fd if self._fd >= 0 else os.open(self.path, os.O_RDONLY)
        try:
            return pread_fully(fd, self.ENTRY_SIZE, slot * self.ENTRY_SIZE)
        except EOFError as error:
            raise CorruptIndexError(f"index file {self.path} is shorter than {self._length} bytes") from error
        finally:
            if fd != self._fd:
                os.close(fd)

    def _view(self) -> mmap.mmap:
        """The mapping. Only called when there are entries, so the file is not empty."""
        mapping = self._map
        return mapping if mapping is not None else self._open_mapping()

    def _open_mapping(self) -> mmap.mmap:
        fd = self._fd
        opened = fd < 0
        if opened:
            fd = os.open(self.path, os.O_RDONLY)
        try:
            actual = os.fstat(fd).st_size
            if actual < self._length:
                raise CorruptIndexError(f"index file {self.path} has {actual} bytes where {self._length} were written")
            # Start reading before the first page fault, which would stop every thread of the interpreter.
            if hasattr(os, "posix_fadvise"):  # not on macOS
                os.posix_fadvise(fd, 0, self.used_bytes, os.POSIX_FADV_WILLNEED)
            mapping = mmap.mmap(fd, self._length, access=mmap.ACCESS_READ)
        finally:
            if opened:
                os.close(fd)
        self._map = mapping
        if opened and self._bound is not None:
            self._bound.touch(self)
        return mapping

    def _write_entry(self, entry: bytes) -> None:
        if self._fd < 0:
            self._open_for_writing()
        self._dirty = True
        pwrite_fully(self._fd, entry, self.entries * self.ENTRY_SIZE)
        self.entries += 1

    def _truncate_to_entries(self, entries: int) -> None:
        if entries < self.entries:
            start = entries * self.ENTRY_SIZE
            # Old entries must read as zeros behind the new end, as in a file that was never longer.
            self._dirty = True
            self._unmap()
            self._open_for_writing()
            os.ftruncate(self._fd, start)
            os.ftruncate(self._fd, self._length)
            self.entries = entries

    def _require_room(self) -> None:
        if self.entries >= self.max_entries:
            raise LogError(f"index file {self.path} is full with {self.entries} entries")

    def _open_for_writing(self) -> None:
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_RDWR)
            if self._bound is not None:
                self._bound.forget(self)

    def _create(self) -> None:
        # Not dirty by this: an empty index that is not there after a crash is made anew. Nor is it kept open: most logs
        # that are made together, by the thousand, are not written to soon.
        size, _ = self._sizes(self.max_size)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.ftruncate(fd, size)
        finally:
            os.close(fd)
        self._length = size

    def _sizes(self, size: int) -> tuple[int, int]:
        """`size` in whole entries, in bytes and in entries. Of the largest, which most indexes have, always the same
        objects: thousands of partitions hold them."""
        return (_largest if size == self.max_size else _whole)(size, self.ENTRY_SIZE)

    def _unmap(self) -> None:
        mapping, self._map = self._map, None
        if mapping is not None:
            mapping.close()

    def _close_fd(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _whole(size: int, entry_size: int) -> tuple[int, int]:
    return size - size % entry_size, size // entry_size


_largest = lru_cache(maxsize=64)(_whole)
