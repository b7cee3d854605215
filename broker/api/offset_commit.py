"""OffsetCommit (key 8, versions 0-9): store a group's offsets.

Answered when `__consumer_offsets` has them with the required acknowledgements. Version 0 keeps them in ZooKeeper.

Versions: 1 Kafka keeps the offsets, the member, its generation, and a timestamp a partition; 2 a retention time;
3 throttle time; 4 a throttled client waits by itself (KIP-219); 5 no retention time any more (KIP-211); 6 leader epochs
(KIP-320); 7 static members (KIP-345); 8 flexible; 9 errors of the consumer protocol's members (KIP-848).
"""

from __future__ import annotations

from broker.groups.offsets.commits import Offsets, Results
from broker.groups.offsets.committer import Committer
from broker.groups.offsets.group_offsets import OffsetAndMetadata
from broker.groups.offsets.zookeeper import commit_to_zookeeper
from broker.requests.authorization import Operation
from broker.requests.group_checks import (
    by_topic,
    partitions_of,
    require_group,
    require_static_members,
    sort_out,
)
from broker.requests.registry import Call, api
from log.config import MAX_INT64
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
    everything = {name: code for name, _ in partitions_of(call.request.topics)}
    return _response(everything)


@api(ApiKey.OFFSET_COMMIT, versions=(0, 9), error_form=_error_form)
def handle(call: Call[OffsetCommitRequest]) -> None:
    request = call.request
    require_group(call, Operation.READ, request.group_id)
    require_static_members(call, request.group_instance_id)
    now = call.broker.clock.wall_ms()
    accepted, refused = sort_out(call, request.topics)
    offsets: Offsets = {name: _value(call, partition, now) for name, partition in accepted.items()}

    def respond(results: Results) -> None:
        call.respond(_response({**refused, **results}))

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
    retention = call.request.retention_time_ms  # for ever is often the largest number; Kafka's sum goes beyond its end
    stamped = call.version == 1 and partition.commit_timestamp != -1
    return OffsetAndMetadata(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        partition.commit_timestamp if stamped else now,
        min(now + retention, MAX_INT64) if 2 <= call.version <= 4 and retention != -1 else None,
    )


def _response(results: Results) -> OffsetCommitResponse:
    """Each topic and each partition once, whatever the request repeats."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=index, error_code=error)
                    for index, error in partitions
                ],
            )
            for topic, partitions in by_topic(results)
        ]
    )
