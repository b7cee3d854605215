"""A warning that would come with every try is told once: again when it changes, or after a long while."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from timer.clock import Clock

AGAIN_MS: Final = 600_000
LIMIT: Final = 1_000


class News:
    """Thread-safe. Subjects beyond `limit` are forgotten, those first that were told of longest ago."""

    def __init__(self, clock: Clock, again_ms: int = AGAIN_MS, limit: int = LIMIT) -> None:
        self._clock = clock
        self._again_ms = again_ms
        self._limit = limit
        self._lock = threading.Lock()
        self._told: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()  # what was told of each, and when

    def is_new(self, subject: Hashable, what: object = None) -> bool:
        """Whether to tell `what` of the subject: something else was told last, or this for the last time long ago."""
        now = self._clock.monotonic_ms()
        with self._lock:
            before = self._told.get(subject)
            if before is not None and before[0] == what and now - before[1] < self._again_ms:
                return False
            self._told[subject] = (what, now)
            self._told.move_to_end(subject)
            if len(self._told) > self._limit:
                self._told.popitem(last=False)
            return True

    def is_over(self, subject: Hashable) -> bool:
        """It is well again, and whatever comes next is new. Whether anything had been told of it."""
        if subject not in self._told:  # lock-free: one look, and almost always enough
            return False
        with self._lock:
            return self._told.pop(subject, None) is not None


def of_error(error: BaseException) -> tuple[type[BaseException], str]:
    """What is told of an error: two of one type and text are the same."""
    return type(error), str(error)
