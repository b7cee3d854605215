"""What a consumer group is made of: values that never change; a group replaces them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

from broker.groups.consumer.assignors.spec import NO_PARTITIONS, Partitions, TopicIdPartition

STATIC_LEAVE_EPOCH = -2
"""A static member leaves and will be back; also the epoch that it has meanwhile."""


class MemberState(IntEnum):
    """Where a member is on its way to its target assignment; the numbers are those of the records."""

    STABLE = 0
    """It has what the target of its epoch gives it."""
    UNREVOKED_PARTITIONS = 1
    """It was told to give partitions up and has not said yet that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not given up yet."""
    UNKNOWN = 127
    """Written by a coordinator of a later version."""


class ClassicProtocols(NamedTuple):
    """What a member that speaks the classic protocol has offered; its session timeout is its own, in ms."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Subscription:
    """Who a member is and what it wants (the member metadata record). The rebalance timeout is in ms, -1 if unset."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicProtocols | None = None


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """What a member has now (the current member assignment record)."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NO_PARTITIONS
    revoking: Partitions = NO_PARTITIONS

    @property
    def held(self) -> Partitions:
        """Everything that nobody else may get yet."""
        return self.assigned | self.revoking if self.revoking else self.assigned


NOTHING_YET = CurrentAssignment()
"""Of a member that has just come."""


class TopicMetadata(NamedTuple):
    """What the assignment depends on of a topic."""

    topic_id: bytes
    partitions: int


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that match a regular expression. `version` counts changes of the metadata; the timestamp is in ms."""

    topics: frozenset[str]
    version: int = 0
    timestamp: int = 0


def by_topic(partitions: Iterable[TopicIdPartition]) -> Mapping[bytes, list[int]]:
    """Partition numbers of each topic, both in order."""
    grouped: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        grouped.setdefault(topic_id, []).append(partition)
    return grouped


class TopicPartitions(Protocol):
    """How records and requests name the partitions of a topic."""

    topic_id: bytes
    partitions: list[int]


def from_topics(topics: Iterable[TopicPartitions]) -> Partitions:
    """The other way round."""
    return frozenset(TopicIdPartition(topic.topic_id, number) for topic in topics for number in topic.partitions)
