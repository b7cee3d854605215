"""The controller's last events and state transitions, kept while somebody looks."""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING, Any

from controller.states import PartitionReplica

if TYPE_CHECKING:
    from controller.controller import Controller
    from log.topic_partition import TopicPartition
    from timer.clock import Clock

EVENTS, TRANSITIONS, WAITING = 60, 120, 40


class ControllerTrail:
    """The last of both, each with a number that grows by one. Noted on the event thread, read on another."""

    def __init__(self, controller: Controller, clock: Clock) -> None:
        self._controller = controller
        self._clock = clock
        self._events: deque[dict[str, Any]] = deque(maxlen=EVENTS)
        self._transitions: deque[dict[str, Any]] = deque(maxlen=TRANSITIONS)
        self._numbers = itertools.count(1)

    def look(self, on: bool) -> None:
        """Begin to note, or stop and forget."""
        self._controller.events.on_processed = self._processed if on else None
        self._controller.context.on_change = self._changed if on else None
        if not on:
            self._events.clear()
            self._transitions.clear()

    def view(self) -> dict[str, Any]:
        """What is noted, with the queue as it is."""
        controller = self._controller
        waiting = controller.events.waiting()
        return {
            "active": controller.is_active,
            "controller": controller.active_controller_id,
            "epoch": controller.epoch,
            "state": controller.events.state.name,
            "waiting": waiting[:WAITING],
            "queued": len(waiting),
            "events": _copied(self._events),
            "transitions": _copied(self._transitions),
        }

    def _processed(self, name: str, waited_ms: float, took_ms: float) -> None:
        at = self._clock.wall_ms()
        number = next(self._numbers)
        self._events.append({"n": number, "at": at, "name": name, "waited": waited_ms, "took": took_ms})

    def _changed(self, what: TopicPartition | PartitionReplica, old: str, new: str) -> None:
        if old == new:
            return
        replica = what.replica if isinstance(what, PartitionReplica) else None
        name = str(what.partition) if isinstance(what, PartitionReplica) else str(what)
        change = {"partition": name, "replica": replica, "from": old, "to": new}
        self._transitions.append({"n": next(self._numbers), "at": self._clock.wall_ms(), **change})


def _copied(trail: deque[dict[str, Any]]) -> list[dict[str, Any]]:
    """A deque may grow while it is copied: then once more."""
    while True:
        try:
            return list(trail)
        except RuntimeError:
            continue
