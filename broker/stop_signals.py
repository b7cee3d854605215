"""Waiting for the signal that ends a program.

A handler that sets a `threading.Event` is not enough. It runs on the main thread between two bytecodes, also inside
the Event's own `wait`: there it waits for ever for a lock that its own thread holds, and so does every later signal.
And a signal that the kernel hands to another thread wakes no main thread that waits for a lock. A byte in a pipe has
neither problem: the interpreter writes it whatever thread the signal comes to, before any handler runs.
"""

from __future__ import annotations

import os
import signal

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Made by `catch_stop_signals`."""

    def __init__(self, reader: int) -> None:
        self._reader = reader
        self._come = False

    def wait(self) -> None:
        """Until one has come."""
        while os.read(self._reader, 1)[0] not in STOP_SIGNALS:
            pass

    def has_come(self) -> bool:
        """Whether one has come, for a start that takes its time."""
        return self._come

    def note(self) -> None:
        """Called by the handler, so a plain store."""
        self._come = True


def catch_stop_signals() -> StopSignals:
    """From here on SIGTERM and SIGINT do not end the process; the result tells when one has come.

    To be called from the main thread, once.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signals = StopSignals(reader)
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: signals.note())
    return signals
