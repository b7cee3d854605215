"""ConsumerProtocolAssignment: what a member of a consumer group is assigned; content of SyncGroup."""

from __future__ import annotations

from network.protocol.fields import array, blob, int32, string
from network.protocol.message import StoredPayload, Struct


class TopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class ConsumerProtocolAssignment(StoredPayload, versions=(0, 3)):
    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = blob(nullable="0+", default=None)
