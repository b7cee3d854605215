"""The states of partitions and replicas, and from which state each may be entered."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from log.topic_partition import TopicPartition


class PartitionStatus(Enum):
    """Where a partition stands in its life, by Kafka's numbers."""

    NEW = 0
    ONLINE = 1
    OFFLINE = 2
    NON_EXISTENT = 3


class ReplicaStatus(Enum):
    """Where a replica stands in its life, by Kafka's numbers."""

    NEW = 1
    ONLINE = 2
    OFFLINE = 3
    DELETION_STARTED = 4
    DELETION_SUCCESSFUL = 5
    DELETION_INELIGIBLE = 6
    NON_EXISTENT = 7


class PartitionReplica(NamedTuple):
    """A replica: a partition and the broker that holds it."""

    partition: TopicPartition
    replica: int


P, R = PartitionStatus, ReplicaStatus

# target: the states that it may be entered from
PARTITION_TRANSITIONS: dict[PartitionStatus, frozenset[PartitionStatus]] = {
    P.NEW: frozenset({P.NON_EXISTENT}),
    P.ONLINE: frozenset({P.NEW, P.ONLINE, P.OFFLINE}),
    P.OFFLINE: frozenset({P.NEW, P.ONLINE, P.OFFLINE}),
    P.NON_EXISTENT: frozenset({P.OFFLINE}),
}

REPLICA_TRANSITIONS: dict[ReplicaStatus, frozenset[ReplicaStatus]] = {
    R.NEW: frozenset({R.NON_EXISTENT}),
    R.ONLINE: frozenset({R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE}),
    R.OFFLINE: frozenset({R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE}),
    R.DELETION_STARTED: frozenset({R.OFFLINE}),
    R.DELETION_SUCCESSFUL: frozenset({R.DELETION_STARTED}),
    R.DELETION_INELIGIBLE: frozenset({R.OFFLINE, R.DELETION_STARTED}),
    R.NON_EXISTENT: frozenset({R.DELETION_SUCCESSFUL}),
}
