"""Reads the batches of a `.log` file in chunks, for tools that do not open the whole log."""

from __future__ import annotations

import os
from collections.abc import Iterator

from log.errors import CorruptRecordError
from log.records.batch import HEADER_SIZE, MIN_SIZE_FOR_MAGIC, RecordBatch, peek
from log.records.old_formats import LegacyBatch

READ_SIZE = 1 << 20


def read_batches(
    fd: int, start: int = 0, end: int | None = None, *, read_size: int = READ_SIZE
) -> Iterator[tuple[int, RecordBatch | LegacyBatch]]:
    """(position in the file, batch) of the complete batches in [start, end) of an open file, of any format.

    A batch's buffer is a chunk of the file that is not reused, so batches may be kept. An incomplete last batch ends
    the iteration silently. Raises CorruptRecordError, which names the position, when a size is impossible, and OSError.
    """
    if end is None:
        end = os.fstat(fd).st_size
    position = start
    chunk = b""
    at = 0
    while end - position >= MIN_SIZE_FOR_MAGIC:
        if len(chunk) - at < MIN_SIZE_FOR_MAGIC:
            chunk, at = os.pread(fd, min(read_size, end - position), position), 0
            if len(chunk) < MIN_SIZE_FOR_MAGIC:
                return
        try:
            head = peek(chunk, at)
        except CorruptRecordError as error:
            raise CorruptRecordError(f"position {position}: {error}") from None
        assert head is not None
        _, size, magic = head
        if position + size > end:
            return
        if len(chunk) - at < size:
            chunk, at = os.pread(fd, min(max(read_size, size), end - position), position), 0
            if len(chunk) < size:
                return
        if magic < 2:
            yield position, LegacyBatch(chunk, at)
        elif size < HEADER_SIZE:
            raise CorruptRecordError(f"position {position}: a record batch of {size} bytes is smaller than its header")
        else:
            yield position, RecordBatch(chunk, at)
        position += size
        at += size
