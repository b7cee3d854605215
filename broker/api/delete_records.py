"""DeleteRecords (key 21, versions 0-2): raise the log start of partitions; offset -1 means the high watermark.

Answered when every live replica has raised its own log start, or with REQUEST_TIMED_OUT.

Versions: 1 a throttled client waits by itself (KIP-219); 2 flexible.
"""

from __future__ import annotations

from broker.replication.results import DeleteRecordsResult
from broker.requests.authorization import Operation, ResourceType
from broker.requests.registry import Call, api
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def _error_form(call: Call[DeleteRecordsRequest], code: ErrorCode, message: str | None) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(partition_index=p.partition_index, low_watermark=-1, error_code=code)
                    for p in topic.partitions
                ],
            )
            for topic in call.request.topics
        ]
    )


@api(ApiKey.DELETE_RECORDS, versions=(0, 2), error_form=_error_form)
def handle(call: Call[DeleteRecordsRequest]) -> None:
    request, broker = call.request, call.broker
    failed: dict[TopicPartition, DeleteRecordsResult] = {}
    offsets: dict[TopicPartition, int] = {}
    for topic in request.topics:
        allowed = broker.authorizer.authorize(call.connection, Operation.DELETE, ResourceType.TOPIC, topic.name)
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            if not allowed:
                failed[tp] = DeleteRecordsResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif not broker.metadata_cache.contains(tp.topic, tp.partition):
                failed[tp] = DeleteRecordsResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                offsets[tp] = partition.offset

    def respond(results: dict[TopicPartition, DeleteRecordsResult]) -> None:
        topics: dict[str, list[DeleteRecordsPartitionResult]] = {}
        for tp, result in {**failed, **results}.items():
            topics.setdefault(tp.topic, []).append(
                DeleteRecordsPartitionResult(
                    partition_index=tp.partition, low_watermark=result.low_watermark, error_code=result.error
                )
            )
        call.respond(
            DeleteRecordsResponse(
                topics=[DeleteRecordsTopicResult(name=name, partitions=parts) for name, parts in topics.items()]
            )
        )

    if offsets:
        broker.replica_manager.delete_records(request.timeout_ms, offsets, respond)
    else:
        respond({})
