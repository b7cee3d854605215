"""A client's picture of a cluster, made from Metadata responses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from network.protocol.errors import ErrorCode
from network.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from network.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where a broker's clients reach it. The id is negative for a bootstrap address whose broker is not known yet."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.id < 0 else f"{self.host}:{self.port} (id {self.id})"


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """`leader` is -1 where there is none, `leader_epoch` -1 where the broker does not say."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """`error` is NONE for a topic that exists; partitions are ordered."""

    name: str
    topic_id: bytes
    internal: bool
    error: ErrorCode
    partitions: dict[int, PartitionMetadata]


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """Brokers by id, the controller (-1 if unknown), the cluster id and the topics that were asked for."""

    brokers: dict[int, BrokerAddress] = field(default_factory=dict)
    controller_id: int = -1
    cluster_id: str | None = None
    topics: dict[str, TopicMetadata] = field(default_factory=dict)

    @staticmethod
    def of(response: MetadataResponse) -> ClusterMetadata:
        return ClusterMetadata(
            {each.node_id: BrokerAddress(each.node_id, each.host, each.port, each.rack) for each in response.brokers},
            response.controller_id,
            response.cluster_id,
            {each.name: _topic(each.name, each) for each in response.topics if each.name is not None},
        )

    def leader(self, topic: str, partition: int) -> BrokerAddress | None:
        """The leader's address, or None where topic, partition, leader or its address is not known."""
        known = self.topics.get(topic)
        found = known.partitions.get(partition) if known is not None else None
        return self.brokers.get(found.leader) if found is not None else None


def _topic(name: str, topic: MetadataResponseTopic) -> TopicMetadata:
    partitions = [
        PartitionMetadata(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            each.replica_nodes,
            each.isr_nodes,
            each.offline_replicas,
            ErrorCode.of(each.error_code),
        )
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]
    return TopicMetadata(
        name,
        topic.topic_id or ZERO_UUID,
        topic.is_internal,
        ErrorCode.of(topic.error_code),
        {each.partition: each for each in partitions},
    )
