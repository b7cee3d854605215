"""LeaderAndIsr and StopReplica: the controller tells this broker which partitions it leads, follows or drops.

Order within one LeaderAndIsr: sort the partitions by what must be done, all leaders, then all followers, then fetchers,
then the coordinators' hooks; all under the replica state change lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.replication.follower.fetch_state import InitialFetchState
from broker.replication.partition import Partition
from broker.replication.partitions import OFFLINE, OfflineSlot
from broker.replication.replica_manager import ReplicaManager
from log.errors import StorageError
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode, error_of
from network.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from network.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from network.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from broker.replication.follower.fetcher_manager import FetcherManager

logger = logging.getLogger(__name__)

EPOCH_DURING_DELETE = -2
NO_EPOCH = -1

LeadershipChange = Callable[[list[Partition], list[Partition]], None]
"""Called with the new leaders and the new followers, under the state change lock."""


class _Change(NamedTuple):
    partition: Partition
    state: LeaderAndIsrPartitionState
    topic_id: bytes


class ControllersRequest(Protocol):
    """LeaderAndIsr, StopReplica, UpdateMetadata."""

    controller_id: int
    controller_epoch: int


def is_of_older_controller(request: ControllersRequest, known_epoch: int) -> bool:
    """Whether a controller sent it that has been followed by another: STALE_CONTROLLER_EPOCH.

    Asked under the state change lock; whoever goes on takes the request's epoch over before it lets go of the lock.
    """
    if request.controller_epoch >= known_epoch:
        return False
    logger.warning(
        "ignoring %s of controller %d with epoch %d, older than %d",
        type(request).__name__.removesuffix("Request"), request.controller_id, request.controller_epoch, known_epoch,
    )  # fmt: skip
    return True


class RoleChanges:
    """Applies the controller's decisions to the slots of a `ReplicaManager`."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager

    # ------------------------------------------------------------------ LeaderAndIsr

    def become_leader_or_follower(
        self, request: LeaderAndIsrRequest, version: int, on_leadership_change: LeadershipChange
    ) -> LeaderAndIsrResponse:
        """Apply a LeaderAndIsr whose broker epoch has been checked."""
        manager = self._manager
        with manager.log_manager.env.writes.held(), manager.partitions.state_change_lock:
            if is_of_older_controller(request, manager.controller_epoch):
                return leader_and_isr_error(request, version, ErrorCode.STALE_CONTROLLER_EPOCH)
            manager.controller_epoch = request.controller_epoch
            manager.start_high_watermark_checkpoints()
            errors: dict[tuple[bytes, TopicPartition], ErrorCode] = {}
            leaders: list[_Change] = []
            followers: list[_Change] = []
            for topic_id, tp, state in leader_and_isr_states(request, version):
                change = self._classify(tp, topic_id, state, errors)
                if change is None:
                    continue
                (leaders if state.leader == manager.broker_id else followers).append(change)
            new_leaders, newly = self._make_leaders(leaders, errors)
            new_followers = self._make_followers(followers, errors)
            manager.log_dir_moves.go_on(change.partition for change in [*leaders, *followers])
            manager.fetchers.shutdown_idle_threads()
            on_leadership_change(new_leaders, new_followers)
        manager.expect_followers(newly)
        return _leader_and_isr_response(errors, version)

    def _classify(
        self,
        tp: TopicPartition,
        topic_id: bytes,
        state: LeaderAndIsrPartitionState,
        errors: dict[tuple[bytes, TopicPartition], ErrorCode],
    ) -> _Change | None:
        manager = self._manager
        key = (topic_id, tp)
        slot = manager.partitions.slots.get(tp)
        if isinstance(slot, OfflineSlot):
            errors[key] = ErrorCode.KAFKA_STORAGE_ERROR
            return None
        if slot is None:
            slot = manager.add_partition(tp)
        partition = slot
        known_id = partition.known_topic_id()
        has_id = topic_id != ZERO_UUID
        if has_id and known_id is not None and known_id != topic_id:
            logger.error("%s: topic id of the controller differs from the one of the log", tp)
            errors[key] = ErrorCode.INCONSISTENT_TOPIC_ID
        elif state.leader_epoch > partition.leader_epoch:
            if manager.broker_id in state.replicas:
                errors[key] = ErrorCode.NONE
                return _Change(partition, state, topic_id)
            logger.warning("ignoring LeaderAndIsr for %s: this broker is not in %s", tp, state.replicas)
            errors[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif state.leader_epoch < partition.leader_epoch:
            errors[key] = ErrorCode.STALE_CONTROLLER_EPOCH
        elif has_id and known_id is None:
            partition.assign_topic_id(topic_id)
            if not partition.is_leader:
                manager.fetchers.update_topic_ids({tp: topic_id})
            errors[key] = ErrorCode.NONE
        elif not has_id and known_id is not None and not partition.is_leader:
            manager.fetchers.update_topic_ids({tp: None})
            errors[key] = ErrorCode.NONE
        else:
            errors[key] = ErrorCode.STALE_CONTROLLER_EPOCH
        return None

    def _make_leaders(
        self, changes: list[_Change], errors: dict[tuple[bytes, TopicPartition], ErrorCode]
    ) -> tuple[list[Partition], list[Partition]]:
        """The partitions that this broker leads now, and which of these it has not led before."""
        manager = self._manager
        manager.fetchers.remove([change.partition.topic_partition for change in changes])
        done, newly = [], []
        for partition, state, topic_id in changes:
            try:
                if partition.make_leader(state, topic_id):
                    newly.append(partition)
                done.append(partition)
            except (StorageError, OSError) as error:
                self._storage_failure(partition, topic_id, error, errors)
        return done, newly

    def _make_followers(
        self, changes: list[_Change], errors: dict[tuple[bytes, TopicPartition], ErrorCode]
    ) -> list[Partition]:
        manager = self._manager
        fetch_again: list[Partition] = []
        done = []
        for partition, state, topic_id in changes:
            try:
                if manager.metadata_cache.is_alive(state.leader):
                    if partition.make_follower(state, topic_id):
                        fetch_again.append(partition)
                    done.append(partition)
                else:
                    # The epoch stays as it is, so the same request counts as newer once the leader is known.
                    logger.info("%s: leader %d is not known to be alive", partition.topic_partition, state.leader)
                    partition.ensure_log(state, topic_id)
            except (StorageError, OSError) as error:
                self._storage_failure(partition, topic_id, error, errors)
        manager.fetchers.remove([partition.topic_partition for partition in fetch_again])
        for partition in fetch_again:
            manager.delayed.check_produce_and_fetch(partition.topic_partition)
        if not manager.is_shutting_down:
            self._add_fetchers(manager.fetchers, fetch_again)
        return done

    def _add_fetchers(self, fetchers: FetcherManager, partitions: Iterable[Partition]) -> None:
        manager = self._manager
        listener = manager.config.inter_broker_listener_name
        states: dict[TopicPartition, InitialFetchState] = {}
        for partition in partitions:
            leader, log = partition.leader_id, partition.log
            node = None if leader is None else manager.metadata_cache.broker_node(leader, listener)
            if node is None or log is None:
                logger.error("%s: no endpoint of leader %s on %s", partition.topic_partition, leader, listener)
                continue
            states[partition.topic_partition] = InitialFetchState(
                partition.topic_id, node, partition.leader_epoch, manager.initial_fetch_offset(log)
            )
        fetchers.add(states)

    def _storage_failure(
        self,
        partition: Partition,
        topic_id: bytes,
        error: Exception,
        errors: dict[tuple[bytes, TopicPartition], ErrorCode],
    ) -> None:
        tp = partition.topic_partition
        logger.error("%s: its log directory fails", tp, exc_info=error)
        partition.clear()
        self._manager.mark_offline(tp)
        errors[(topic_id, tp)] = ErrorCode.KAFKA_STORAGE_ERROR

    # ------------------------------------------------------------------ StopReplica

    def stop_replicas(
        self,
        request: StopReplicaRequest,
        version: int,
        on_stopped: Callable[[TopicPartition, int], None],
    ) -> StopReplicaResponse:
        """Apply a StopReplica whose broker epoch has been checked.

        `on_stopped(partition, leader_epoch)` is called for every partition that was deleted here.
        """
        manager = self._manager
        with manager.partitions.state_change_lock:
            if is_of_older_controller(request, manager.controller_epoch):
                self._stop_idle_fetchers()
                return StopReplicaResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
            manager.controller_epoch = request.controller_epoch
            errors: dict[TopicPartition, ErrorCode] = {}
            accepted: dict[TopicPartition, tuple[int, bool]] = {}
            for tp, leader_epoch, delete in stop_replica_states(request, version):
                slot = manager.partitions.slots.get(tp)
                if slot is OFFLINE:
                    errors[tp] = ErrorCode.KAFKA_STORAGE_ERROR
                elif isinstance(slot, Partition) and not (
                    leader_epoch in (EPOCH_DURING_DELETE, NO_EPOCH) or leader_epoch >= slot.leader_epoch
                ):
                    errors[tp] = ErrorCode.FENCED_LEADER_EPOCH
                else:
                    errors[tp] = ErrorCode.NONE
                    accepted[tp] = (leader_epoch, delete)
            self._stop(accepted, errors)
            for tp, (leader_epoch, delete) in accepted.items():
                if delete and errors[tp] is ErrorCode.NONE:
                    on_stopped(tp, leader_epoch)
            self._stop_idle_fetchers()
            return StopReplicaResponse(
                error_code=ErrorCode.NONE,
                partition_errors=[
                    StopReplicaPartitionError(topic_name=tp.topic, partition_index=tp.partition, error_code=code)
                    for tp, code in errors.items()
                ],
            )

    def _stop(self, accepted: dict[TopicPartition, tuple[int, bool]], errors: dict[TopicPartition, ErrorCode]) -> None:
        manager = self._manager
        manager.fetchers.remove(list(accepted))
        manager.log_dir_moves.stop(accepted)
        for tp, (_, delete) in accepted.items():
            if delete:
                manager.remove_partition(tp)
        manager.forget_topics({tp.topic for tp, (_, delete) in accepted.items() if delete})
        for tp in accepted:
            manager.delayed.check_produce_and_fetch(tp)
        for tp, (_, delete) in accepted.items():
            if not delete:
                continue
            try:
                manager.log_manager.async_delete(tp, is_future=True)
                manager.log_manager.async_delete(tp)
            except Exception as error:
                code, _ = error_of(error)
                logger.error("%s: cannot delete its log", tp, exc_info=error)
                errors[tp] = ErrorCode.KAFKA_STORAGE_ERROR if isinstance(error, OSError) else code

    def _stop_idle_fetchers(self) -> None:
        self._manager.fetchers.shutdown_idle_threads()


def leader_and_isr_states(
    request: LeaderAndIsrRequest, version: int
) -> Iterator[tuple[bytes, TopicPartition, LeaderAndIsrPartitionState]]:
    """(topic id, partition, state) of a request in any version."""
    if version < 2:
        for state in request.ungrouped_partition_states:
            yield ZERO_UUID, TopicPartition(state.topic_name, state.partition_index), state
        return
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_id, TopicPartition(topic.topic_name, state.partition_index), state


def leader_and_isr_error(request: LeaderAndIsrRequest, version: int, code: ErrorCode) -> LeaderAndIsrResponse:
    """The whole request refused: the code at top level and on every partition."""
    errors = {(topic_id, tp): code for topic_id, tp, _ in leader_and_isr_states(request, version)}
    response = _leader_and_isr_response(errors, version)
    response.error_code = code
    return response


def _leader_and_isr_response(
    errors: dict[tuple[bytes, TopicPartition], ErrorCode], version: int
) -> LeaderAndIsrResponse:
    if version < 5:
        return LeaderAndIsrResponse(
            partition_errors=[
                LeaderAndIsrPartitionError(topic_name=tp.topic, partition_index=tp.partition, error_code=code)
                for (_, tp), code in errors.items()
            ]
        )
    topics: dict[bytes, list[LeaderAndIsrPartitionError]] = {}
    for (topic_id, tp), code in errors.items():
        topics.setdefault(topic_id, []).append(
            LeaderAndIsrPartitionError(partition_index=tp.partition, error_code=code)
        )
    return LeaderAndIsrResponse(
        topics=[
            LeaderAndIsrTopicError(topic_id=topic_id, partition_errors=partitions)
            for topic_id, partitions in topics.items()
        ]
    )


def stop_replica_states(request: StopReplicaRequest, version: int) -> Iterator[tuple[TopicPartition, int, bool]]:
    """(partition, leader epoch, delete) of a request in any version."""
    if version == 0:
        for old in request.ungrouped_partitions:
            yield TopicPartition(old.topic_name, old.partition_index), NO_EPOCH, request.delete_partitions
    elif version <= 2:
        for topic in request.topics:
            for index in topic.partition_indexes:
                yield TopicPartition(topic.name, index), NO_EPOCH, request.delete_partitions
    else:
        for state in request.topic_states:
            for partition in state.partition_states:
                yield (
                    TopicPartition(state.topic_name, partition.partition_index),
                    partition.leader_epoch,
                    partition.delete_partition,
                )
