"""Everything that the active controller knows of the cluster. Only the event thread touches it.

Besides the facts themselves it keeps indexes (replicas by broker, partitions by leader, partitions that wait for a
leader), so that an event costs in proportion to the partitions it touches, not to those that exist.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from controller.states import PartitionReplica, PartitionStatus, ReplicaStatus
from controller.zk.payloads import BrokerInfo, PartitionState, ReplicaAssignment
from log.topic_partition import TopicPartition

_NOTHING = ReplicaAssignment(())


class ControllerContext:
    """The controller's picture of the cluster."""

    def __init__(self) -> None:
        self.on_change: Callable[[TopicPartition | PartitionReplica, str, str], None] | None = None
        """Told of a partition or replica that goes from a state to another, while somebody looks on."""
        self.reset()

    def reset(self) -> None:
        """Forget everything, as after a resignation."""
        self.epoch = 0
        self.epoch_zk_version = 0
        self.finalized_features: dict[str, int] = {}
        self.brokers: dict[int, BrokerInfo] = {}
        self.shutting_down: set[int] = set()
        self.offline_dirs: dict[int, set[TopicPartition]] = {}
        self.topics: set[str] = set()
        self.topic_ids: dict[str, bytes] = {}
        self.topic_names: dict[bytes, str] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.leadership: dict[TopicPartition, PartitionState] = {}
        self.reassigning: set[TopicPartition] = set()
        self.partition_states: dict[TopicPartition, PartitionStatus] = {}
        self.replica_states: dict[PartitionReplica, ReplicaStatus] = {}
        self.topics_to_delete: set[str] = set()
        self.topics_deletion_started: set[str] = set()
        self.topics_ineligible: set[str] = set()
        # Indexes over the above.
        self.by_broker: defaultdict[int, set[TopicPartition]] = defaultdict(set)
        self.by_leader: defaultdict[int, set[TopicPartition]] = defaultdict(set)
        self.without_leader: set[TopicPartition] = set()  # in state New or Offline
        self._offline: set[TopicPartition] = set()
        self._imbalanced: set[TopicPartition] = set()

    # -- brokers -------------------------------------------------------------------------------------------------------

    @property
    def live_ids(self) -> set[int]:
        """Registered and not shutting down."""
        return self.brokers.keys() - self.shutting_down

    @property
    def registered_ids(self) -> list[int]:
        """Live or shutting down, ascending."""
        return sorted(self.brokers)

    def is_live(self, broker: int) -> bool:
        return broker in self.brokers and broker not in self.shutting_down

    def is_replica_online(self, broker: int, partition: TopicPartition, *, or_shutting_down: bool = False) -> bool:
        """The broker is live and the replica's log directory works."""
        if broker not in self.brokers or (broker in self.shutting_down and not or_shutting_down):
            return False
        offline = self.offline_dirs.get(broker)
        return offline is None or partition not in offline

    def online_replicas(self, partition: TopicPartition, *, or_shutting_down: bool = False) -> set[int]:
        replicas = self.replicas(partition)
        return {item for item in replicas if self.is_replica_online(item, partition, or_shutting_down=or_shutting_down)}

    # -- topics and assignments ----------------------------------------------------------------------------------------

    def add_topic_id(self, topic: str, topic_id: bytes) -> None:
        """Raises `ValueError` if the topic is known under another id."""
        known = self.topic_ids.get(topic)
        if known is not None and known != topic_id:
            raise ValueError(f"topic {topic} already has another id")
        self.topic_ids[topic] = topic_id
        self.topic_names[topic_id] = topic

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """The full assignment; without replicas if the partition is unknown."""
        return self.assignments.get(partition.topic, {}).get(partition.partition, _NOTHING)

    def replicas(self, partition: TopicPartition) -> tuple[int, ...]:
        return self.assignment(partition).replicas

    def set_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        for broker in self.replicas(partition):
            self.by_broker[broker].discard(partition)
        self.assignments.setdefault(partition.topic, {})[partition.partition] = assignment
        for broker in assignment.replicas:
            self.by_broker[broker].add(partition)
        self._update_imbalance(partition)

    def has_partition(self, partition: TopicPartition) -> bool:
        return partition.partition in self.assignments.get(partition.topic, {})

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in self.assignments.get(topic, {})]

    def all_partitions(self) -> Iterable[TopicPartition]:
        for topic, partitions in self.assignments.items():
            for number in partitions:
                yield TopicPartition(topic, number)

    def replicas_of_topic(self, topic: str) -> list[PartitionReplica]:
        return [
            PartitionReplica(TopicPartition(topic, number), broker)
            for number, assignment in self.assignments.get(topic, {}).items()
            for broker in assignment.replicas
        ]

    def replicas_on(self, brokers: Iterable[int]) -> list[PartitionReplica]:
        return [
            PartitionReplica(partition, broker)
            for broker in sorted(brokers)
            for partition in sorted(self.by_broker.get(broker, ()))
        ]

    def remove_topic(self, topic: str) -> None:
        """Forget a topic and all that belongs to it."""
        self.topics_to_delete.discard(topic)
        self.topics_deletion_started.discard(topic)
        self.topics_ineligible.discard(topic)
        self.topics.discard(topic)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        for number, assignment in self.assignments.pop(topic, {}).items():
            partition = TopicPartition(topic, number)
            for broker in assignment.replicas:
                self.by_broker[broker].discard(partition)
                self.replica_states.pop(PartitionReplica(partition, broker), None)
                self.offline_dirs.get(broker, set()).discard(partition)
            state = self.leadership.pop(partition, None)
            if state is not None:
                self.by_leader[state.leader].discard(partition)
            self.partition_states.pop(partition, None)
            self.reassigning.discard(partition)
            for index in (self.without_leader, self._offline, self._imbalanced):
                index.discard(partition)

    # -- leadership ----------------------------------------------------------------------------------------------------

    def set_leadership(self, partition: TopicPartition, state: PartitionState) -> None:
        before = self.leadership.get(partition)
        if before is not None:
            self.by_leader[before.leader].discard(partition)
        self.leadership[partition] = state
        self.by_leader[state.leader].add(partition)
        self._update_imbalance(partition)

    def partitions_with_leaders(self) -> list[TopicPartition]:
        """Partitions with leadership information whose topic is not being deleted."""
        return [item for item in self.leadership if item.topic not in self.topics_to_delete]

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        """Partitions whose leader is not online, without those of topics being deleted."""
        found: list[TopicPartition] = []
        for leader, partitions in self.by_leader.items():
            if not partitions:
                continue
            if not self.is_live(leader):
                found.extend(partitions)
            else:
                found.extend(partitions & self.offline_dirs.get(leader, set()))
        return sorted(item for item in found if item.topic not in self.topics_to_delete)

    # -- states --------------------------------------------------------------------------------------------------------

    def partition_state(self, partition: TopicPartition) -> PartitionStatus:
        return self.partition_states.get(partition, PartitionStatus.NON_EXISTENT)

    def set_partition_state(self, partition: TopicPartition, status: PartitionStatus) -> None:
        if self.on_change is not None:
            self.on_change(partition, self.partition_state(partition).name, status.name)
        self.partition_states[partition] = status
        if status in (PartitionStatus.NEW, PartitionStatus.OFFLINE):
            self.without_leader.add(partition)
        else:
            self.without_leader.discard(partition)
        if status is PartitionStatus.OFFLINE and partition.topic not in self.topics_to_delete:
            self._offline.add(partition)
        else:
            self._offline.discard(partition)

    def replica_state(self, replica: PartitionReplica) -> ReplicaStatus:
        return self.replica_states.get(replica, ReplicaStatus.NON_EXISTENT)

    def set_replica_state(self, replica: PartitionReplica, status: ReplicaStatus) -> None:
        if self.on_change is not None:
            self.on_change(replica, self.replica_state(replica).name, status.name)
        if status is ReplicaStatus.NON_EXISTENT:
            self.replica_states.pop(replica, None)
        else:
            self.replica_states[replica] = status

    def replicas_in_state(self, topic: str, status: ReplicaStatus) -> list[PartitionReplica]:
        return [item for item in self.replicas_of_topic(topic) if self.replica_state(item) is status]

    # -- deletion ------------------------------------------------------------------------------------------------------

    def is_queued_for_deletion(self, topic: str) -> bool:
        return topic in self.topics_to_delete

    def queue_for_deletion(self, topics: Iterable[str]) -> None:
        """Queue topics; they leave the counters of offline and imbalanced partitions."""
        for topic in topics:
            self.topics_to_delete.add(topic)
            for partition in self.partitions_of(topic):
                self._offline.discard(partition)
                self._imbalanced.discard(partition)

    # -- counters ------------------------------------------------------------------------------------------------------

    @property
    def offline_partition_count(self) -> int:
        return len(self._offline)

    @property
    def preferred_imbalance_count(self) -> int:
        return len(self._imbalanced)

    def is_led_by_preferred(self, partition: TopicPartition) -> bool:
        replicas = self.replicas(partition)
        state = self.leadership.get(partition)
        return state is not None and bool(replicas) and state.leader == replicas[0]

    def _update_imbalance(self, partition: TopicPartition) -> None:
        state = self.leadership.get(partition)
        assignment = self.assignment(partition)
        imbalanced = False
        if state is not None and assignment.replicas and partition.topic not in self.topics_to_delete:
            preferred = assignment.replicas[0]
            # A preferred replica that is still being copied cannot lead yet; it counts until it is in the ISR.
            copying = preferred in assignment.adding
            imbalanced = preferred not in state.isr if copying else state.leader != preferred
        if imbalanced:
            self._imbalanced.add(partition)
        else:
            self._imbalanced.discard(partition)
