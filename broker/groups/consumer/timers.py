"""Timers of members: sessions, and deadlines for what a member was told to do: to give partitions up, or, if it speaks
the classic protocol, to join again or to sync.

What follows when one runs out is decided in `coordinator.py` beside this file. Both are operations of the purgatory
that the sessions of classic groups use, one a member, under the group's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from broker.groups.consumer.group import ConsumerGroup
from timer.purgatory import DelayedOperation, Purgatory

Expired = Callable[[ConsumerGroup, str], None]


class MemberTimer(DelayedOperation):
    """Runs `expired` with group and member unless it is cancelled before."""

    __slots__ = ("_expired", "_group", "_timers", "member_id")

    def __init__(
        self,
        group: ConsumerGroup,
        member_id: str,
        timers: dict[str, DelayedOperation],
        timeout_ms: int,
        expired: Expired,
    ) -> None:
        super().__init__(timeout_ms, group.lock)
        self._group = group
        self._timers = timers
        self._expired = expired
        self.member_id = member_id

    @property
    def is_current(self) -> bool:
        return self._timers.get(self.member_id) is self

    def try_complete(self) -> bool:
        return not self.is_current and self.force_complete()

    def on_complete(self) -> None:
        pass

    def on_expiration(self) -> None:
        with self._group.lock:
            if self.is_current and not self._group.is_dead:
                del self._timers[self.member_id]
                self._expired(self._group, self.member_id)


class _Kind(Enum):
    """What a timer is for; part of the key under which the purgatory watches it."""

    SESSION = "session"
    DEADLINE = "deadline"


class MemberTimers:
    """Starts and cancels timers; all methods are called under the group's lock."""

    def __init__(self, purgatory: Purgatory[DelayedOperation]) -> None:
        self._purgatory = purgatory

    def start_session(self, group: ConsumerGroup, member_id: str, timeout_ms: int, expired: Expired) -> None:
        """The member is alive now: (re)start its session."""
        self._start(group, member_id, _Kind.SESSION, timeout_ms, expired)

    def start_deadline(self, group: ConsumerGroup, member_id: str, timeout_ms: int, expired: Expired) -> None:
        """The member was told to do something."""
        self._start(group, member_id, _Kind.DEADLINE, timeout_ms, expired)

    def end_deadline(self, group: ConsumerGroup, member_id: str) -> None:
        """The member did it."""
        self._end(group, member_id, _Kind.DEADLINE)

    def end(self, group: ConsumerGroup, member_id: str) -> None:
        """The member is gone."""
        self._end(group, member_id, _Kind.SESSION)
        self._end(group, member_id, _Kind.DEADLINE)

    def _start(self, group: ConsumerGroup, member_id: str, kind: _Kind, timeout_ms: int, expired: Expired) -> None:
        timers = _timers(group, kind)
        running = timers.get(member_id)
        if running is not None and self._purgatory.restart(running, timeout_ms):
            return
        timer = timers[member_id] = MemberTimer(group, member_id, timers, timeout_ms, expired)
        self._purgatory.try_complete_else_watch(timer, ((group.group_id, member_id, kind),))

    def _end(self, group: ConsumerGroup, member_id: str, kind: _Kind) -> None:
        if _timers(group, kind).pop(member_id, None) is not None:
            self._purgatory.check_and_complete((group.group_id, member_id, kind))


def _timers(group: ConsumerGroup, kind: _Kind) -> dict[str, DelayedOperation]:
    return group.sessions if kind is _Kind.SESSION else group.deadlines
