"""The group coordinator's ties to a broker: the log of `__consumer_offsets`, purgatories and a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from broker.context import BrokerContext
from broker.coordinator.internal_topic import read_batches
from broker.groups.classic.operations import DelayedHeartbeat
from broker.groups.config import GroupConfig
from broker.groups.consumer.config import ConsumerGroupConfig
from broker.groups.coordinator import GroupCoordinator
from broker.groups.meters import GroupMeters
from broker.groups.records.loader import Batch
from broker.groups.store import GroupStore
from log.batch import RecordBatch
from log.producer_entry import VerificationGuard
from log.topic_partition import TopicPartition
from log.validation import AppendOrigin
from network.protocol.errors import ErrorCode
from timer.purgatory import DelayedOperation, Purgatory
from timer.scheduler import BackgroundScheduler
from timer.timer import SystemTimer

OFFSETS_TOPIC = "__consumer_offsets"


class ReplicatedOffsetsLog:
    """`__consumer_offsets` through the replica manager."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker

    def append(
        self,
        partition: int,
        batch: bytes | bytearray,
        required_acks: int,
        timeout_ms: int,
        on_done: Callable[[ErrorCode, int], None],
        transactional_id: str | None = None,
    ) -> None:
        tp = TopicPartition(OFFSETS_TOPIC, partition)

        def append(guards: Mapping[TopicPartition, VerificationGuard] | None = None) -> None:
            self._broker.replica_manager.append_records(
                timeout_ms,
                required_acks,
                {tp: batch},
                AppendOrigin.COORDINATOR,
                lambda results: on_done(results[tp].error, results[tp].base_offset),
                internal_topics_allowed=True,
                guards=guards,
            )

        if transactional_id is None:
            append()
        else:
            self._verify(tp, RecordBatch(batch), transactional_id, append, on_done)

    def _verify(
        self,
        tp: TopicPartition,
        batch: RecordBatch,
        transactional_id: str,
        append: Callable[[Mapping[TopicPartition, VerificationGuard] | None], None],
        on_done: Callable[[ErrorCode, int], None],
    ) -> None:
        """Ask the transaction's coordinator, unless the partition is known to be in the transaction (KIP-890)."""
        log = self._broker.replica_manager.get_log(tp)
        guard = None
        if log is not None:
            guard = log.maybe_start_transaction_verification(
                batch.producer_id, batch.base_sequence, batch.producer_epoch
            )
        if guard is None:
            append(None)
            return
        guards = {tp: guard}

        def verified(errors: dict[TopicPartition, ErrorCode]) -> None:
            error = errors.get(tp, ErrorCode.NONE)
            if error is ErrorCode.NONE:
                append(guards)
            else:
                on_done(error, -1)

        self._broker.transaction_verifier.verify(
            transactional_id, batch.producer_id, batch.producer_epoch, [tp], verified
        )

    def read(self, partition: int, buffer_bytes: int) -> Iterator[Batch]:
        tp = TopicPartition(OFFSETS_TOPIC, partition)
        log = self._broker.replica_manager.get_log(tp)
        if log is None:
            raise LookupError(f"{tp} has no local log")
        yield from read_batches(log, buffer_bytes)

    def is_local(self, partition: int) -> bool:
        return self._broker.replica_manager.get_log(TopicPartition(OFFSETS_TOPIC, partition)) is not None


def make_group_coordinator(broker: BrokerContext) -> GroupCoordinator:
    """Start the coordinator of `broker` and hook it into partition changes; the caller shuts it down."""
    config = GroupConfig.from_kafka_config(broker.config)
    known = broker.zk.topic(OFFSETS_TOPIC)
    partitions = len(known.assignment) if known is not None else broker.config.get_int("offsets.topic.num.partitions")

    def purgatory(name: str) -> Purgatory[Any]:
        timer = SystemTimer(name, broker.clock, workers=broker.workers)
        return Purgatory(name, timer, broker_id=broker.broker_id, metrics=broker.metrics, workers=broker.workers)

    rebalances: Purgatory[DelayedOperation] = purgatory("Rebalance")
    heartbeats: Purgatory[DelayedHeartbeat] = purgatory("Heartbeat")
    coordinator = GroupCoordinator(
        GroupStore(ReplicatedOffsetsLog(broker), partitions, broker.clock, config, GroupMeters(broker.metrics)),
        config,
        rebalances,
        heartbeats,
        BackgroundScheduler(1, broker.clock, "group-metadata-manager", broker.workers),
        broker.clock,
        broker.metrics,
        topics=lambda: broker.metadata_cache.snapshot,
        consumer_config=ConsumerGroupConfig.from_kafka_config(broker.config),
    )
    coordinator.startup()
    broker.group_coordinator = coordinator
    broker.coordinator_hooks[OFFSETS_TOPIC] = coordinator
    broker.partition_deletion_listeners.append(coordinator.on_partitions_deleted)
    return coordinator
