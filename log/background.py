"""Small writes of many logs, off the path of whoever causes them.

A controller's request may give thousands of partitions a log and a leader at once. Writing and syncing what belongs to
each beside that costs more than the request itself: the file system makes new files wait for the journal that every
sync writes. So such writes are put off until the request is done, and then made by a few workers, so that syncs of
several logs share a write of the journal.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timer.scheduler import Scheduler

# More would take the threads that the broker's periodic tasks need.
WORKERS = 4


class BackgroundWrites:
    """Runs writes soon on the scheduler's threads; while one `held` block is open, after it.

    What waits is bounded by the partitions that the request names, two writes each.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._holders = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def soon(self, name: str, write: Callable[[], None]) -> None:
        """Have `write` done; what it raises is logged under `name` or, after it was held, under that of all."""
        with self._lock:
            if self._holders:
                self._waiting.append(write)
                return
        self._scheduler.schedule_once(name, write)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Put off all writes until the block, and others that run at the same time, are over."""
        with self._lock:
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                workers = 0 if self._holders else min(WORKERS, len(self._waiting))
            self._start(workers)

    def _start(self, workers: int) -> None:
        for _ in range(workers):
            self._scheduler.schedule_once("background-writes", self._work)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                write = self._waiting.popleft()
            try:
                write()
            except BaseException:
                # The scheduler logs it; those behind it have their turn all the same.
                self._start(1)
                raise
