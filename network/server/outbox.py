"""What a connection still has to send: buffers by gathered writes, file ranges by sendfile."""

from __future__ import annotations

import errno
import os
from collections import deque
from typing import Any, Final

from network.server.file_range import FileRange, is_file_range
from network.server.transport import Transport

# What became of a write.
DONE: Final = 0
BLOCKED: Final = 1  # the socket takes no more; go on when it is writable
COLD: Final = 2  # the next file bytes are not in the page cache; warm them elsewhere, then go on

_GATHER_MAX = 64
_CHUNK = 1 << 20
_WRITE_BUDGET = 4 << 20
_PROBE_STRIDE = 128 << 10
_SMALL_RANGE = 8 << 10
_SMALL_TOTAL = 64 << 10

_CANNOT_TELL = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)

_probe_supported = hasattr(os, "preadv") and hasattr(os, "RWF_NOWAIT")
_probe_buffers = [bytearray(1)]


class ShortFile(OSError):
    """A file ended before its range did: what was promised to the peer cannot be sent, so the connection closes."""


def in_page_cache(fd: int, position: int, size: int) -> bool:
    """Whether a read of the range would not wait for the disk, as far as probing one byte every 128 KiB tells.

    A file system that cannot tell counts as cached.
    """
    global _probe_supported
    if not _probe_supported or size <= 0:
        return True
    last = position + size - 1
    at = position
    try:
        while True:
            os.preadv(fd, _probe_buffers, at, os.RWF_NOWAIT)
            if at == last:
                return True
            at = min(at + _PROBE_STRIDE, last)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _CANNOT_TELL:
            _probe_supported = error.errno == errno.EOPNOTSUPP  # a property of one file system, not of the kernel
            return True
        raise


def read_cached(fd: int, position: int, size: int) -> bytearray | None:
    """A range that is in the page cache; None when it is not, or not in full. As with `in_page_cache`, a file system
    that cannot tell counts as cached."""
    buffer = bytearray(size)
    if not size:
        return buffer
    try:
        count = os.preadv(fd, [buffer], position, os.RWF_NOWAIT if _probe_supported else 0)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno not in _CANNOT_TELL:
            return None  # the usual way will find it too
        count = os.preadv(fd, [buffer], position)
    return buffer if count == size else None


def read_small_ranges(parts: list[Any]) -> list[Any]:
    """The gather list with its small cached file ranges read and joined with the buffers around them.

    A small answer is then one `send`, where header, probe of the page cache and file would be three system calls. Reads
    and joins at most `_SMALL_TOTAL` bytes, so that a slow peer's answer does not lie in memory; ranges that are read
    are released.
    """
    out: list[Any] = []
    joined: list[Any] = []
    left = _SMALL_TOTAL
    for part in parts:
        is_range = is_file_range(part)
        size = part.size if is_range else len(part)
        piece = part
        if is_range:
            piece = read_cached(part.fd, part.position, size) if size <= min(left, _SMALL_RANGE) else None
        if piece is None or size > left:
            if joined:
                out.append(b"".join(joined))
                joined = []
            out.append(part)
            continue
        if is_range:
            part.release()
        left -= size
        joined.append(piece)
    if joined:
        out.append(b"".join(joined))
    return out


class Outbox:
    """The parts not yet sent, in order. Owns its file ranges: each is released once, when sent or on `clear`."""

    __slots__ = ("_cold", "_parts", "_range_at", "_range_end", "_warm_until")

    def __init__(self) -> None:
        self._parts: deque[Any] = deque()
        self._range_at = -1  # next file position of the range at the head; -1 before its first byte
        self._range_end = 0
        self._warm_until = 0
        self._cold: tuple[FileRange, int, int] | None = None

    def __bool__(self) -> bool:
        return bool(self._parts)

    def extend(self, parts: list[Any]) -> None:
        self._parts.extend(parts)

    def write(self, transport: Transport) -> int:
        """Send what the socket takes, within a budget that keeps one reader from holding the loop.

        Returns DONE, BLOCKED or COLD. Raises OSError when the connection is lost or a file is too short.
        """
        parts = self._parts
        budget = _WRITE_BUDGET
        try:
            while parts:
                if budget <= 0:
                    return BLOCKED
                if is_file_range(parts[0]):
                    sent = self._write_range(parts[0], transport)
                    if sent < 0:
                        return COLD
                    if 0 < self._range_at < self._warm_until:
                        return BLOCKED  # it took less than offered, so it is full: no second call to be told so
                else:
                    sent = self._write_buffers(transport)
                budget -= sent
        except BlockingIOError:
            return BLOCKED
        return DONE

    def cold(self) -> tuple[FileRange, int, int]:
        """Range, position and size to warm, after COLD. The caller must call `warmed` or give the range to
        `clear(keep=...)`."""
        assert self._cold is not None
        return self._cold

    def warmed(self) -> None:
        """The range that was COLD has been read into the page cache."""
        if self._cold is not None:
            _, position, size = self._cold
            self._warm_until = position + size
            self._cold = None

    def clear(self, keep: FileRange | None = None) -> None:
        """Drop everything; releases the file ranges, except `keep`, which somebody still reads."""
        parts, self._parts = self._parts, deque()
        for part in parts:
            if is_file_range(part) and part is not keep:
                part.release()

    def _write_buffers(self, transport: Transport) -> int:
        parts = self._parts
        if len(parts) == 1:
            sent = transport.send(parts[0])
            if sent == len(parts[0]):
                parts.clear()
            else:
                parts[0] = memoryview(parts[0])[sent:]
            return sent
        gathered: list[Any] = []
        more = False
        for part in parts:
            if is_file_range(part):
                more = True
                break
            if len(gathered) == _GATHER_MAX:
                break
            gathered.append(part)
        sent = left = transport.sendmsg(gathered, more)
        for part in gathered:
            size = len(part)
            if left < size:
                parts[0] = memoryview(part)[left:]
                break
            parts.popleft()
            left -= size
        return sent

    def _write_range(self, file_range: FileRange, transport: Transport) -> int:
        if self._range_at < 0:
            if not file_range.size:
                return self._finish_range(file_range)
            if not transport.supports_sendfile:
                self._parts[0] = file_range.read()
                file_range.release()
                return 0
            self._range_at = file_range.position
            self._range_end = file_range.position + file_range.size
            self._warm_until = file_range.position
        at = self._range_at
        if at >= self._warm_until:
            chunk = min(self._range_end - at, _CHUNK)
            if not in_page_cache(file_range.fd, at, chunk):
                self._cold = (file_range, at, chunk)
                return -1
            self._warm_until = at + chunk
        sent = transport.sendfile(file_range.fd, at, self._warm_until - at)
        if sent == 0:
            raise ShortFile(f"file ended at {at}, {self._range_end - at} bytes before the end of its range")
        self._range_at = at + sent
        if self._range_at >= self._range_end:
            self._finish_range(file_range)
        return sent

    def _finish_range(self, file_range: FileRange) -> int:
        head = self._parts.popleft()
        assert head is file_range, "a range that is not, or no longer, the first would be released twice"
        self._range_at = -1
        file_range.release()
        return 0
