"""Open files that are shared by reference, and ranges of them that are handed to the network.

A range keeps its file open. A segment may be truncated, renamed or deleted while a range of it is being sent: the
descriptor closes when the segment has let go of it and the last range is released, whichever comes later.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from threading import Lock
from typing import Protocol

from log.files.handles import pread_fully


class OpenFile:
    """An open descriptor. It closes when nobody refers to this object any more.

    The interpreter's own reference count is the count: a reference can be taken and dropped from any thread, and a
    holder that dies without releasing leaks nothing.
    """

    __slots__ = ("__weakref__", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        # The module may be half torn down at interpreter exit.
        close = getattr(os, "close", None)
        if close is not None and self.fd >= 0:
            close(self.fd)


class LogFileRange:
    """`size` bytes at `position` of an open log file; what `network` calls a file range.

    `fd` is usable until `release()`, and -1 afterwards. `read()` copies the bytes out, for readers that are not
    sockets; it raises `EOFError` if the file has been cut below the end of the range.
    """

    __slots__ = ("_file", "fd", "position", "size")

    def __init__(self, file: OpenFile, position: int, size: int) -> None:
        self._file: OpenFile | None = file
        self.fd = file.fd
        self.position = position
        self.size = size

    def read(self) -> bytes:
        if self._file is None:
            raise ValueError("the file range has been released")
        return pread_fully(self.fd, self.size, self.position)

    def slice(self, size: int) -> LogFileRange:
        """The first `size` bytes as a range of their own, with their own release."""
        if self._file is None:
            raise ValueError("the file range has been released")
        return LogFileRange(self._file, self.position, min(size, self.size))

    def release(self) -> None:
        """Give the file back. A second call does nothing."""
        self._file = None
        self.fd = -1

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"LogFileRange(fd={self.fd}, position={self.position}, size={self.size})"


class Closable(Protocol):
    """What the open-file bound may close when another file needs the place."""

    def close_idle(self) -> bool:
        """Close if nobody is using it right now; False if it is in use. Never blocks."""
        ...


class OpenFileBound:
    """Keeps at most `limit` sealed files and mappings open; the least recently used one is closed first.

    Only files that can be opened again at any time are registered: active segments are not. One bound serves all logs
    of a broker.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError("the bound on open files must be at least 1")
        self.limit = limit
        self._lock = Lock()
        self._open: OrderedDict[int, Closable] = OrderedDict()

    def touch(self, file: Closable) -> None:
        """`file` has just been opened or used."""
        with self._lock:
            self._open[id(file)] = file
            self._open.move_to_end(id(file))
            if len(self._open) <= self.limit:
                return
            victim = self._open.popitem(last=False)[1]
        # Outside of the lock: closing takes the file's own lock, whose holder may be in touch() or forget().
        if not victim.close_idle():
            with self._lock:
                self._open[id(victim)] = victim

    def forget(self, file: Closable) -> None:
        """`file` is closed or pinned."""
        with self._lock:
            self._open.pop(id(file), None)

    def __len__(self) -> int:
        return len(self._open)


DEFAULT_OPEN_FILES = 4096
