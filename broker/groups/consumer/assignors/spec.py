"""What an assignor is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class TopicIdPartition(NamedTuple):
    """A partition by the topic's id (16 raw bytes)."""

    topic_id: bytes
    partition: int


Partitions = frozenset[TopicIdPartition]
NO_PARTITIONS: Partitions = frozenset()


@dataclass(frozen=True, slots=True)
class AssignorMember:
    """A member as assignors see it: topics that exist, by id, and the target assignment of before."""

    topics: frozenset[bytes]
    current: Partitions = NO_PARTITIONS
    instance_id: str | None = None
    rack_id: str | None = None


Members = Mapping[str, AssignorMember]
PartitionCounts = Mapping[bytes, int]
"""How many partitions a topic has, for every topic that a member subscribes to."""

Assignor = Callable[[Members, PartitionCounts], dict[str, Partitions]]
"""Gives every member its partitions; a partition with a subscriber goes to exactly one member."""
