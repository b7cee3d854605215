"""ConsumerGroupCurrentMemberAssignmentValue: the partitions that a member holds and gives up (KIP-848)."""

from __future__ import annotations

from network.protocol.fields import array, int8, int32, uuid
from network.protocol.message import StoredPayload, Struct


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupCurrentMemberAssignmentValue(StoredPayload, versions=(0, 0), flexible=0):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)
