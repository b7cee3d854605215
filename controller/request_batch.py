"""Collecting what brokers must be told: at most one LeaderAndIsr, UpdateMetadata and StopReplica a broker and batch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from controller import outgoing_requests
from controller.broker_channels import BrokerChannels
from controller.config import ControllerConfig
from controller.context import ControllerContext
from controller.outgoing_requests import StopState
from controller.zk.payloads import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    PartitionState,
    ReplicaAssignment,
)
from log.topic_partition import TopicPartition
from network.protocol.message import Response
from network.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrResponse
from network.protocol.messages.stop_replica import StopReplicaResponse
from network.protocol.messages.update_metadata import UpdateMetadataPartitionState, UpdateMetadataResponse

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResponseHandlers:
    """Called on channel threads; each must only enqueue."""

    leader_and_isr: Callable[[int, LeaderAndIsrResponse], None]
    update_metadata: Callable[[int, UpdateMetadataResponse], None]
    # the broker, the answer, and the partitions of the request that were to be deleted
    stop_replica: Callable[[int, StopReplicaResponse, frozenset[TopicPartition]], None]


class RequestBatch:
    """One batch after the other. Use as `with batch: ...add...`: it is sent at the end, or dropped on an error."""

    def __init__(
        self,
        config: ControllerConfig,
        context: ControllerContext,
        channels: BrokerChannels,
        handlers: ResponseHandlers,
    ) -> None:
        self._config = config
        self._context = context
        self._channels = channels
        self._handlers = handlers
        self._leader_and_isr: dict[int, dict[TopicPartition, LeaderAndIsrPartitionState]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, StopState]] = {}
        self._update_metadata_brokers: set[int] = set()
        self._update_metadata: dict[TopicPartition, UpdateMetadataPartitionState] = {}
        self._open = False

    def __enter__(self) -> RequestBatch:
        if self._open:
            raise RuntimeError("a request batch cannot be opened inside another")
        self._clear()
        self._open = True
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        self._open = False
        try:
            if error_type is None:
                self._send()
        finally:
            self._clear()

    def add_leader_and_isr(
        self,
        brokers: Iterable[int],
        partition: TopicPartition,
        state: PartitionState,
        assignment: ReplicaAssignment,
        *,
        is_new: bool,
    ) -> None:
        """Tell `brokers` the leadership of a partition, and everybody by UpdateMetadata."""
        for broker in brokers:
            if broker < 0:
                continue
            states = self._leader_and_isr.setdefault(broker, {})
            before = states.get(partition)
            states[partition] = LeaderAndIsrPartitionState(
                topic_name=partition.topic,
                partition_index=partition.partition,
                controller_epoch=state.controller_epoch,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
                partition_epoch=state.partition_epoch,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
                # Once true it stays true within a batch.
                is_new=is_new or (before is not None and before.is_new),
                leader_recovery_state=state.recovery_state,
            )
        self.add_update_metadata(self._context.registered_ids, [partition])

    def add_stop_replica(self, brokers: Iterable[int], partition: TopicPartition, *, delete: bool) -> None:
        """Tell `brokers` to stop fetching a partition and, with `delete`, to remove its log."""
        context = self._context
        if context.is_queued_for_deletion(partition.topic):
            epoch = EPOCH_DURING_DELETE
        else:
            state = context.leadership.get(partition)
            epoch = -1 if state is None else state.leader_epoch
        for broker in brokers:
            if broker < 0:
                continue
            partitions = self._stop_replica.setdefault(broker, {})
            before = partitions.get(partition)
            partitions[partition] = StopState(epoch, delete or (before is not None and before.delete))

    def add_update_metadata(self, brokers: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """Tell `brokers` the cluster's brokers and the leadership of `partitions` (those that have any)."""
        self._update_metadata_brokers.update(broker for broker in brokers if broker >= 0)
        for partition in partitions:
            state = self._metadata_of(partition)
            if state is not None:
                self._update_metadata[partition] = state

    def _metadata_of(self, partition: TopicPartition) -> UpdateMetadataPartitionState | None:
        context = self._context
        state = context.leadership.get(partition)
        if state is None:
            return None
        replicas = context.replicas(partition)
        deleting = context.is_queued_for_deletion(partition.topic)
        return UpdateMetadataPartitionState(
            topic_name=partition.topic,
            partition_index=partition.partition,
            controller_epoch=state.controller_epoch,
            leader=LEADER_DURING_DELETE if deleting else state.leader,
            leader_epoch=0 if deleting else state.leader_epoch,
            isr=list(state.isr),
            zk_version=0 if deleting else state.partition_epoch,
            replicas=list(replicas),
            offline_replicas=[item for item in replicas if not context.is_replica_online(item, partition)],
        )

    # -- sending -------------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        registered = self._context.brokers
        for broker in sorted(self._leader_and_isr.keys() & registered.keys()):
            self._send_leader_and_isr(broker)
        if self._update_metadata_brokers:
            self._send_update_metadata(sorted(self._update_metadata_brokers & registered.keys()))
        for broker in sorted(self._stop_replica.keys() & registered.keys()):
            self._send_stop_replica(broker)

    def _send_leader_and_isr(self, broker: int) -> None:
        version = self._config.leader_and_isr_version
        request = outgoing_requests.leader_and_isr(
            version, self._config, self._context, broker, self._leader_and_isr[broker].values()
        )

        def answered(response: Response) -> None:
            assert isinstance(response, LeaderAndIsrResponse)
            self._handlers.leader_and_isr(broker, response)

        self._channels.send(broker, request, version, answered)

    def _send_update_metadata(self, brokers: list[int]) -> None:
        version = self._config.update_metadata_version

        def answered_by(broker: int) -> Callable[[Response], None]:
            def answered(response: Response) -> None:
                assert isinstance(response, UpdateMetadataResponse)
                self._handlers.update_metadata(broker, response)

            return answered

        for broker, request in outgoing_requests.update_metadata(
            version, self._config, self._context, brokers, list(self._update_metadata.values())
        ):
            self._channels.send(broker, request, version, answered_by(broker))

    def _send_stop_replica(self, broker: int) -> None:
        version = self._config.stop_replica_version
        partitions = self._stop_replica[broker]
        deleted = frozenset(partition for partition, state in partitions.items() if state.delete)

        def answered(response: Response) -> None:
            assert isinstance(response, StopReplicaResponse)
            self._handlers.stop_replica(broker, response, deleted)

        for request in outgoing_requests.stop_replica(version, self._config, self._context, broker, partitions):
            self._channels.send(broker, request, version, answered)

    def _clear(self) -> None:
        self._leader_and_isr = {}
        self._stop_replica = {}
        self._update_metadata_brokers = set()
        self._update_metadata = {}
