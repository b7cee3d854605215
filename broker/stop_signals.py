"""Waiting for the signal that ends a program.

A handler that sets a `threading.Event` is not enough. It runs on the main thread between two bytecodes, also inside
the Event's own `wait`: there it waits for ever for a lock that its own thread holds, and so does every later signal.
And a signal that the kernel hands to another thread wakes no main thread that waits for a lock. A byte in a pipe has
neither problem: the interpreter writes it whatever thread the signal comes to, before any handler runs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def catch_stop_signals() -> Callable[[], None]:
    """From here on SIGTERM and SIGINT do not end the process; the result waits until one has come.

    To be called from the main thread, once.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: None)

    def wait() -> None:
        while os.read(reader, 1)[0] not in STOP_SIGNALS:
            pass

    return wait
