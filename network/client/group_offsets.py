"""Offsets of a consumer group, asked for and set from outside: as an administrator does, not as a member.

A group that has living members refuses what is set this way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from network.client.cluster_client import GROUP_COORDINATOR, ClusterClient
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from network.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

Place = tuple[str, int]
"""A topic and the number of a partition."""

_ONE_GROUP = 7  # later versions of OffsetFetch name several groups in another way


class Committed(NamedTuple):
    """What is known of a partition: its offset, or -1, and the text that was committed with it."""

    error: ErrorCode
    offset: int
    metadata: str


def fetch_offsets(
    client: ClusterClient,
    group: str,
    places: Iterable[Place] | None = None,
    *,
    stable: bool = False,
    timeout_ms: int | None = None,
) -> dict[Place, Committed]:
    """What a group has committed for these partitions, or for all of which it has an offset.

    ``stable``: a partition whose offset a transaction is about to change has the error UNSTABLE_OFFSET_COMMIT.
    Raises ApiError where the group is refused as a whole, and OSError.
    """
    topics = None
    if places is not None:
        topics = [OffsetFetchRequestTopic(name=n, partition_indexes=p) for n, p in _by_topic(places).items()]
    request = OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)
    answer = client.call_coordinator(group, GROUP_COORDINATOR, request, timeout_ms, max_version=_ONE_GROUP)
    if answer.error_code:
        raise ApiError(ErrorCode.of(answer.error_code), f"offsets of group {group}")
    return {
        (topic.name, each.partition_index): Committed(
            ErrorCode.of(each.error_code), each.committed_offset, each.metadata or ""
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def commit_offsets(
    client: ClusterClient, group: str, offsets: Mapping[Place, tuple[int, str]], timeout_ms: int | None = None
) -> dict[Place, ErrorCode]:
    """Commit offsets, each with a text beside it; how each partition was answered. Raises ApiError and OSError."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=offsets[topic, number][0],
                    committed_metadata=offsets[topic, number][1],
                )
                for number in numbers
            ],
        )
        for topic, numbers in _by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    answer = client.call_coordinator(group, GROUP_COORDINATOR, request, timeout_ms)
    return {
        (topic.name, each.partition_index): ErrorCode.of(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        found.setdefault(topic, []).append(partition)
    return found
