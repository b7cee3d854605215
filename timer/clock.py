"""The only place that asks what time it is, and the only place that waits for it to pass.

Everything else is given a `Clock`. Daemons use `SystemClock`; tests and the simulation use `ManualClock`, whose time
moves only when they say so.
"""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Where time comes from.

    Monotonic readings are for durations and deadlines (they never go back); wall readings are for timestamps in records
    and znodes (milliseconds since the Unix epoch).
    """

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds since the same arbitrary start."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...

    def wait(self, condition: threading.Condition, timeout_ms: float | None) -> bool:
        """Wait on `condition` (which the caller holds) until notified or until the timeout passes on this clock.

        None waits without limit. Returns False if the time ran out. As with any condition, a True return does not say
        that what the caller waits for has come: test it again.
        """
        ...


class SystemClock:
    """The machine's own clock. One is as good as another, so all are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SystemClock)

    def __hash__(self) -> int:
        return hash(SystemClock)

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def wait(self, condition: threading.Condition, timeout_ms: float | None) -> bool:
        return condition.wait(None if timeout_ms is None else max(timeout_ms, 0.0) / 1000.0)


class ManualClock:
    """A clock that stands still until `advance` is called. Safe for use by many threads.

    `start_ms` and `start_wall_ms` are the two starting points. Threads that wait on this clock sleep for real until
    they are notified or until another thread advances the clock past their deadline.
    """

    def __init__(self, start_ms: int = 0, start_wall_ms: int = 1_700_000_000_000) -> None:
        self._lock = threading.Lock()
        self._now_ns = start_ms * 1_000_000
        self._wall_offset_ms = start_wall_ms - start_ms
        self._waiters: dict[object, tuple[int, threading.Condition]] = {}

    def monotonic_ms(self) -> int:
        return self._now_ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self._now_ns

    def wall_ms(self) -> int:
        return self._now_ns // 1_000_000 + self._wall_offset_ms

    def advance(self, ms: float) -> None:
        """Move time forward and wake every waiter whose deadline has come.

        Raises ValueError for a negative step. Must not be called by a thread that holds a condition others wait on.
        """
        if ms < 0:
            raise ValueError(f"a clock does not go back: {ms} ms")
        with self._lock:
            self._now_ns += round(ms * 1_000_000)
            due = [condition for deadline, condition in self._waiters.values() if deadline <= self._now_ns]
        for condition in due:
            with condition:
                condition.notify_all()

    def set_wall_ms(self, wall_ms: int) -> None:
        """Step the wall clock alone, as an administrator or NTP may, in either direction."""
        with self._lock:
            self._wall_offset_ms = wall_ms - self._now_ns // 1_000_000

    def wait(self, condition: threading.Condition, timeout_ms: float | None) -> bool:
        if timeout_ms is None:
            return condition.wait()
        waiter = object()
        with self._lock:
            deadline = self._now_ns + round(timeout_ms * 1_000_000)
            if deadline <= self._now_ns:
                return False
            self._waiters[waiter] = (deadline, condition)
        try:
            # The caller holds the condition until it sleeps, so advance() cannot notify in between.
            condition.wait()
        finally:
            with self._lock:
                del self._waiters[waiter]
        return self._now_ns < deadline

    @property
    def waiters(self) -> int:
        """How many threads sleep with a deadline on this clock (for tests that must wait until one does)."""
        with self._lock:
            return len(self._waiters)
