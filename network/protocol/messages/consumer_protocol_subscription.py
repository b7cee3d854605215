"""ConsumerProtocolSubscription: what a member of a consumer group subscribes to; metadata of JoinGroup."""

from __future__ import annotations

from network.protocol.fields import array, blob, int32, string
from network.protocol.message import StoredPayload, Struct


class TopicPartition(Struct):
    topic: str = string("1+")
    partitions: list[int] = array(int32, "1+")


class ConsumerProtocolSubscription(StoredPayload, versions=(0, 3)):
    topics: list[str] = array(string)
    user_data: bytes | None = blob(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
