"""The gauges of each partition held here, `kafka.cluster:type=Partition`, and of all together, of
`kafka.server:type=ReplicaManager`. Nothing is worked out before one is read."""

from __future__ import annotations

from broker.replication.partition import Partition
from broker.replication.partitions import Partitions
from log.topic_partition import TopicPartition
from timer.metrics import Metrics

_GROUP, _TYPE = "kafka.cluster", "Partition"


_NAMES = (
    "UnderReplicated",
    "InSyncReplicasCount",
    "ReplicasCount",
    "UnderMinIsr",
    "AtMinIsr",
    "LastStableOffsetLag",
)


def _values(partition: Partition) -> tuple[float, ...]:
    """In the order of `_NAMES`. A scrape reads them for every partition: without the partition's lock, as Kafka does,
    each value being replaced as a whole, and with as few calls as can be."""
    log = partition.log
    lag = 0 if log is None else log.last_stable_offset_lag
    if partition.leader_id != partition.environment.broker_id:
        return 0, 0, 0, 0, 0, lag
    in_sync, replicas = len(partition.isr_state.isr), partition.replication_factor
    spare = 1 if log is None else in_sync - partition.effective_min_isr
    return replicas > in_sync, in_sync, replicas, spare < 0, spare == 0, lag


class PartitionMetrics:
    """Registers them with a partition's slot, and removes them when the slot is deleted or goes offline.

    All but `LastStableOffsetLag` (offsets between it and the high watermark) are 0 on a follower. `ReplicasCount` is
    the replication factor: replicas that a reassignment is adding do not count yet.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._family = metrics.family(_GROUP, _TYPE, ("topic", "partition"), _NAMES, _values)

    def add(self, partition: Partition) -> None:
        tp = partition.topic_partition
        self._family.add(partition, tp.topic, str(tp.partition))

    def remove(self, tp: TopicPartition) -> None:
        self._family.remove(tp.topic, str(tp.partition))


COUNTS = (
    "LeaderCount",
    "PartitionCount",
    "OfflineReplicaCount",
    "UnderReplicatedPartitions",
    "UnderMinIsrPartitionCount",
    "AtMinIsrPartitionCount",
    "PartitionsWithLateTransactionsCount",
    "ProducerIdCount",
    "ReassigningPartitions",
)


def counts(partitions: Partitions) -> tuple[float, ...]:
    """In the order of `COUNTS`, by one walk."""
    slots = list(partitions.slots.values())
    leaders = under_replicated = under_min = at_min = late = producers = reassigning = offline = 0
    for slot in slots:
        if not isinstance(slot, Partition):
            offline += 1
            continue
        log = slot.log
        if log is not None:
            producers += log.producers.producer_count
        if not slot.is_leader:
            continue
        leaders += 1
        under_replicated += slot.is_under_replicated
        reassigning += slot.is_reassigning
        if log is not None:
            spare = len(slot.isr_state.isr) - slot.effective_min_isr
            under_min += spare < 0
            at_min += spare == 0
            late += log.has_late_transaction()
    return leaders, len(slots), offline, under_replicated, under_min, at_min, late, producers, reassigning
