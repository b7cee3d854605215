"""Committed offsets of a group, by Odradek's own client."""

from __future__ import annotations

from network.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.support.cluster import Cluster


def committed_offsets(cluster: Cluster, group: str) -> dict[tuple[str, int], int]:
    """All offsets of the group."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    with cluster.client() as client:
        (answer,) = client.call_coordinator(group, 0, request).groups
    assert answer.error_code == 0
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in answer.topics
        for partition in topic.partitions
    }
