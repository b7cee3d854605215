"""OffsetCommit (key 8, versions 0-9): store a group's offsets.

Answered when `__consumer_offsets` has them with the required acknowledgements. Version 0 keeps them in ZooKeeper; 1
brings the member and its generation, and a timestamp a partition; 2-4 a retention time; 6 leader epochs; 7 static
members.
"""

from __future__ import annotations

from broker.api.authorization import Operation
from broker.api.group_checks import (
    partition_error,
    require_group,
    require_static_members,
    topic_error,
)
from broker.api.registry import Call, api
from broker.groups.offsets.commits import Offsets, Results
from broker.groups.offsets.committer import Committer
from broker.groups.offsets.group_offsets import OffsetAndMetadata
from broker.groups.offsets.zookeeper import commit_to_zookeeper
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def _error_form(call: Call[OffsetCommitRequest], code: ErrorCode, message: str | None) -> OffsetCommitResponse:
    everything = {
        TopicPartition(topic.name, partition.partition_index): code
        for topic in call.request.topics
        for partition in topic.partitions
    }
    return _response(call.request, everything)


@api(ApiKey.OFFSET_COMMIT, versions=(0, 9), error_form=_error_form)
def handle(call: Call[OffsetCommitRequest]) -> None:
    request = call.request
    require_group(call, Operation.READ, request.group_id)
    require_static_members(call, request.group_instance_id)
    refused: Results = {}
    offsets: Offsets = {}
    now = call.broker.clock.wall_ms()
    for topic in request.topics:
        denied = topic_error(call, topic.name)
        for partition in topic.partitions:
            name = TopicPartition(topic.name, partition.partition_index)
            error = denied if denied is not ErrorCode.NONE else partition_error(call, name)
            if error is ErrorCode.NONE:
                offsets[name] = _value(call, partition, now)
            else:
                refused[name] = error

    def respond(results: Results) -> None:
        call.respond(_response(request, {**results, **refused}))

    if not offsets:
        respond({})
    elif call.version == 0:
        limit = call.broker.config.get_int("offset.metadata.max.bytes")
        respond(commit_to_zookeeper(call.broker.zk, request.group_id, offsets, limit))
    else:
        committer = Committer(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            knows_epochs=call.version >= 9,
        )
        call.broker.group_coordinator.offsets.commit(committer, offsets, respond)


def _value(call: Call[OffsetCommitRequest], partition: OffsetCommitRequestPartition, now: int) -> OffsetAndMetadata:
    retention = call.request.retention_time_ms
    stamped = call.version == 1 and partition.commit_timestamp != -1
    return OffsetAndMetadata(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        partition.commit_timestamp if stamped else now,
        now + retention if 2 <= call.version <= 4 and retention != -1 else None,
    )


def _response(request: OffsetCommitRequest, results: Results) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=results[TopicPartition(topic.name, partition.partition_index)],
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
