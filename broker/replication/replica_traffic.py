"""What replicas copy from each other: counted, and held back by the replication throttles (KIP-73)."""

from __future__ import annotations

from broker.replication.follower.fetch_state import PartitionFetchState
from broker.replication.metrics import ReplicaMetrics
from broker.replication.partition import Partition
from broker.replication.partitions import Partitions
from broker.replication.results import FetchParams
from broker.replication.throttle import ReplicationThrottles
from log.topic_partition import TopicPartition


class ReplicaTraffic:
    """Both directions: what followers are sent from here, and what is received here."""

    def __init__(self, partitions: Partitions, throttles: ReplicationThrottles, metrics: ReplicaMetrics) -> None:
        self.throttles = throttles
        self._partitions = partitions
        self._metrics = metrics

    def holds_back(self, params: FetchParams, tp: TopicPartition) -> bool:
        """Whether the leader throttle holds back this replica: only replicas outside the ISR ever are."""
        quota = self.throttles.leader
        if params.replica_id < 0 or not quota.is_throttled(tp):
            return False
        partition = self._partitions.get(tp)
        if partition is None or params.replica_id in partition.isr_state.isr:
            return False
        return quota.is_exceeded()

    def rests(self, tp: TopicPartition, state: PartitionFetchState) -> bool:
        """Whether this follower rests a partition because of the follower throttle."""
        quota = self.throttles.follower
        return quota.is_throttled(tp) and not state.is_replica_in_sync and quota.is_exceeded()

    def received(self, tp: TopicPartition, partition: Partition, size: int) -> None:
        """Count what this follower was sent."""
        self._metrics.all_topics.replication_bytes_in.mark(size)
        if partition.is_reassigning and partition.is_adding_local_replica:
            self._metrics.all_topics.reassignment_bytes_in.mark(size)
        if self.throttles.follower.is_throttled(tp):
            self.throttles.follower.record(size)

    def sent(self, tp: TopicPartition, replica_id: int, size: int) -> None:
        """Count what another follower is sent."""
        self._metrics.all_topics.replication_bytes_out.mark(size)
        partition = self._partitions.get(tp)
        if partition is not None and replica_id in partition.adding_replicas:
            self._metrics.all_topics.reassignment_bytes_out.mark(size)
        if self.throttles.leader.is_throttled(tp):
            self.throttles.leader.record(size)
