"""Timers of members: sessions, and deadlines for what a member was told to do: to give partitions up, or, if it speaks
the classic protocol, to join again or to sync.

Both are operations of the purgatory that the sessions of classic groups use, one a member, under the group's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
        timers: dict[str, MemberTimer],
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


class MemberTimers:
    """Starts and cancels timers; all methods are called under the group's lock."""

    def __init__(self, purgatory: Purgatory[Any]) -> None:
        self._purgatory = purgatory

    def start_session(self, group: ConsumerGroup, member_id: str, timeout_ms: int, expired: Expired) -> None:
        """The member is alive now: (re)start its session."""
        self._start(group, member_id, group.sessions, timeout_ms, expired)

    def start_deadline(self, group: ConsumerGroup, member_id: str, timeout_ms: int, expired: Expired) -> None:
        """The member was told to do something."""
        self._start(group, member_id, group.deadlines, timeout_ms, expired)

    def end_deadline(self, group: ConsumerGroup, member_id: str) -> None:
        """The member did it."""
        self._end(group, member_id, group.deadlines)

    def end(self, group: ConsumerGroup, member_id: str) -> None:
        """The member is gone."""
        self._end(group, member_id, group.sessions)
        self._end(group, member_id, group.deadlines)

    def _start(
        self, group: ConsumerGroup, member_id: str, timers: dict[str, MemberTimer], timeout_ms: int, expired: Expired
    ) -> None:
        running = timers.get(member_id)
        if running is not None and self._purgatory.restart(running, timeout_ms):
            return
        timer = timers[member_id] = MemberTimer(group, member_id, timers, timeout_ms, expired)
        self._purgatory.try_complete_else_watch(timer, (_key(group, member_id, timers),))

    def _end(self, group: ConsumerGroup, member_id: str, timers: dict[str, MemberTimer]) -> None:
        if timers.pop(member_id, None) is not None:
            self._purgatory.check_and_complete(_key(group, member_id, timers))


def _key(group: ConsumerGroup, member_id: str, timers: dict[str, MemberTimer]) -> tuple[str, str, bool]:
    return group.group_id, member_id, timers is group.sessions
