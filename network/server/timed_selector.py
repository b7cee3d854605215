"""A selector that knows how much of its time was spent waiting."""

from __future__ import annotations

import selectors
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timer.clock import Clock

_WINDOW_NS = 1_000_000_000


class TimedSelector(selectors.DefaultSelector):
    """Measures the waits of an event loop."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._now = clock.monotonic_ns
        self._waited_ns = 0
        self._waiting_since = 0
        self._last_waited_ns = 0
        self._last_asked_ns = clock.monotonic_ns()
        self._ratio = 1.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        began = self._waiting_since = self._now()
        try:
            return super().select(timeout)
        finally:
            self._waiting_since = 0
            self._waited_ns += self._now() - began

    def idle_ratio(self) -> float:
        """Share of the last second or longer that was spent waiting, from 0 to 1. From any thread."""
        now = self._now()
        span = now - self._last_asked_ns
        if span >= _WINDOW_NS:
            since = self._waiting_since
            waited = self._waited_ns + (now - since if since else 0)
            self._ratio = min(1.0, max(0.0, (waited - self._last_waited_ns) / span))
            self._last_asked_ns, self._last_waited_ns = now, waited
        return self._ratio
