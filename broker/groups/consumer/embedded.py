"""What members of the classic protocol wrap into its opaque bytes: subscriptions and assignments by topic name."""

from __future__ import annotations

from typing import NamedTuple

from broker.groups.consumer.assignors.spec import Partitions, TopicIdPartition
from broker.groups.consumer.metadata import ClusterTopics
from broker.groups.consumer.model import by_topic
from network.protocol.errors import ProtocolError
from network.protocol.message import payload_version
from network.protocol.messages import consumer_protocol_assignment as assignment
from network.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from network.protocol.uuids import ZERO_UUID


class EmbeddedSubscription(NamedTuple):
    """The subscription of a JoinGroup; `owned` is what the member says it has."""

    topics: frozenset[str]
    owned: Partitions
    rack_id: str | None


def decode_subscription(metadata: bytes, cluster: ClusterTopics) -> EmbeddedSubscription:
    """A later version is read as the last that is known, of which it is an extension. Raises ProtocolError."""
    version = _known(payload_version(metadata), ConsumerProtocolSubscription.MAX_VERSION)
    found, _ = ConsumerProtocolSubscription.decode_from(metadata, 2, version)
    owned = _by_id({each.topic: each.partitions for each in found.owned_partitions}, cluster)
    return EmbeddedSubscription(frozenset(found.topics), owned, found.rack_id)


class CustomAssignorError(Exception):
    """An assignment has data of a clients' assignor, which the coordinator can't keep."""


def decode_assignment(data: bytes, cluster: ClusterTopics) -> Partitions:
    """The partitions of topics that exist; none for no bytes. Raises ProtocolError and CustomAssignorError."""
    if not data:
        return frozenset()
    version = _known(payload_version(data), assignment.ConsumerProtocolAssignment.MAX_VERSION)
    found, _ = assignment.ConsumerProtocolAssignment.decode_from(data, 2, version)
    if found.user_data:
        raise CustomAssignorError
    return _by_id({each.topic: each.partitions for each in found.assigned_partitions}, cluster)


def encode_assignment(partitions: Partitions, cluster: ClusterTopics, metadata: bytes) -> bytes:
    """In the version of the member's own subscription; topics that are gone are left out."""
    names = cluster.topic_names
    content = assignment.ConsumerProtocolAssignment(
        assigned_partitions=[
            assignment.TopicPartition(topic=names[topic_id], partitions=numbers)
            for topic_id, numbers in by_topic(partitions).items()
            if topic_id in names
        ]
    )
    last = assignment.ConsumerProtocolAssignment.MAX_VERSION
    return content.encode_versioned(_known(payload_version(metadata), last))


def _known(version: int, last: int) -> int:
    if version < 0:
        raise ProtocolError(f"an embedded payload has version {version}")
    return min(version, last)


def _by_id(partitions: dict[str, list[int]], cluster: ClusterTopics) -> Partitions:
    return frozenset(
        TopicIdPartition(topic_id, number)
        for name, numbers in partitions.items()
        if (topic_id := cluster.topic_ids.get(name, ZERO_UUID)) != ZERO_UUID
        for number in numbers
    )
