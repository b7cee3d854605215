"""Committed offsets of a group, by Odradek's own client."""

from __future__ import annotations

from network.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.clients.group_harness import wait_for
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


def wait_committed(cluster: Cluster, group: str, topic: str, partitions: int, offset: int) -> None:
    """Until the group has committed this offset in every partition.

    Members tell what they read before they commit it: one that leaves, or whose broker goes, before the commit leaves
    the records to be read again.
    """
    wanted = {(topic, number): offset for number in range(partitions)}
    wait_for(
        lambda: committed_offsets(cluster, group) == wanted,
        lambda: f"{group} commits {offset}: {committed_offsets(cluster, group)}",
    )
