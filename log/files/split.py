"""Splitting a segment whose offsets do not fit its indexes.

Old brokers could compact segments into one that spans more than 2^31-1 offsets. At load it is cut into several, with
the cleaner's swap protocol, so that a crash at any step loses nothing.
"""

from __future__ import annotations

import os

from log.files.checkpoint import fsync_directory
from log.files.file_records import FileRecords
from log.files.handles import write_fully
from log.files.names import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, offset_file

MAX_RELATIVE_OFFSET = 0x7FFFFFFF
_COPY_BYTES = 1 << 20


def split_overflowed_segment(directory: str, base_offset: int) -> list[int]:
    """Write the parts of the segment at `base_offset` as complete `.swap` files; returns their base offsets.

    The loader puts them in place and rebuilds their indexes. Raises `OSError`.
    """
    source = FileRecords(offset_file(directory, base_offset, LOG_SUFFIX))
    parts = _parts(source, base_offset)
    for base, start, end in parts:
        _copy(source, start, end, offset_file(directory, base, LOG_SUFFIX) + CLEANED_SUFFIX)
    fsync_directory(directory)
    for base, _, _ in reversed(parts):
        path = offset_file(directory, base, LOG_SUFFIX)
        os.replace(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
    fsync_directory(directory)
    source.close()
    return [base for base, _, _ in parts]


def _parts(source: FileRecords, base_offset: int) -> list[tuple[int, int, int]]:
    """(base offset, start, end) of each part; the first keeps the segment's base offset."""
    parts: list[tuple[int, int, int]] = []
    base, start, end = base_offset, 0, 0
    for batch in source.walk():
        if batch.last_offset - base > MAX_RELATIVE_OFFSET and end > start:
            parts.append((base, start, end))
            base, start = batch.offset, batch.position
        end = batch.position + batch.size
    parts.append((base, start, end))
    return parts


def _copy(source: FileRecords, start: int, end: int, path: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        position = start
        while position < end:
            data = os.pread(source.open().fd, min(_COPY_BYTES, end - position), position)
            write_fully(fd, data)
            position += len(data)
        os.fsync(fd)
    finally:
        os.close(fd)
