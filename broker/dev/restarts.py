"""When a process that ended by itself is started again: at once the first time, then later and later."""

from __future__ import annotations

# A process that ran at least so long had come up: its next end counts as its first.
SETTLED_MS = 60_000
FIRST_DELAY_MS = 1_000
MAX_DELAY_MS = 30_000


class Restarts:
    """The delays of one process. Moments are milliseconds of any clock that does not go back."""

    def __init__(self) -> None:
        self._started_ms = 0
        self._failures = 0
        self._due_ms: int | None = None

    def on_start(self, now_ms: int) -> None:
        """It has been started."""
        self._started_ms = now_ms
        self._due_ms = None

    def on_end(self, now_ms: int) -> int:
        """It has ended by itself. Returns the milliseconds until it is due again."""
        if now_ms - self._started_ms >= SETTLED_MS:
            self._failures = 0
        delay = min(FIRST_DELAY_MS << min(self._failures - 1, 10), MAX_DELAY_MS) if self._failures else 0
        self._failures += 1
        self._due_ms = now_ms + delay
        return delay

    def is_due(self, now_ms: int) -> bool:
        """Whether it is to be started now."""
        return self._due_ms is not None and now_ms >= self._due_ms

    @property
    def is_waiting(self) -> bool:
        """Whether it has ended and will be started again."""
        return self._due_ms is not None
