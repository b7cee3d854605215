"""The states of partitions and replicas, as the tables that are executed.

The event is the state that is asked for, as in Kafka's state changes: a table says for each state which states may be
asked for, and with which effect. `PartitionStateMachine.change` and `ReplicaStateMachine.change` look it up, run the
effect for all partitions or replicas of the call at once, and set the next state of each that comes through. A state
that is not listed is refused: that is logged, nothing is changed, and the others of the call go on.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple, TypeVar

from log.topic_partition import TopicPartition


class PartitionStatus(Enum):
    """Where a partition stands in its life, by Kafka's numbers."""

    NEW = 0
    """Assigned, without a leader yet."""
    ONLINE = 1
    """Has a leader."""
    OFFLINE = 2
    """Its leader is gone."""
    NON_EXISTENT = 3
    """Not made yet, or deleted."""


class PartitionEffect(Enum):
    """What is done about a partition; the effects of one call are run in this order."""

    NOTHING = auto()
    CREATE_LEADERSHIP = auto()
    """The live replicas are leader and ISR; the state znode is made, and the ISR told (is-new).

    Without a live replica it stays new.
    """
    ELECT = auto()
    """The state znode is read, an election rule applied, and what comes of it written and told.

    Where the rule finds no leader, the state stays as it is.
    """


class ReplicaStatus(Enum):
    """Where a replica stands in its life, by Kafka's numbers."""

    NEW = 1
    """Assigned, and told nothing or only that it is new."""
    ONLINE = 2
    """On a live broker, and told its role."""
    OFFLINE = 3
    """On a broker or directory that is gone, or stopped."""
    DELETION_STARTED = 4
    """Its broker has been told to delete it."""
    DELETION_SUCCESSFUL = 5
    """Its broker has deleted it, or is not waited for."""
    DELETION_INELIGIBLE = 6
    """Cannot be deleted now: its broker is gone, or failed to."""
    NON_EXISTENT = 7
    """Not assigned."""


class ReplicaEffect(Enum):
    """What is done about a replica; the effects of one call are run in this order."""

    NOTHING = auto()
    INTRODUCE = auto()
    """If the partition has leadership, the replica is told of it (is-new). Refused for the leader."""
    ENSURE_ASSIGNED = auto()
    """It is added to the assignment in memory if it is missing there. No request: it was told when it was new."""
    ANNOUNCE = auto()
    """If the partition has leadership, the replica is told of it."""
    STOP = auto()
    """It is told to stop, leaves the ISR, and the other replicas are told; without leadership UpdateMetadata to all."""
    DELETE = auto()
    """It is told to delete its log."""
    FORGET = auto()
    """It leaves the assignment in memory."""


class PartitionReplica(NamedTuple):
    """A replica: a partition and the broker that holds it."""

    partition: TopicPartition
    replica: int


Status = TypeVar("Status", bound=Enum)
Effect = TypeVar("Effect", bound=Enum)

_P, _R = PartitionStatus, ReplicaStatus
_PE, _RE = PartitionEffect, ReplicaEffect

PARTITION_TABLE: dict[PartitionStatus, dict[PartitionStatus, PartitionEffect]] = {
    _P.NON_EXISTENT: {
        _P.NEW: _PE.NOTHING,
    },
    _P.NEW: {
        _P.ONLINE: _PE.CREATE_LEADERSHIP,
        _P.OFFLINE: _PE.NOTHING,
    },
    _P.ONLINE: {
        _P.ONLINE: _PE.ELECT,
        _P.OFFLINE: _PE.NOTHING,
    },
    _P.OFFLINE: {
        _P.ONLINE: _PE.ELECT,
        _P.OFFLINE: _PE.NOTHING,
        _P.NON_EXISTENT: _PE.NOTHING,
    },
}

REPLICA_TABLE: dict[ReplicaStatus, dict[ReplicaStatus, ReplicaEffect]] = {
    _R.NON_EXISTENT: {
        _R.NEW: _RE.INTRODUCE,
    },
    _R.NEW: {
        _R.ONLINE: _RE.ENSURE_ASSIGNED,
        _R.OFFLINE: _RE.STOP,
    },
    _R.ONLINE: {
        _R.ONLINE: _RE.ANNOUNCE,
        _R.OFFLINE: _RE.STOP,
    },
    _R.OFFLINE: {
        _R.ONLINE: _RE.ANNOUNCE,
        _R.OFFLINE: _RE.STOP,
        _R.DELETION_STARTED: _RE.DELETE,
        _R.DELETION_INELIGIBLE: _RE.NOTHING,
    },
    _R.DELETION_STARTED: {
        _R.DELETION_SUCCESSFUL: _RE.NOTHING,
        _R.DELETION_INELIGIBLE: _RE.NOTHING,
    },
    _R.DELETION_SUCCESSFUL: {
        _R.NON_EXISTENT: _RE.FORGET,
    },
    _R.DELETION_INELIGIBLE: {
        _R.ONLINE: _RE.ANNOUNCE,
        _R.OFFLINE: _RE.STOP,
    },
}


def previous_states(table: dict[Status, dict[Status, Effect]], target: Status) -> str:
    """The names of the states from which `target` may be entered, for messages."""
    return ", ".join(status.name for status, row in table.items() if target in row)
