"""OffsetDelete (key 47, version 0): forget offsets of topics that a group does not read any more."""

from __future__ import annotations

from broker.groups.offsets.commits import Results
from broker.requests.authorization import Operation
from broker.requests.group_checks import by_topic, partition_error, require_group, topic_error
from broker.requests.registry import Call, api
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@api(ApiKey.OFFSET_DELETE, versions=(0, 0))
def handle(call: Call[OffsetDeleteRequest]) -> OffsetDeleteResponse:
    request = call.request
    require_group(call, Operation.DELETE, request.group_id)
    results: Results = {}
    for topic in request.topics:
        denied = topic_error(call, topic.name)
        for partition in topic.partitions:
            name = TopicPartition(topic.name, partition.partition_index)
            results[name] = denied if denied is not ErrorCode.NONE else partition_error(call, name)
    wanted = [partition for partition, error in results.items() if error is ErrorCode.NONE]
    error, deleted = call.broker.group_coordinator.offsets.delete(request.group_id, wanted)
    if error is not ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=error)
    results.update(deleted)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index, code in partitions
                ],
            )
            for topic, partitions in by_topic(results)
        ]
    )
