"""Handles failed log directories, one by one, on a thread of its own.

Whoever meets an I/O error only enqueues: it may hold any lock. The thread takes the partitions of the directory
offline and tells the controller; the partitions stay offline until the broker restarts. When no directory is left the
process halts.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable

from timer.clock import Clock

logger = logging.getLogger(__name__)


class LogDirFailures:
    """`on_failure` may be called from anywhere, before `start` too."""

    def __init__(self, handle: Callable[[str], None], clock: Clock) -> None:
        self._handle = handle
        self._clock = clock
        self._failed: deque[str] = deque()
        self._seen: set[str] = set()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._loop, name="LogDirFailureHandler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def on_failure(self, directory: str) -> None:
        with self._changed:
            if directory in self._seen:
                return
            self._seen.add(directory)
            self._failed.append(directory)
            self._changed.notify()

    @property
    def failed(self) -> Iterable[str]:
        """Every directory that has failed since the start."""
        return tuple(self._seen)

    def step(self) -> bool:
        """Handle one failure; `False` if there is none."""
        with self._changed:
            if not self._failed:
                return False
            directory = self._failed.popleft()
        try:
            self._handle(directory)
        except Exception:
            logger.exception("handling the failure of %s failed", directory)
        return True

    def shutdown(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def _loop(self) -> None:
        while not self._closed:
            if not self.step():
                with self._changed:
                    if not self._failed and not self._closed:
                        self._clock.wait(self._changed, None)
