"""The group coordinator: its life, and which coordinator a request goes to.

A request of the classic protocol goes to `consumer/classic_members` where its group is one of the consumer protocol.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from broker.coordinator.coordinator_log import CoordinatorLog
from broker.coordinator.internal_topic_names import OFFSETS_TOPIC
from broker.groups.admin import GroupAdmin
from broker.groups.base import GroupBase, GroupKeeper, GroupType
from broker.groups.classic.coordinator import ClassicGroupCoordinator
from broker.groups.classic.joining import Joining
from broker.groups.classic.rebalance import Rebalancer
from broker.groups.classic.requests import (
    HeartbeatRequest,
    JoinCallback,
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    SyncCallback,
    SyncRequest,
    SyncResult,
)
from broker.groups.classic.states import GroupState
from broker.groups.config import GroupConfig
from broker.groups.consumer import requests as consumer_requests
from broker.groups.consumer.classic_members import ClassicMembers
from broker.groups.consumer.config import ConsumerGroupConfig
from broker.groups.consumer.coordinator import ConsumerGroupCoordinator
from broker.groups.consumer.describe import ConsumerGroupDescription
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.metadata import NoTopics, TopicsView
from broker.groups.metadata_manager import GroupMetadataManager
from broker.groups.meters import GroupMeters
from broker.groups.migration import Migration
from broker.groups.offsets.commits import OffsetCommits
from broker.groups.offsets.removal import OffsetRemoval
from broker.groups.offsets.service import OffsetService
from broker.groups.records.writer import GroupWriter
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.uuids import new_uuid, to_text
from timer.chance import Chance, random_uuid
from timer.clock import Clock
from timer.metrics import Metrics
from timer.purgatory import DelayedOperation, Purgatory
from timer.scheduler import Scheduler

logger = logging.getLogger(__name__)

_METRICS = ("kafka.coordinator.group", "GroupMetadataManager")


class Surroundings(NamedTuple):
    """What the coordinator runs in.

    `scheduler` has one thread, so that loads, unloads and the ends of transactions keep their order. Sessions of
    both protocols wait in `heartbeats`.
    """

    clock: Clock
    chance: Chance
    scheduler: Scheduler
    rebalances: Purgatory[DelayedOperation]
    heartbeats: Purgatory[DelayedOperation]
    metrics: Metrics


class GroupCoordinator:
    """The coordinator of the groups whose partitions this broker leads. Thread-safe."""

    def __init__(
        self,
        log: CoordinatorLog,
        partitions: int,
        surroundings: Surroundings,
        config: GroupConfig,
        consumer_config: ConsumerGroupConfig | None = None,
        topics: TopicsView = NoTopics,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        """`new_id` makes the unique part of members' ids; a random uuid unless it is given."""
        clock, chance, self._scheduler, self._rebalances, self._heartbeats, self._metrics = surroundings
        new_id = new_id or (lambda: str(random_uuid(chance)))
        self.config = config
        consumer_config = consumer_config or ConsumerGroupConfig()
        meters = GroupMeters(self._metrics)
        writer = GroupWriter(log, partitions, clock, config)
        self.owned = GroupMetadataManager(log, partitions, clock, config, writer, meters)
        self._commits = OffsetCommits(self.owned, writer, config, meters)
        self.removal = OffsetRemoval(self.owned, writer, clock, config, meters)
        rebalancer = Rebalancer(writer, config, self._rebalances, self._heartbeats, meters)
        migration = Migration(self.owned, writer, config, consumer_config, rebalancer, topics, clock)
        joining = Joining(self.owned, writer, config, rebalancer, new_id)
        self._classic = ClassicGroupCoordinator(self.owned, writer, config, rebalancer, joining)
        self.consumer = ConsumerGroupCoordinator(
            self.owned,
            writer,
            consumer_config,
            topics,
            self._heartbeats,
            clock,
            migration,
            lambda: to_text(new_uuid(chance)),
        )
        self._classic_members = ClassicMembers(self.consumer, new_id)
        self._keepers: dict[GroupType, GroupKeeper[Any]] = {
            GroupType.CLASSIC: self._classic,
            GroupType.CONSUMER: self.consumer,
        }
        self.offsets = OffsetService(
            self.owned, self._commits, self.removal, self._note_commit, consumer_config.is_enabled
        )
        self.admin = GroupAdmin(self.owned, self.removal)

    # --- life ---

    @property
    def purgatories(self) -> tuple[Purgatory[DelayedOperation], ...]:
        """Where joins, and members' next signs of life, are waited for."""
        return self._rebalances, self._heartbeats

    def startup(self) -> None:
        """Begin to answer, and to expire offsets."""
        self._scheduler.startup()
        interval = self.config.retention_check_interval_ms
        self._scheduler.schedule("delete-expired-group-metadata", self.removal.expire, interval, interval)
        owned = self.owned
        gauge = self._metrics.gauge
        gauge(*_METRICS, "NumOffsets", lambda: sum(len(group.offsets) for group in owned.all_groups()))
        gauge(*_METRICS, "NumGroups", lambda: len(owned.all_groups()))
        for state in GroupState:
            gauge(*_METRICS, f"NumGroups{state.value}", partial(self._count, state))
        owned.is_active = True

    def shutdown(self) -> None:
        """Stop answering; what is stored is the next coordinator's."""
        self.owned.is_active = False
        self._scheduler.shutdown()
        self._heartbeats.shutdown()
        self._rebalances.shutdown()
        for name in ("NumOffsets", "NumGroups", *(f"NumGroups{state.value}" for state in GroupState)):
            self._metrics.remove(*_METRICS, name)

    def _count(self, state: GroupState) -> int:
        groups = self.owned.all_groups()
        return sum(group.type is GroupType.CLASSIC and group.state_name == state.value for group in groups)

    # --- partitions come and go ---

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` whose leader coordinates the group."""
        return self.owned.partition_of(group_id)

    def on_election(self, partition: int, leader_epoch: int) -> None:
        """This broker leads a partition of `__consumer_offsets`: load it in the background."""
        self._scheduler.schedule_once(f"{OFFSETS_TOPIC}-{partition}", lambda: self._load(partition, leader_epoch))

    def on_resignation(self, partition: int, leader_epoch: int | None) -> None:
        """This broker leads it no longer (None: the replica is deleted): forget its groups."""
        self._scheduler.schedule_once(f"{OFFSETS_TOPIC}-{partition}", lambda: self._unload(partition, leader_epoch))

    def on_transaction_completed(self, producer_id: int, partitions: Iterable[int], commit: bool) -> None:
        """Markers of a transaction were written to these partitions of `__consumer_offsets`."""
        of = set(partitions)
        self._scheduler.schedule_once(
            f"handleTxnCompletion-{producer_id}", lambda: self._commits.complete_transaction(producer_id, of, commit)
        )

    def on_partitions_deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """Topics were deleted: their offsets go from every group, in the background."""
        gone = list(partitions)
        self._scheduler.schedule_once(
            "remove-offsets-of-deleted-partitions", lambda: self.removal.remove_partitions(gone)
        )

    def _load(self, partition: int, leader_epoch: int) -> None:
        groups = self.owned.load(partition, leader_epoch)
        self._commits.on_loaded(groups)
        for group in groups:
            self._keepers[group.type].on_loaded(group)

    def _unload(self, partition: int, leader_epoch: int | None) -> None:
        groups = self.owned.unload(partition, leader_epoch)
        self._commits.on_unloaded(groups)
        for group in groups:
            self._keepers[group.type].on_unloaded(group)

    def _note_commit(self, group: GroupBase, member_id: str) -> None:
        self._keepers[group.type].on_commit(group, member_id)

    # --- the consumer protocol ---

    @property
    def serves_consumer_protocol(self) -> bool:
        """Whether groups of KIP-848 are served."""
        return self.consumer.config.is_enabled

    def consumer_group_heartbeat(
        self, request: consumer_requests.HeartbeatRequest, callback: consumer_requests.HeartbeatCallback
    ) -> None:
        """ConsumerGroupHeartbeat. Raises ApiError for what is answered at once."""
        consumer_requests.check(request, self.consumer.config.assignors)
        self.owned.require_status(request.group_id)
        self.consumer.heartbeat(request, callback)

    def describe_consumer_group(self, group_id: str) -> ConsumerGroupDescription:
        """ConsumerGroupDescribe of one group. Raises ApiError."""
        self.owned.require_status(group_id)
        return self.consumer.describe(group_id)

    # --- the classic protocol ---

    def join_group(self, request: JoinRequest, callback: JoinCallback) -> None:
        """Enter the group; the answer comes when the join phase ends, or at once where nothing changes."""
        error = self.owned.status_error(request.group_id)
        if error is ErrorCode.NONE and not self.config.allows_session_timeout(request.session_timeout_ms):
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        if error is not ErrorCode.NONE:
            callback(JoinResult(error, request.member_id))
            return
        consumer = self.owned.find_as(request.group_id, ConsumerGroup)
        if consumer is None or not self._classic_members.join_group(consumer, request, callback):
            self._classic.join_group(request, callback)

    def sync_group(self, request: SyncRequest, callback: SyncCallback) -> None:
        """Ask for (and as leader bring) the assignment."""
        error = self.owned.status_error(request.group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # The client must join again: whether its generation still stands is not known yet.
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not ErrorCode.NONE:
            callback(SyncResult(error))
            return
        consumer = self.owned.find_as(request.group_id, ConsumerGroup)
        if consumer is not None:
            callback(self._classic_members.sync_group(consumer, request))
        else:
            self._classic.sync_group(request, callback)

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """The member is alive; tells whether it must join again."""
        error = self.owned.status_error(request.group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE  # nothing is known against it, and all sessions start afresh after the load
        if error is not ErrorCode.NONE:
            return error
        consumer = self.owned.find_as(request.group_id, ConsumerGroup)
        if consumer is not None:
            return self._classic_members.heartbeat(consumer, request)
        return self._classic.heartbeat(request)

    def leave_group(self, group_id: str, members: list[LeavingMember]) -> LeaveResult:
        """Take members out; a batch starts one rebalance."""
        error = self.owned.status_error(group_id)
        if error is not ErrorCode.NONE:
            return LeaveResult(error)
        consumer = self.owned.find_as(group_id, ConsumerGroup)
        if consumer is not None:
            return self._classic_members.leave_group(consumer, members)
        return self._classic.leave_group(group_id, members)
