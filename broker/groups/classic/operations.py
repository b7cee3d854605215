"""What waits for members: joins, syncs and heartbeats, as delayed operations under the group's lock.

| operation | key | complete when | at the timeout |
|---|---|---|---|
| InitialDelayedJoin | `join-<group>` | never early | waits once more if somebody new came, else ends the join phase |
| DelayedJoin | `join-<group>` | all members have joined and no id is pending | ends the join phase |
| DelayedSync | `sync-<group>` | all members have sent SyncGroup, or the generation is over | drops who has not |
| DelayedHeartbeat | (group, member) | the member is gone | drops the member |
"""

from __future__ import annotations

from typing import Protocol

from broker.groups.classic.group import ClassicGroup
from timer.purgatory import DelayedOperation


class Phases(Protocol):
    """What the operations ask and tell; `Rebalancer` is it."""

    def complete_join(self, group: ClassicGroup) -> None:
        """The join phase is over."""

    def wait_longer(self, group: ClassicGroup, waited_ms: int, remaining_ms: int) -> None:
        """The initial delay is over, and somebody new came."""

    def is_sync_over(self, group: ClassicGroup, generation_id: int) -> bool:
        """Whether all members of the generation have sent SyncGroup, or it is over."""

    def expire_sync(self, group: ClassicGroup, generation_id: int) -> None:
        """The time for SyncGroup is over."""

    def is_session_over(self, group: ClassicGroup, operation: DelayedHeartbeat) -> bool:
        """Whether the operation has nothing left to watch."""

    def expire_session(self, group: ClassicGroup, operation: DelayedHeartbeat) -> None:
        """A session's time is up."""


def join_key(group_id: str) -> str:
    return f"join-{group_id}"


def sync_key(group_id: str) -> str:
    return f"sync-{group_id}"


class DelayedJoin(DelayedOperation):
    """The join phase of a group that has had a generation."""

    __slots__ = ("_group", "_phases")

    def __init__(self, phases: Phases, group: ClassicGroup, timeout_ms: int) -> None:
        super().__init__(timeout_ms, group.lock)
        self._phases = phases
        self._group = group

    def try_complete(self) -> bool:
        return self._group.has_all_members_joined and self.force_complete()

    def on_complete(self) -> None:
        self._phases.complete_join(self._group)


class InitialDelayedJoin(DelayedOperation):
    """The join phase of a group that was empty: a fixed wait, repeated while new members come (KIP-134)."""

    __slots__ = ("_group", "_phases", "_remaining_ms")

    def __init__(self, phases: Phases, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        super().__init__(delay_ms, group.lock)
        self._phases = phases
        self._group = group
        self._remaining_ms = remaining_ms

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        with self._group.lock:
            if self._group.new_member_added and self._remaining_ms > 0:
                self._group.new_member_added = False
                self._phases.wait_longer(self._group, self.delay_ms, self._remaining_ms)
            else:
                self._phases.complete_join(self._group)


class DelayedSync(DelayedOperation):
    """The members' SyncGroups of one generation."""

    __slots__ = ("_generation_id", "_group", "_phases")

    def __init__(self, phases: Phases, group: ClassicGroup, generation_id: int, timeout_ms: int) -> None:
        super().__init__(timeout_ms, group.lock)
        self._phases = phases
        self._group = group
        self._generation_id = generation_id

    def try_complete(self) -> bool:
        return self._phases.is_sync_over(self._group, self._generation_id) and self.force_complete()

    def on_complete(self) -> None:
        pass

    def on_expiration(self) -> None:
        self._phases.expire_sync(self._group, self._generation_id)


class DelayedHeartbeat(DelayedOperation):
    """The session of a member, or of an id that was handed out and has not joined."""

    __slots__ = ("_group", "_phases", "is_pending", "member_id")

    def __init__(
        self, phases: Phases, group: ClassicGroup, member_id: str, *, is_pending: bool, timeout_ms: int
    ) -> None:
        super().__init__(timeout_ms, group.lock)
        self._phases = phases
        self._group = group
        self.member_id = member_id
        self.is_pending = is_pending

    def try_complete(self) -> bool:
        return self._phases.is_session_over(self._group, self) and self.force_complete()

    def on_complete(self) -> None:
        pass

    def on_expiration(self) -> None:
        self._phases.expire_session(self._group, self)
