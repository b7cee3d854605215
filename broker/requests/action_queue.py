"""Purgatory checks put off until no lock is held.

An append may complete operations whose callbacks take locks of other groups or partitions. Code that appends while it
holds such a lock therefore only notes the check here. The notes are run where a thread holds no lock: by the dispatcher
after the handler has returned, and after each step of every worker (`timer.worker`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

logger = logging.getLogger(__name__)

MAX_ROUNDS = 16
"""Far more than the longest chain: the answer to an append that appends again, and the answer to that."""


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
        """Run what is queued, and what that queues in turn. A failing action is logged and does not stop the rest.

        An action may answer a coordinator that appends again, so a turn takes a few rounds. Others add meanwhile, and
        run what they add: after `MAX_ROUNDS` this leaves the rest to them.
        """
        actions = self.actions
        for _ in range(MAX_ROUNDS):
            if not actions:
                return
            for _ in range(len(actions)):
                try:
                    action = actions.popleft()
                except IndexError:  # another thread took it
                    return
                try:
                    action()
                except Exception:
                    logger.exception("a deferred check failed")
