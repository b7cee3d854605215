"""ConsumerGroupPartitionMetadataValue: the topics that a group sees, with their partitions and racks (KIP-848)."""

from __future__ import annotations

from network.protocol.fields import array, int32, string, uuid
from network.protocol.message import StoredPayload, Struct


class PartitionMetadata(Struct):
    partition: int = int32()
    racks: list[str] = array(string)


class TopicMetadata(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


class ConsumerGroupPartitionMetadataValue(StoredPayload, versions=(0, 0), flexible=0):
    topics: list[TopicMetadata] = array(TopicMetadata)
