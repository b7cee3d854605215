"""The coordinator of groups of the consumer protocol (KIP-848): heartbeats, leaving, and members that fail.

A heartbeat does everything: it enters the group, changes the subscription, makes a new target assignment where one is
due, and brings the member one step nearer to it. All its records are one batch, and the answer waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from broker.groups.classic.group import ClassicGroup
from broker.groups.consumer import assigning, membership
from broker.groups.consumer.assigning import MayDescribe
from broker.groups.consumer.assignors.spec import Partitions
from broker.groups.consumer.changes import SetCurrent, SetMember
from broker.groups.consumer.config import ConsumerGroupConfig
from broker.groups.consumer.describe import ConsumerGroupDescription, describe
from broker.groups.consumer.group import ConsumerGroup, Done
from broker.groups.consumer.metadata import TopicsView
from broker.groups.consumer.model import (
    STATIC_LEAVE_EPOCH,
    CurrentAssignment,
    MemberState,
    Subscription,
)
from broker.groups.consumer.overrides import GroupOverrides
from broker.groups.consumer.reconciliation import reconcile
from broker.groups.consumer.requests import HeartbeatCallback, HeartbeatRequest, HeartbeatResult
from broker.groups.consumer.timers import MemberTimers
from broker.groups.consumer.update import Update
from broker.groups.metadata_manager import GroupMetadataManager
from broker.groups.migration import Migration
from broker.groups.records.writer import GroupWriter
from network.protocol.errors import ApiError, ErrorCode
from timer.clock import Clock
from timer.purgatory import DelayedOperation, Purgatory

logger = logging.getLogger(__name__)


_DID_NOT_REVOKE = "did not give its partitions up in time"


class ConsumerGroupCoordinator:
    """Thread-safe: all work on a group is done under its lock. Errors that need no write are raised as ApiError."""

    def __init__(
        self,
        owned: GroupMetadataManager,
        writer: GroupWriter,
        config: ConsumerGroupConfig,
        topics: TopicsView,
        purgatory: Purgatory[DelayedOperation],
        clock: Clock,
        migration: Migration,
        new_id: Callable[[], str],
    ) -> None:
        self._owned = owned
        self._writer = writer
        self.config = config
        self.overrides = GroupOverrides(config)
        self.topics = topics
        self.timers = MemberTimers(purgatory)
        self._clock = clock
        self._migration = migration
        self._new_id = new_id

    # --- life ---

    def on_loaded(self, group: ConsumerGroup) -> None:
        """All members get a full session, and those that give partitions up all their time for it."""
        with group.lock:
            self._watch_all(group)

    def on_unloaded(self, group: ConsumerGroup) -> None:
        """The group is another coordinator's, or gone."""
        with group.lock:
            group.die()
            for member_id in group.members:
                self.timers.end(group, member_id)

    def on_commit(self, group: ConsumerGroup, member_id: str) -> None:
        """A commit says nothing about a member: only heartbeats keep its session."""

    # --- heartbeats ---

    def heartbeat(self, request: HeartbeatRequest, callback: HeartbeatCallback) -> None:
        """Answer a member whose request passed `check`.

        `callback` runs when what changed is stored, under the group's lock, and must not block.
        """
        if request.epoch == 0:
            group = self._owned.ensure_as(request.group_id, ConsumerGroup)
        else:
            group = self._owned.find_as(request.group_id, ConsumerGroup)
        if group is None:
            self._upgrade(request, callback)
            return
        with group.lock:
            if group.is_dead:
                raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if request.epoch < 0:
                self._leave(group, request, callback)
            else:
                self._heartbeat(Update(group), request, callback)

    def _upgrade(self, request: HeartbeatRequest, callback: HeartbeatCallback) -> None:
        """The first member of the consumer protocol comes to a classic group with members."""
        classic = self._owned.find_as(request.group_id, ClassicGroup) if request.epoch == 0 else None
        if classic is not None:
            with classic.lock:
                update = self._migration.upgrade(classic)
                if update is not None:
                    self._heartbeat(update, request, callback)
                    self._watch_all(update.group)
                    return
        raise _not_found(request.group_id)

    def _heartbeat(self, update: Update, request: HeartbeatRequest, callback: HeartbeatCallback) -> None:
        group = update.group
        member_id = request.member_id or self._new_id()
        try:
            if member_id not in group.members and len(group.members) >= self.config.max_size:
                raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group has {self.config.max_size} members")
            before = self._identify(group, update, request, member_id)
            subscription = request.updated(group.members.get(member_id))
            self.subscribe(update, member_id, subscription, request.may_describe)
            assigning.assign(update, self.config.assignors)
            after = self.reconcile(update, member_id, request.owned)
        except Exception:
            self.undo(update)
            raise
        self.restart_session(group, member_id)
        is_told = request.epoch == 0 or request.is_full or before.assigned != after.assigned
        result = HeartbeatResult(
            ErrorCode.NONE,
            member_id,
            after.epoch,
            self.overrides.heartbeat_interval_ms(group.group_id),
            after.assigned if is_told else None,
        )
        self.write(update, _answer(callback, result))

    def _identify(
        self, group: ConsumerGroup, update: Update, request: HeartbeatRequest, member_id: str
    ) -> CurrentAssignment:
        """Checks who sends, and returns what the member had."""
        if request.epoch == 0:
            replaced = membership.enter(group, update, member_id, request.instance_id, request.owned)
            if replaced is not None:
                self.timers.end(group, replaced)
        else:
            if request.instance_id is None:
                membership.require_member(group, member_id)
            else:
                membership.require_static(group, member_id, request.instance_id)
            membership.check_epoch(group.current(member_id), request.epoch, request.owned)
        return group.current(member_id)

    def subscribe(
        self, update: Update, member_id: str, after: Subscription, may_describe: MayDescribe | None = None
    ) -> None:
        """Take a member in, or its new subscription, and begin a new epoch where that or the topics call for one."""
        group = update.group
        before = group.members.get(member_id)
        if before is None:
            logger.info("group %s: member %s joins", group.group_id, member_id)
            is_changed = bool(after.topics or after.regex)
        else:
            is_changed = (before.topics, before.regex) != (after.topics, after.regex)
        if before != after:
            update.make(SetMember(member_id, after))
        assigning.refresh_epoch(
            update,
            self.topics(),
            self._clock.wall_ms(),
            is_subscription_changed=is_changed or group.epoch == 0,
            may_describe=may_describe,
        )

    def reconcile(self, update: Update, member_id: str, owned: Partitions | None) -> CurrentAssignment:
        """Bring a member one step nearer to its target; returns what it has then."""
        group = update.group
        before = group.current(member_id)
        after = reconcile(before, group.target_epoch, group.target(member_id), owned, group.is_free)
        if after is before:
            return before
        update.make(SetCurrent(member_id, after))
        logger.info(
            "group %s: member %s at epoch %d is %s with %d partitions, %d to give up",
            group.group_id,
            member_id,
            after.epoch,
            after.state.name,
            len(after.assigned),
            len(after.revoking),
        )
        self.timers.end_deadline(group, member_id)
        if after.state is MemberState.UNREVOKED_PARTITIONS and group.members[member_id].classic is None:
            self.start_deadline(group, member_id, _DID_NOT_REVOKE)
        return after

    def describe(self, group_id: str) -> ConsumerGroupDescription:
        """Raises ApiError(GROUP_ID_NOT_FOUND) for any other group."""
        group = self._owned.find_as(group_id, ConsumerGroup)
        if group is not None:
            with group.lock:
                if not group.is_dead:
                    return describe(group, next(iter(self.config.assignors)))
        raise _not_found(group_id)

    # --- leaving ---

    def _leave(self, group: ConsumerGroup, request: HeartbeatRequest, callback: HeartbeatCallback) -> None:
        member_id = request.member_id
        if request.instance_id is None:
            membership.require_member(group, member_id)
        else:
            membership.require_static(group, member_id, request.instance_id)
        result = _answer(callback, HeartbeatResult(ErrorCode.NONE, member_id, request.epoch))
        if request.epoch == STATIC_LEAVE_EPOCH:
            self._leave_for_a_while(group, member_id, result)
        else:
            self.remove(group, [member_id], "leaves", result)

    def _leave_for_a_while(self, group: ConsumerGroup, member_id: str, done: Done) -> None:
        """The partitions stay reserved until the session ends."""
        update = Update(group)
        current = group.current(member_id)
        update.make(
            SetCurrent(member_id, CurrentAssignment(STATIC_LEAVE_EPOCH, current.epoch, current.state, current.assigned))
        )
        self.timers.end_deadline(group, member_id)
        logger.info("group %s: static member %s leaves for a while", group.group_id, member_id)
        self.write(update, done)

    def remove(self, group: ConsumerGroup, member_ids: Iterable[str], reason: str, done: Done) -> None:
        """Take members out and begin a new epoch; called under the group's lock."""
        update = Update(group)
        for member_id in member_ids:
            logger.info("group %s: member %s %s", group.group_id, member_id, reason)
            membership.forget(update, member_id)
            self.timers.end(group, member_id)
        assigning.refresh_epoch(update, self.topics(), self._clock.wall_ms(), is_subscription_changed=True)
        self.write(update, done)
        self._migration.downgrade(group, self.timers.end)

    def downgrade_replaced(self, group: ConsumerGroup) -> None:
        """The group speaks the classic protocol again if the static member that was just replaced was the last that
        did not; called under the group's lock."""
        self._migration.downgrade(group, self.timers.end, is_replaced=True)

    # --- timers ---

    def restart_session(self, group: ConsumerGroup, member_id: str) -> None:
        """The member is alive now. One that speaks the classic protocol has a session timeout of its own."""
        classic = group.members[member_id].classic
        if classic is None:
            timeout_ms = self.overrides.session_timeout_ms(group.group_id)
        else:
            timeout_ms = classic.session_timeout_ms
        self.timers.start_session(group, member_id, timeout_ms, self._on_session_over)

    def _on_session_over(self, group: ConsumerGroup, member_id: str) -> None:
        if member_id in group.members:
            self._fence(group, member_id, "missed its heartbeats")

    def start_deadline(self, group: ConsumerGroup, member_id: str, failure: str) -> None:
        """The member is removed unless the deadline ends before its rebalance timeout; `failure` is for the log."""

        def over(group: ConsumerGroup, member_id: str) -> None:
            if member_id in group.members:
                self._fence(group, member_id, failure)

        self.timers.start_deadline(group, member_id, group.members[member_id].rebalance_timeout_ms, over)

    def _fence(self, group: ConsumerGroup, member_id: str, reason: str) -> None:
        self.remove(group, [member_id], reason, lambda _: None)

    def _watch_all(self, group: ConsumerGroup) -> None:
        """Start the timers that members should have and have not."""
        if group.is_dead:
            return
        for member_id in group.members:
            if member_id not in group.sessions:
                self.restart_session(group, member_id)
            is_revoking = group.current(member_id).state is MemberState.UNREVOKED_PARTITIONS
            if is_revoking and group.members[member_id].classic is None and member_id not in group.deadlines:
                self.start_deadline(group, member_id, _DID_NOT_REVOKE)

    # --- writing ---

    def undo(self, update: Update) -> None:
        """Take back what a request changed before it was refused."""
        if update:
            update.undo()
            self._watch_all(update.group)

    def write(self, update: Update, done: Done) -> None:
        """Write an update; called under the group's lock."""
        group = update.group

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                # Members that were to go may be back: they have to be watched again.
                self._watch_all(group)
            done(error)

        update.write(self._writer, written)


def _not_found(group_id: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id}")


def _answer(callback: HeartbeatCallback, result: HeartbeatResult) -> Done:
    return lambda error: callback(result if error is ErrorCode.NONE else HeartbeatResult(error))
