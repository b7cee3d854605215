"""ListOffsets (key 2, versions 0-9): offsets by time, and the two ends of a partition.

Timestamps below zero are special: -1 latest, -2 earliest, -3 (version 7) the record with the largest timestamp,
-4 (version 8) the earliest local offset, -5 (version 9) the last tiered one. Version 0 answers segment base offsets.

Versions: 1 one timestamp and offset in place of many offsets; 2 isolation level and throttle time; 3 a throttled client
waits by itself (KIP-219); 4 leader epochs (KIP-320); 5 OFFSET_NOT_AVAILABLE while a new leader does not know its high
watermark yet; 6 flexible; 7-9 the special timestamps above.
"""

from __future__ import annotations

from broker.replication import partition_reads
from broker.replication.results import CONSUMER_REPLICA_ID
from broker.requests.authorization import Operation, ResourceType
from broker.requests.registry import Call, api
from log.fetch_data import FetchIsolation
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode, error_of
from network.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

_LOWEST_TIMESTAMP = {9: -5, 8: -4, 7: -3}


def _error_form(call: Call[ListOffsetsRequest], code: ErrorCode, message: str | None) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=p.partition_index, error_code=code)
                    for p in topic.partitions
                ],
            )
            for topic in call.request.topics
        ]
    )


@api(ApiKey.LIST_OFFSETS, versions=(0, 9), error_form=_error_form)
def handle(call: Call[ListOffsetsRequest]) -> ListOffsetsResponse:
    request = call.request
    seen: set[tuple[str, int]] = set()
    duplicates: set[tuple[str, int]] = set()
    for topic in request.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            (duplicates if key in seen else seen).add(key)
    topics = []
    for topic in request.topics:
        denied = not call.broker.authorizer.authorize(
            call.connection, Operation.DESCRIBE, ResourceType.TOPIC, topic.name
        )
        answers = []
        for partition in topic.partitions:
            if denied:
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif call.version > 0 and (topic.name, partition.partition_index) in duplicates:
                error = ErrorCode.INVALID_REQUEST
            else:
                answers.append(_answer(call, TopicPartition(topic.name, partition.partition_index), partition))
                continue
            answers.append(ListOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=error))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _answer(
    call: Call[ListOffsetsRequest], tp: TopicPartition, asked: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    request, version = call.request, call.version
    partitions = call.broker.replica_manager.partitions
    answer = ListOffsetsPartitionResponse(partition_index=tp.partition)
    try:
        if asked.timestamp < _LOWEST_TIMESTAMP.get(version, -2):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if version == 0:
            answer.old_style_offsets = partition_reads.legacy_offsets(
                partitions.get_or_raise(tp),
                asked.timestamp,
                asked.max_num_offsets,
                request.replica_id == CONSUMER_REPLICA_ID,
            )
            return answer
        isolation: FetchIsolation | None = FetchIsolation.HIGH_WATERMARK
        if request.replica_id != CONSUMER_REPLICA_ID:
            isolation = None  # followers and debugging clients see the whole log
        elif request.isolation_level == 1:
            isolation = FetchIsolation.TXN_COMMITTED
        found = partition_reads.offset_for_timestamp(
            partitions.get_or_raise(tp), asked.timestamp, isolation, asked.current_leader_epoch, request.replica_id
        )
    except Exception as error:
        code, _ = error_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            raise
        if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < 5:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        answer.error_code = code
        return answer
    if found is not None:
        answer.timestamp = found.timestamp
        answer.offset = found.offset
        if found.leader_epoch is not None and version >= 4:
            answer.leader_epoch = found.leader_epoch
    return answer
