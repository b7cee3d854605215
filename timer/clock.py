"""The one place that asks the time.

Everything that needs the time is handed a :class:`Clock`; so tests and the simulation run under a
:class:`ManualClock` and nothing in them sleeps.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic time for durations, wall time for timestamps, and waiting."""

    def monotonic_ms(self) -> int:
        """Milliseconds of a clock that never goes back; its zero is arbitrary."""

    def monotonic_ns(self) -> int:
        """The same clock in nanoseconds."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC; may jump."""

    def wait(self, condition: threading.Condition, timeout_ms: float | None) -> bool:
        """Wait on a held condition; False when the time passed without a notification. None waits for ever."""


class SystemClock:
    """The machine's clock."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def wait(self, condition: threading.Condition, timeout_ms: float | None) -> bool:
        return condition.wait(None if timeout_ms is None else max(0.0, timeout_ms) / 1000)


class ManualClock:
    """A clock that moves only by :meth:`advance`. Safe to read from any thread."""

    def __init__(self, start_ms: int = 0, start_wall_ms: int = 1_700_000_000_000) -> None:
        self._lock = threading.Condition()
        self._now_ms = start_ms
        self._wall_offset_ms = start_wall_ms - start_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def monotonic_ns(self) -> int:
        return self._now_ms * 1_000_000

    def wall_ms(self) -> int:
        return self._now_ms + self._wall_offset_ms

    def advance(self, ms: int) -> None:
        """Move both times forward. Raises ValueError for a negative step."""
        if ms < 0:
            raise ValueError(f"the clock can't go back by {-ms} ms")
        with self._lock:
            self._now_ms += ms

    def wait(self, condition: threading.Condition, timeout_ms: float | None) -> bool:
        """Return at once when a timeout is given (the caller looks at the clock again), else wait to be notified."""
        if timeout_ms is not None:
            return False
        return condition.wait()
