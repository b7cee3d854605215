"""Whole reads and writes on descriptors, and durable directory changes."""

from __future__ import annotations

import contextlib
import errno
import os


def pread_fully(fd: int, size: int, position: int) -> bytes:
    """Exactly `size` bytes at `position`. Raises `EOFError` if the file ends early."""
    data = os.pread(fd, size, position)
    if len(data) == size:
        return data
    parts = [data]
    got = len(data)
    while got < size and data:
        data = os.pread(fd, size - got, position + got)
        parts.append(data)
        got += len(data)
    if got < size:
        raise EOFError(f"file ended after {got} of {size} bytes at position {position}")
    return b"".join(parts)


def pwrite_fully(fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
    """Write all of `data` at `position`. Raises `OSError`; then any prefix of it may have been written."""
    size = len(data)
    done = os.pwrite(fd, data, position)
    if done == size:
        return
    view = memoryview(data)
    while done < size:
        n = os.pwrite(fd, view[done:], position + done)
        if n == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done += n


def unlink_if_exists(path: str) -> bool:
    """Remove the file `path`; False if there is none."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def rename_if_exists(source: str, target: str) -> bool:
    """Rename `source` over `target`; False if there is no `source`."""
    try:
        os.rename(source, target)
    except FileNotFoundError:
        return False
    return True


def close_quietly(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)
