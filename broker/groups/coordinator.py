"""The group coordinator: its life, and what SyncGroup, Heartbeat and LeaveGroup do.

Checks are made in the order in which Kafka makes them; the first that fails decides. Answers that may wait are
given through callbacks, which run under the group's lock and must not block.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from broker.groups.admin import GroupAdmin
from broker.groups.base import GroupBase
from broker.groups.classic.group import Group
from broker.groups.classic.joining import Joining, JoinRequest
from broker.groups.classic.member import JoinCallback, JoinResult, SyncCallback, SyncResult
from broker.groups.classic.operations import DelayedHeartbeat
from broker.groups.classic.rebalance import Rebalancer
from broker.groups.classic.states import GroupState
from broker.groups.config import GroupConfig
from broker.groups.consumer.classic_members import ClassicMembers
from broker.groups.consumer.config import ConsumerGroupConfig
from broker.groups.consumer.coordinator import ConsumerGroups
from broker.groups.consumer.describe import ConsumerGroupDescription
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.metadata import NoTopics, TopicsView
from broker.groups.consumer.requests import HeartbeatCallback, HeartbeatRequest, check
from broker.groups.migration import Migration
from broker.groups.offsets.service import OffsetService
from broker.groups.store import GroupStore
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode
from timer.clock import Clock
from timer.metrics import Metrics
from timer.purgatory import DelayedOperation, Purgatory
from timer.scheduler import Scheduler

logger = logging.getLogger(__name__)

_METRICS = ("kafka.coordinator.group", "GroupMetadataManager")


@dataclass(frozen=True, slots=True)
class LeavingMember:
    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(slots=True)
class LeaveResult:
    """The error of the whole and of each member, in the order of the request."""

    error: ErrorCode
    members: list[tuple[LeavingMember, ErrorCode]] = field(default_factory=list)


class GroupCoordinator:
    """The coordinator of the groups whose partitions this broker leads. Thread-safe.

    `scheduler` has one thread, so that loads, unloads and the ends of transactions keep their order.
    """

    def __init__(
        self,
        store: GroupStore,
        config: GroupConfig,
        rebalances: Purgatory[DelayedOperation],
        heartbeats: Purgatory[DelayedHeartbeat],
        scheduler: Scheduler,
        clock: Clock,
        metrics: Metrics,
        new_id: Callable[[], str] | None = None,
        topics: TopicsView = NoTopics,
        consumer_config: ConsumerGroupConfig | None = None,
    ) -> None:
        self.store = store
        self.config = config
        self.rebalancer = Rebalancer(store, config, rebalances, heartbeats)
        self._rebalances = rebalances
        self._heartbeats = heartbeats
        self._scheduler = scheduler
        self._clock = clock
        self._metrics = metrics
        self._joining = (
            Joining(store, config, self.rebalancer)
            if new_id is None
            else Joining(store, config, self.rebalancer, new_id)
        )
        self._active = False
        self.offsets = OffsetService(self)
        self.admin = GroupAdmin(self)
        consumer_config = consumer_config or ConsumerGroupConfig()
        migration = Migration(store, config, consumer_config, self.rebalancer, topics, clock)
        self.consumer_groups = ConsumerGroups(store, consumer_config, topics, heartbeats, clock, migration)
        self._classic_members = ClassicMembers(self.consumer_groups, new_id or (lambda: str(uuid.uuid4())))

    # --- life ---

    def startup(self) -> None:
        """Begin to answer, and to expire offsets."""
        self._scheduler.startup()
        interval = self.config.retention_check_interval_ms
        self._scheduler.schedule("delete-expired-group-metadata", self._expire_offsets, interval, interval)
        store = self.store
        gauge = self._metrics.gauge
        gauge(*_METRICS, "NumOffsets", lambda: sum(len(group.offsets) for group in store.all_groups()))
        gauge(*_METRICS, "NumGroups", lambda: len(store.all_groups()))
        for state in GroupState:
            gauge(*_METRICS, f"NumGroups{state.value}", partial(self._count, state))
        self._active = True

    def shutdown(self) -> None:
        """Stop answering; what is stored is the next coordinator's."""
        self._active = False
        self._scheduler.shutdown()
        self._heartbeats.shutdown()
        self._rebalances.shutdown()
        for name in ("NumOffsets", "NumGroups", *(f"NumGroups{state.value}" for state in GroupState)):
            self._metrics.remove(*_METRICS, name)

    @property
    def is_active(self) -> bool:
        return self._active

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` whose leader coordinates the group."""
        return self.store.partition_of(group_id)

    def on_election(self, partition: int, leader_epoch: int) -> None:
        """This broker leads a partition of `__consumer_offsets`: load it in the background."""
        self._scheduler.schedule_once(
            f"__consumer_offsets-{partition}", lambda: self.store.load(partition, leader_epoch, self._on_loaded)
        )

    def on_resignation(self, partition: int, leader_epoch: int | None) -> None:
        """This broker leads it no longer (None: the replica is deleted): forget its groups."""
        self._scheduler.schedule_once(
            f"__consumer_offsets-{partition}", lambda: self.store.unload(partition, leader_epoch, self._on_unloaded)
        )

    def on_transaction_completed(self, producer_id: int, partitions: Iterable[int], commit: bool) -> None:
        """Markers of a transaction were written to these partitions of `__consumer_offsets`."""
        of = set(partitions)
        self._scheduler.schedule_once(
            f"handleTxnCompletion-{producer_id}", lambda: self.store.complete_transaction(producer_id, of, commit)
        )

    def on_partitions_deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """Topics were deleted: their offsets go from every group, in the background."""
        gone = list(partitions)

        def remove() -> None:
            removed = self.store.remove_offsets(self.store.all_groups(), lambda _: gone)
            logger.info("removed %d offsets of %d deleted partitions", removed, len(gone))

        self._scheduler.schedule_once("remove-offsets-of-deleted-partitions", remove)

    def _expire_offsets(self) -> None:
        self.store.expire_offsets()

    def _on_loaded(self, group: GroupBase) -> None:
        if isinstance(group, ConsumerGroup):
            self.consumer_groups.on_loaded(group)
            return
        assert isinstance(group, Group)
        with group.lock:
            if group.is_in(GroupState.EMPTY, GroupState.DEAD):
                return
            for member in group:
                self.rebalancer.restart_session(group, member)
            if group.size > self.config.max_size:
                self.rebalancer.prepare(group, f"{group.size} members are more than {self.config.max_size}")

    def _on_unloaded(self, group: GroupBase) -> None:
        if isinstance(group, ConsumerGroup):
            self.consumer_groups.on_unloaded(group)
            return
        assert isinstance(group, Group)
        with group.lock:
            group.transition_to(GroupState.DEAD)
            for member in group:
                group.answer_join(member, JoinResult(ErrorCode.NOT_COORDINATOR, member.member_id))
                group.answer_sync(member, SyncResult(ErrorCode.NOT_COORDINATOR))
                self.rebalancer.end_session(group, member)
            for member_id in list(group.pending_members):
                self.rebalancer.remove_pending(group, member_id)

    def _count(self, state: GroupState) -> int:
        return sum(isinstance(group, Group) and group.state is state for group in self.store.all_groups())

    # --- the consumer protocol ---

    @property
    def serves_consumer_protocol(self) -> bool:
        """Whether groups of KIP-848 are served."""
        return self.consumer_groups.config.is_enabled

    def consumer_group_heartbeat(self, request: HeartbeatRequest, callback: HeartbeatCallback) -> None:
        """ConsumerGroupHeartbeat. Raises ApiError for what is answered at once."""
        check(request, self.consumer_groups.config.assignors)
        self._require_status(request.group_id)
        self.consumer_groups.heartbeat(request, callback)

    def describe_consumer_group(self, group_id: str) -> ConsumerGroupDescription:
        """ConsumerGroupDescribe of one group. Raises ApiError."""
        self._require_status(group_id)
        return self.consumer_groups.describe(group_id)

    def _require_status(self, group_id: str) -> None:
        error = self.status_error(group_id)
        if error is not ErrorCode.NONE:
            raise ApiError(error)

    # --- checks ---

    def status_error(self, group_id: str | None, *, allow_empty_id: bool = False) -> ErrorCode:
        """What is checked before anything of a group is looked at."""
        if group_id is None or (not group_id and not allow_empty_id):
            return ErrorCode.INVALID_GROUP_ID
        if not self._active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self.store.ownership_error(group_id)

    # --- JoinGroup ---

    def join_group(self, request: JoinRequest, callback: JoinCallback) -> None:
        """Enter the group; the answer comes when the join phase ends, or at once where nothing changes."""
        error = self.status_error(request.group_id)
        if error is not ErrorCode.NONE:
            callback(JoinResult(error, request.member_id))
            return
        group = self.store.get_consumer(request.group_id)
        if group is not None:
            with group.lock:
                if not group.is_dead and group.members:
                    try:
                        self._joining.check_timeout(request)
                        self._classic_members.join(group, request, callback)
                    except ApiError as refused:
                        callback(JoinResult(refused.code, request.member_id))
                    return
        self._joining.join_group(request, callback)

    # --- SyncGroup ---

    def sync_group(
        self,
        group_id: str,
        generation_id: int,
        member_id: str,
        group_instance_id: str | None,
        protocol_type: str | None,
        protocol_name: str | None,
        assignment: dict[str, bytes],
        callback: SyncCallback,
    ) -> None:
        """Ask for (and as leader bring) the assignment."""
        error = self.status_error(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # The client must join again: whether its generation still stands is not known yet.
            error = ErrorCode.REBALANCE_IN_PROGRESS
        consumer = self.store.get_consumer(group_id) if error is ErrorCode.NONE else None
        if consumer is not None:
            with consumer.lock:
                try:
                    found = self._classic_members.sync(
                        consumer, generation_id, member_id, group_instance_id, protocol_type, protocol_name
                    )
                except ApiError as refused:
                    found = SyncResult(refused.code)
                callback(found)
            return
        group = self.store.get(group_id) if error is ErrorCode.NONE else None
        if group is None:
            callback(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID if error is ErrorCode.NONE else error))
            return
        with group.lock:
            error = self._sync_error(group, generation_id, member_id, group_instance_id, protocol_type, protocol_name)
            if error is not ErrorCode.NONE:
                callback(SyncResult(error))
                return
            member = group.members[member_id]
            if group.is_in(GroupState.STABLE):
                self.rebalancer.received_sync(group, member_id)
                callback(SyncResult(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol_name))
                self.rebalancer.restart_session(group, member)
                return
            member.sync_callback = callback
            self.rebalancer.received_sync(group, member_id)
            if group.is_leader(member_id):
                self._store_assignment(group, assignment)

    def _sync_error(
        self,
        group: Group,
        generation_id: int,
        member_id: str,
        group_instance_id: str | None,
        protocol_type: str | None,
        protocol_name: str | None,
    ) -> ErrorCode:
        if group.is_in(GroupState.DEAD):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = group.member_error(member_id, group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if protocol_type is not None and protocol_type != group.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if protocol_name is not None and protocol_name != group.protocol_name:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.is_in(GroupState.EMPTY):
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.is_in(GroupState.PREPARING_REBALANCE):
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _store_assignment(self, group: Group, assignment: dict[str, bytes]) -> None:
        generation_id = group.generation_id
        complete = {member_id: assignment.get(member_id, b"") for member_id in group.members}

        def stored(error: ErrorCode) -> None:
            with group.lock:
                # Another rebalance may have begun while the record was on its way.
                if not group.is_in(GroupState.COMPLETING_REBALANCE) or group.generation_id != generation_id:
                    return
                if error is ErrorCode.NONE:
                    self.rebalancer.assign(group, complete)
                else:
                    self.rebalancer.fail_syncs(group, error)
                    self.rebalancer.maybe_prepare(group, f"the assignment was not stored: {error.name}")

        self.store.store_group(group, complete, stored)

    # --- Heartbeat ---

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        """The member is alive; tells whether it must join again."""
        error = self.status_error(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE  # nothing is known against it, and all sessions start afresh after the load
        if error is not ErrorCode.NONE:
            return error
        consumer = self.store.get_consumer(group_id)
        if consumer is not None:
            with consumer.lock:
                try:
                    return self._classic_members.heartbeat(consumer, member_id, group_instance_id, generation_id)
                except ApiError as refused:
                    return refused.code
        group = self.store.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        with group.lock:
            if group.is_in(GroupState.DEAD):
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            error = group.member_error(member_id, group_instance_id)
            if error is not ErrorCode.NONE:
                return error
            if generation_id != group.generation_id:
                return ErrorCode.ILLEGAL_GENERATION
            if group.is_in(GroupState.EMPTY):
                return ErrorCode.UNKNOWN_MEMBER_ID
            self.rebalancer.restart_session(group, group.members[member_id])
            if group.is_in(GroupState.PREPARING_REBALANCE):
                return ErrorCode.REBALANCE_IN_PROGRESS
            return ErrorCode.NONE

    # --- LeaveGroup ---

    def leave_group(self, group_id: str, members: list[LeavingMember]) -> LeaveResult:
        """Take members out; a batch starts one rebalance."""
        error = self.status_error(group_id)
        if error is not ErrorCode.NONE:
            return LeaveResult(error)
        consumer = self.store.get_consumer(group_id)
        if consumer is not None:
            with consumer.lock:
                who = [(member.member_id, member.group_instance_id) for member in members]
                errors = self._classic_members.leave(consumer, who)
            return LeaveResult(ErrorCode.NONE, list(zip(members, errors, strict=True)))
        group = self.store.get(group_id)
        if group is None:
            return LeaveResult(ErrorCode.NONE, [(member, ErrorCode.UNKNOWN_MEMBER_ID) for member in members])
        with group.lock:
            if group.is_in(GroupState.DEAD):
                return LeaveResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return LeaveResult(ErrorCode.NONE, [(member, self._leave(group, member)) for member in members])

    def _leave(self, group: Group, leaving: LeavingMember) -> ErrorCode:
        member_id = leaving.member_id
        if not member_id:
            known = group.static_members.get(leaving.group_instance_id or "")
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = known
        elif member_id in group.pending_members:
            self.rebalancer.remove_pending(group, member_id)
            return ErrorCode.NONE
        else:
            error = group.member_error(member_id, leaving.group_instance_id)
            if error is not ErrorCode.NONE:
                return error
        reason = f"member {member_id} leaves: {leaving.reason or 'not provided'}"
        logger.info("group %s: %s", group.group_id, reason)
        self.rebalancer.remove_member(group, group.members[member_id], reason)
        return ErrorCode.NONE
