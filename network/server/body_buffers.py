"""Buffers for the bodies of large requests."""

from __future__ import annotations

import mmap

_KEPT_BYTES = 1 << 20


class BodyBuffers:
    """Gives one processor its buffers; used from its thread only.

    A fresh buffer is cleared byte by byte, to be filled at once. So one of up to 1 MiB is kept and given out again once
    the last view of it is gone: a handler that keeps a part of a request for later keeps the buffer too, and the next
    request gets another. Views are what counts: who holds the buffer itself has to hold a view of it as well.
    """

    def __init__(self) -> None:
        self._kept = bytearray()

    def take(self, size: int, lazy: int) -> memoryview:
        """A writable buffer of `size` bytes, to be filled before it is read. One of `lazy` or more costs memory only as
        its bytes really come: it takes a little longer to make, and so much the more for those who only announce it."""
        if size >= lazy:
            return memoryview(mmap.mmap(-1, size))
        kept = self._kept
        if size <= len(kept) and not _has_views(kept):
            return memoryview(kept)[:size]
        fresh = bytearray(size)
        if len(kept) < size <= _KEPT_BYTES:
            self._kept = fresh
        return memoryview(fresh)


def _has_views(buffer: bytearray) -> bool:
    # The interpreter counts the views of a bytearray and refuses to resize it while there are any. Its count of
    # references would not do: from 3.14 on what stands on a frame's stack is not always counted.
    try:
        buffer.append(0)
    except BufferError:
        return True
    buffer.pop()
    return False
