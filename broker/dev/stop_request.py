"""Waiting a while, or until SIGTERM or SIGINT asks for the end."""

from __future__ import annotations

import os
import selectors
import signal


class StopRequest:
    """From its making on the two signals no longer end the process. To be made on the main thread, once.

    The interpreter writes the signal's number into a pipe, so that a wait ends whatever thread the signal comes to.
    """

    def __init__(self) -> None:
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self.is_set = False
        self.selector = selectors.DefaultSelector()
        self.selector.register(self._reader, selectors.EVENT_READ)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self.is_set = True

    def wait(self, timeout_ms: float) -> list[selectors.SelectorKey]:
        """Returns after the time, at once when a stop is asked for, or when something else that was registered with
        ``selector`` is ready to be read."""
        if self.is_set:
            timeout_ms = 0
        ready = self.selector.select(timeout_ms / 1000)
        keys = [key for key, _ in ready]
        if any(key.fd == self._reader for key in keys):
            os.read(self._reader, 4096)
        return [key for key in keys if key.fd != self._reader]
