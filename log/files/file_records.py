"""The `.log` file of one segment: appending bytes, walking batches, handing out ranges.

Nothing here decodes a record. Batches are walked by the fields that every format has at the same place: offset at 0,
size at 8, magic at 16; and, from magic 2 on, the last offset delta at 23.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from struct import Struct
from threading import Lock
from typing import NamedTuple

from log.errors import CorruptRecordError
from log.files.file_range import LogFileRange, OpenFile, OpenFileBound
from log.files.handles import MovableFile, pwrite_fully, unlink_if_exists
from log.records.batch import MAGIC_OFFSET, RecordBatch
from log.records.old_formats import LegacyBatch

LOG_OVERHEAD = 12
HEADER_TO_MAGIC = 17
MIN_RECORD_SIZE = 14
MAX_FILE_SIZE = 0x7FFFFFFF
_SCAN_BYTES = 8192
_READ_BYTES = 1 << 20

_OFFSET_AND_SIZE = Struct(">qi")
_INT = Struct(">i")


class BatchPosition(NamedTuple):
    """Where a batch lies: its first field (base offset; in magic 0 and 1 the last offset), position and whole size."""

    offset: int
    last_offset: int
    position: int
    size: int


class FileRecords(MovableFile):
    """Batches back to back in a file of logical length `size`.

    The file may be longer than `size` (preallocated). Appends, truncation and flushing are the log's, under its lock;
    ranges and walks may be asked for from any thread. Sealed files open on first use and close within `bound`.
    """

    __slots__ = ("_bound", "_file", "_pinned", "dirty", "size", "unused")

    def __init__(
        self,
        path: str,
        *,
        create: bool = False,
        preallocate: int = 0,
        bound: OpenFileBound | None = None,
    ) -> None:
        self.path = path
        self._lock = Lock()
        self._file: OpenFile | None = None
        self._bound = bound
        self._pinned = False
        # Whether something was written that no fsync has covered. What lies there at a start is known to be durable,
        # or is recovered and marked.
        self.dirty = create
        # Whether nothing was ever written to it, nor to one in its place.
        self.unused = create
        if create:
            self._file = OpenFile(os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
            self._pinned = True
            self.size = os.fstat(self._file.fd).st_size
            self.unused = self.size == 0
            if preallocate and self.size == 0:
                os.ftruncate(self._file.fd, preallocate)
        else:
            self.size = os.stat(path).st_size
        if self.size > MAX_FILE_SIZE:
            raise CorruptRecordError(f"{path} has {self.size} bytes; a segment has at most {MAX_FILE_SIZE}")

    # ---- writing

    def append(self, records: bytes | bytearray | memoryview) -> int:
        """Write `records` at the end and return the position where they start.

        Raises `OSError`; then the file's logical size is as before.
        """
        file = self._file
        if file is None:
            file = self._open()
        self.dirty = True
        self.unused = False
        position = self.size
        size = len(records)
        if position + size > MAX_FILE_SIZE:
            raise OSError(f"{size} bytes do not fit into {self.path}, which has {position}")
        pwrite_fully(file.fd, records, position)
        self.size = position + size
        return position

    def undo_append(self, size: int) -> None:
        """Forget what was appended behind `size`, after a failure; the disk may be beyond help, so never raises."""
        self.size = size
        file = self._file
        if file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(file.fd, size)

    def truncate(self, size: int) -> int:
        """Cut the file to `size` bytes; returns the bytes cut. Raises `ValueError` if `size` is beyond the end."""
        if not 0 <= size <= self.size:
            raise ValueError(f"cannot cut {self.path} of {self.size} bytes to {size}")
        cut = self.size - size
        if size < os.stat(self.path).st_size:
            self.dirty = True
            file = self.open()
            os.ftruncate(file.fd, size)
        self.size = size
        return cut

    def trim(self) -> None:
        """Cut the preallocated tail."""
        file = self.open()
        if os.fstat(file.fd).st_size > self.size:
            self.dirty = True
            os.ftruncate(file.fd, self.size)

    def flush(self) -> bool:
        """fsync, if there is need to; returns whether there was."""
        if not self.dirty:
            return False
        file = self.open()  # Held: another thread may let go of it.
        # Before the sync: an append beside it makes the file dirty again.
        self.dirty = False
        try:
            os.fsync(file.fd)
        except OSError:
            self.dirty = True
            raise
        return True

    # ---- reading

    def range(self, position: int, size: int) -> LogFileRange:
        """A range of the file, which stays open until it is released."""
        return LogFileRange(self.open(), position, size)

    def find(self, target: int, start: int = 0) -> BatchPosition | None:
        """The first batch at or behind position `start` whose last offset is >= `target`."""
        # The same as walk(), written out: this is the search that a read makes behind the index lookup.
        file = self.open()
        fd = file.fd
        end = self.size
        position = start
        head, delta = _OFFSET_AND_SIZE.unpack_from, _INT.unpack_from
        while end - position > HEADER_TO_MAGIC:
            chunk = os.pread(fd, min(_SCAN_BYTES, end - position), position)
            at, limit = 0, len(chunk) - 27
            if limit < 0:
                break
            while at <= limit:
                offset, length = head(chunk, at)
                if length < MIN_RECORD_SIZE:
                    raise CorruptRecordError(f"size field {length} at position {position + at} of {self.path}")
                size = length + LOG_OVERHEAD
                last = offset + delta(chunk, at + 23)[0] if chunk[at + 16] >= 2 else offset
                if last >= target:
                    found = position + at
                    return BatchPosition(offset, last, found, size) if found + size <= end else None
                at += size
            position += at
        return None

    def batch_at(self, position: int) -> BatchPosition | None:
        """The batch that starts at `position`, None at the end."""
        return next(self.walk(position, scan_bytes=64), None)

    def walk(self, start: int = 0, end: int | None = None, *, scan_bytes: int = _SCAN_BYTES) -> Iterator[BatchPosition]:
        """Positions of the whole batches in [start, end), reading only headers.

        Ends silently at an incomplete batch. Raises `CorruptRecordError` if a size field is impossible.
        """
        file = self.open()
        if end is None:
            end = self.size
        position = start
        chunk_start, chunk = start, b""
        while end - position > HEADER_TO_MAGIC:
            at = position - chunk_start
            if at + 27 > len(chunk):
                chunk = os.pread(file.fd, min(scan_bytes, end - position), position)
                chunk_start, at = position, 0
                if len(chunk) <= HEADER_TO_MAGIC:
                    return
            offset, length = _OFFSET_AND_SIZE.unpack_from(chunk, at)
            if length < MIN_RECORD_SIZE:
                raise CorruptRecordError(f"size field {length} at position {position} of {self.path}")
            size = length + LOG_OVERHEAD
            if position + size > end:
                return
            last = offset
            if chunk[at + 16] >= 2:
                if at + 27 > len(chunk):
                    return
                last = offset + _INT.unpack_from(chunk, at + 23)[0]
            yield BatchPosition(offset, last, position, size)
            position += size

    def batches(
        self, start: int = 0, end: int | None = None, *, read_bytes: int = _READ_BYTES
    ) -> Iterator[tuple[int, memoryview]]:
        """(position, bytes) of the whole batches in [start, end), read ahead in chunks.

        Ends silently at an incomplete batch. Raises `CorruptRecordError` if a size field is impossible.
        """
        file = self.open()
        if end is None:
            end = self.size
        position = start
        chunk_start, chunk = start, memoryview(b"")
        while end - position > HEADER_TO_MAGIC:
            at = position - chunk_start
            need = HEADER_TO_MAGIC
            if at + need <= len(chunk):
                length = _INT.unpack_from(chunk, at + 8)[0]
                if length < MIN_RECORD_SIZE:
                    raise CorruptRecordError(f"size field {length} at position {position} of {self.path}")
                need = length + LOG_OVERHEAD
                if position + need > end:
                    return
                if at + need <= len(chunk):
                    yield position, chunk[at : at + need]
                    position += need
                    continue
            chunk = memoryview(os.pread(file.fd, min(max(read_bytes, need), end - position), position))
            chunk_start = position
            if len(chunk) < need:
                return

    # ---- life

    def open(self) -> OpenFile:
        """The open file; opens it if need be."""
        file = self._file
        return file if file is not None else self._open()

    def _open(self) -> OpenFile:
        with self._lock:
            file = self._file
            if file is None:
                file = self._file = OpenFile(os.open(self.path, os.O_RDWR))
            pinned = self._pinned
        if not pinned and self._bound is not None:
            self._bound.touch(self)
        return file

    def pin(self) -> None:
        """Keep the file open: it is the active segment's."""
        self._pinned = True
        if self._bound is not None:
            self._bound.forget(self)

    def unpin(self) -> None:
        """The segment is sealed: the bound may close the file."""
        self._pinned = False
        if self._bound is not None and self._file is not None:
            self._bound.touch(self)

    def close_idle(self) -> bool:
        if not self._pinned:
            self._file = None
        return True

    def close(self) -> None:
        """Let go of the file. Ranges that are out keep it open."""
        self._file = None
        self._pinned = False
        if self._bound is not None:
            self._bound.forget(self)

    def delete(self) -> None:
        self.close()
        unlink_if_exists(self.path)


def parse_batch(data: memoryview) -> RecordBatch | LegacyBatch:
    """The header of the batch that `data` is, of any format. Raises `CorruptRecordError` on an unknown magic."""
    magic = data[MAGIC_OFFSET]
    if magic == 2:
        return RecordBatch(data)
    if magic < 2:
        return LegacyBatch(data)
    raise CorruptRecordError(f"unknown record format: magic {magic}")
