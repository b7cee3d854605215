"""OffsetFetch (key 9, versions 0-9): read a group's offsets.

Version 0 reads ZooKeeper.

Versions: 1 Kafka keeps the offsets; 2 null for all, and a top-level error; 3 throttle time; 4 a throttled client waits
by itself (KIP-219); 5 leader epochs (KIP-320); 6 flexible; 7 stable offsets only (KIP-447); 8 many groups, each with
its own error (KIP-709); 9 member id and epoch, which groups of the consumer protocol check (KIP-848).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker.groups.offsets.group_offsets import OffsetAndMetadata
from broker.groups.offsets.service import FetchedOffset
from broker.groups.offsets.zookeeper import fetch_from_zookeeper
from broker.requests.authorization import Operation, ResourceType
from broker.requests.group_checks import by_topic, may, partition_error, require_group
from broker.requests.registry import Call, api
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_Found = dict[TopicPartition, FetchedOffset]
_DENIED = FetchedOffset(OffsetAndMetadata(-1), ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _error_form(call: Call[OffsetFetchRequest], code: ErrorCode, message: str | None) -> OffsetFetchResponse:
    request, version = call.request, call.version
    if version >= 8:
        return OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in request.groups]
        )
    if version >= 2:
        return OffsetFetchResponse(error_code=code)
    failed = FetchedOffset(OffsetAndMetadata(-1), code)
    return OffsetFetchResponse(topics=_topics(dict.fromkeys(_wanted(request) or (), failed)))


@api(ApiKey.OFFSET_FETCH, versions=(0, 9), error_form=_error_form)
def handle(call: Call[OffsetFetchRequest]) -> OffsetFetchResponse:
    request, version = call.request, call.version
    if version >= 8:
        return OffsetFetchResponse(groups=[_group(call, group) for group in request.groups])
    wanted = _wanted(request)
    if version == 0:
        require_group(call, Operation.DESCRIBE, request.group_id)
        allowed, denied = _split(call, wanted or [])
        known = {partition: partition_error(call, partition) is ErrorCode.NONE for partition in allowed}
        zk_found = fetch_from_zookeeper(call.broker.zk, request.group_id, known)
        return OffsetFetchResponse(topics=_topics({**zk_found, **denied}))
    error, found = _fetch(call, request.group_id, wanted)
    return OffsetFetchResponse(error_code=error, topics=_topics(found))


def _wanted(request: OffsetFetchRequest) -> list[TopicPartition] | None:
    if request.topics is None:
        return None
    return [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]


def _group(call: Call[OffsetFetchRequest], group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    wanted = None
    if group.topics is not None:
        wanted = [TopicPartition(topic.name, index) for topic in group.topics for index in topic.partition_indexes]
    error, found = _fetch(call, group.group_id, wanted, group.member_id, group.member_epoch)
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        error_code=error,
        topics=[
            OffsetFetchResponseTopics(
                name=topic,
                partitions=[OffsetFetchResponsePartitions(**_fields(*each)) for each in partitions],
            )
            for topic, partitions in by_topic(found)
        ],
    )


def _fetch(
    call: Call[OffsetFetchRequest],
    group_id: str,
    wanted: list[TopicPartition] | None,
    member_id: str | None = None,
    member_epoch: int = -1,
) -> tuple[ErrorCode, _Found]:
    if not may(call, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED, {}
    offsets = call.broker.group_coordinator.offsets
    if wanted is None:
        error, found = offsets.fetch(group_id, None, call.request.require_stable, member_id, member_epoch)
        allowed, _ = _split(call, found)
        return error, {partition: found[partition] for partition in allowed}
    allowed, denied = _split(call, wanted)
    error, found = offsets.fetch(group_id, allowed, call.request.require_stable, member_id, member_epoch)
    return error, {} if error is not ErrorCode.NONE else {**found, **denied}


def _split(call: Call[OffsetFetchRequest], partitions: Iterable[TopicPartition]) -> tuple[list[TopicPartition], _Found]:
    """Those whose topic the caller may describe, and answers for the others."""
    if call.broker.authorizer.allows_everything:
        return list(partitions), {}
    allowed, denied = [], {}
    for partition in partitions:
        if may(call, Operation.DESCRIBE, ResourceType.TOPIC, partition.topic):
            allowed.append(partition)
        else:
            denied[partition] = _DENIED
    return allowed, denied


def _topics(found: _Found) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic,
            partitions=[OffsetFetchResponsePartition(**_fields(*each)) for each in partitions],
        )
        for topic, partitions in by_topic(found)
    ]


def _fields(index: int, fetched: FetchedOffset) -> dict[str, Any]:
    """What an answer says of a partition, in every version."""
    return {
        "partition_index": index,
        "committed_offset": fetched.value.offset,
        "committed_leader_epoch": fetched.value.leader_epoch,
        "metadata": fetched.value.metadata,
        "error_code": fetched.error,
    }
