"""What a consumer group needs to know of the cluster's topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Protocol

from broker.groups.consumer.model import TopicMetadata
from network.protocol.uuids import ZERO_UUID


class ClusterTopics(Protocol):
    """One consistent view. `layout_version` differs when topics, their ids or their partition counts do."""

    @property
    def layout_version(self) -> int: ...

    @property
    def topics(self) -> Mapping[str, Sized]:
        """Partitions by the topic's name."""

    @property
    def topic_ids(self) -> Mapping[str, bytes]: ...

    @property
    def topic_names(self) -> Mapping[bytes, str]: ...


TopicsView = Callable[[], ClusterTopics]
"""Gives the view of now."""


class NoTopics:
    """A cluster without topics."""

    layout_version = 0
    topics: Mapping[str, Sized] = {}
    topic_ids: Mapping[str, bytes] = {}
    topic_names: Mapping[bytes, str] = {}


def metadata_of(cluster: ClusterTopics, names: Iterable[str]) -> dict[str, TopicMetadata]:
    """Those of the topics that exist and have an id."""
    found = {}
    for name in names:
        partitions = cluster.topics.get(name)
        topic_id = cluster.topic_ids.get(name, ZERO_UUID)
        if partitions is not None and topic_id != ZERO_UUID:
            found[name] = TopicMetadata(topic_id, len(partitions))
    return found
