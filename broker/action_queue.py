"""Purgatory checks put off until no lock is held.

An append may complete operations whose callbacks take locks of other groups or partitions. Code that appends while it
holds such a lock therefore only notes the check here; the dispatcher runs the notes after the handler has returned.
An operation that appends from a timer thread (a delayed join) runs them itself in its expiration callback.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

logger = logging.getLogger(__name__)


class ActionQueue:
    """A FIFO of deferred checks; safe from any thread."""

    __slots__ = ("actions",)

    def __init__(self) -> None:
        self.actions: deque[Callable[[], object]] = deque()
        """What is queued, to be looked at; it is the same object for good."""

    def add(self, action: Callable[[], object]) -> None:
        self.actions.append(action)

    def __len__(self) -> int:
        return len(self.actions)

    def run(self) -> None:
        """Run at most as many actions as are queued now. A failing action is logged and does not stop the rest."""
        actions = self.actions
        for _ in range(len(actions)):
            try:
                action = actions.popleft()
            except IndexError:  # another thread took it
                return
            try:
                action()
            except Exception:
                logger.exception("a deferred check failed")
