"""Waking a thread that waits in a selector."""

from __future__ import annotations

import contextlib
import socket


class WakeUp:
    """A socket pair: `wake` from any thread makes `fileno` readable until `clear`."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def fileno(self) -> int:
        return self._reader.fileno()

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # full: the reader has been woken already
            self._writer.send(b"\0")

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while len(self._reader.recv(4096)) == 4096:
                pass

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
