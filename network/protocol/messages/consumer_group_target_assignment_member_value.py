"""ConsumerGroupTargetAssignmentMemberValue: the partitions that a member shall hold (KIP-848)."""

from __future__ import annotations

from network.protocol.fields import array, int32, uuid
from network.protocol.message import StoredPayload, Struct


class TopicPartition(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupTargetAssignmentMemberValue(StoredPayload, versions=(0, 0), flexible=0):
    topic_partitions: list[TopicPartition] = array(TopicPartition)
