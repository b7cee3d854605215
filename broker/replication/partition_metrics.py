"""The gauges of each partition held here, `kafka.cluster:type=Partition`. Nothing is worked out before one is read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.replication.partition import Partition
from log.topic_partition import TopicPartition
from timer.metrics import Metrics

_GROUP, _TYPE = "kafka.cluster", "Partition"


def _of_leader(value: Callable[[Partition], int], partition: Partition) -> float:
    with partition.lock:
        return value(partition) if partition.is_leader else 0


def _last_stable_offset_lag(partition: Partition) -> float:
    log = partition.log
    return 0 if log is None else log.last_stable_offset_lag


_GAUGES: dict[str, Callable[[Partition], float]] = {
    "UnderReplicated": partial(_of_leader, lambda partition: partition.is_under_replicated),
    "InSyncReplicasCount": partial(_of_leader, lambda partition: len(partition.isr_state.isr)),
    "ReplicasCount": partial(_of_leader, lambda partition: partition.replication_factor),
    "UnderMinIsr": partial(_of_leader, lambda partition: partition.is_under_min_isr),
    "AtMinIsr": partial(_of_leader, lambda partition: partition.is_at_min_isr),
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
