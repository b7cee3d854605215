"""The gauges of each partition held here, `kafka.cluster:type=Partition`. Nothing is worked out before one is read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.replication.partition import Partition
from log.topic_partition import TopicPartition
from timer.metrics import Metrics

_GROUP, _TYPE = "kafka.cluster", "Partition"


# A scrape reads every one of them for every partition: without the partition's lock, as Kafka does, each value being
# replaced as a whole, and with as few calls as can be.


def _under_replicated(partition: Partition) -> float:
    return partition.is_under_replicated


def _in_sync_replicas(partition: Partition) -> float:
    return len(partition.isr_state.isr) if partition.is_leader else 0


def _replicas(partition: Partition) -> float:
    return partition.replication_factor if partition.is_leader else 0


def _under_min_isr(partition: Partition) -> float:
    return partition.is_under_min_isr


def _at_min_isr(partition: Partition) -> float:
    return partition.is_at_min_isr


def _last_stable_offset_lag(partition: Partition) -> float:
    log = partition.log
    return 0 if log is None else log.last_stable_offset_lag


_GAUGES: dict[str, Callable[[Partition], float]] = {
    "UnderReplicated": _under_replicated,
    "InSyncReplicasCount": _in_sync_replicas,
    "ReplicasCount": _replicas,
    "UnderMinIsr": _under_min_isr,
    "AtMinIsr": _at_min_isr,
    "LastStableOffsetLag": _last_stable_offset_lag,
}


class PartitionMetrics:
    """Registers them with a partition's slot, and removes them when the slot is deleted or goes offline.

    All but `LastStableOffsetLag` (offsets between it and the high watermark) are 0 on a follower. `ReplicasCount` is
    the replication factor: replicas that a reassignment is adding do not count yet.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def add(self, partition: Partition) -> None:
        tags = _tags(partition.topic_partition)
        for name, value in _GAUGES.items():
            self._metrics.gauge(_GROUP, _TYPE, name, partial(value, partition), **tags)

    def remove(self, tp: TopicPartition) -> None:
        tags = _tags(tp)
        for name in _GAUGES:
            self._metrics.remove(_GROUP, _TYPE, name, **tags)


def _tags(tp: TopicPartition) -> dict[str, str]:
    return {"topic": tp.topic, "partition": str(tp.partition)}
