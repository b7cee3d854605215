"""Waiting for something that only looking can tell."""

from __future__ import annotations

import threading
from collections.abc import Callable

from timer.clock import Clock


def wait_until(ready: Callable[[], bool], clock: Clock, timeout_ms: int, interval_ms: int = 50) -> bool:
    """Look every ``interval_ms`` until ``ready()``; False when the time is over."""
    deadline = clock.monotonic_ms() + timeout_ms
    pause = threading.Condition()
    while not ready():
        if clock.monotonic_ms() >= deadline:
            return False
        with pause:
            clock.wait(pause, interval_ms)
    return True
