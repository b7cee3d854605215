"""What a broker that has just started does not answer before it knows of the other brokers.

Whoever asks for brokers, or wants topics placed on them, would be answered from half a view until the controller's
first UpdateMetadata. Such requests (`needs_brokers` in the handler table) are held here, undecided, until that has come
or until the time limit: a cluster without a controller still has to name its brokers to clients.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from timer.scheduler import Scheduler

logger = logging.getLogger(__name__)

HOLD_MS = 5_000
"""How long requests wait for a controller's first word, counted from when the broker begins to serve."""

Serve = Callable[[], None]


class StartGate:
    """Open unless `close` is called, and open for good after `open`. Thread-safe.

    A connection has one request in flight, so `max.connections` bounds what is held.
    """

    def __init__(self) -> None:
        self.is_open = True
        self._lock = threading.Lock()
        self._held: list[Serve] = []
        self._scheduler: Scheduler | None = None

    def close(self, scheduler: Scheduler) -> None:
        """Hold requests from now on, at most for `HOLD_MS`; `scheduler` runs those that were held."""
        self._scheduler = scheduler
        self.is_open = False
        scheduler.schedule_once("requests held at the start", self._expire, HOLD_MS)

    def holds(self, serve: Serve) -> bool:
        """Whether the request has to wait; `serve` is then called when it may go on."""
        if self.is_open:
            return False
        with self._lock:
            if self.is_open:
                return False
            self._held.append(serve)
            return True

    def open(self) -> None:
        """Let everything through, what was held first; it runs on a thread of the scheduler."""
        if self.is_open:
            return
        with self._lock:
            self.is_open = True
            held, self._held = self._held, []
        assert self._scheduler is not None
        for serve in held:
            self._scheduler.schedule_once("request held at the start", serve)

    def _expire(self) -> None:
        if not self.is_open:
            logger.warning("no controller has told of the live brokers yet: clients are shown this broker alone")
            self.open()
