"""DescribeProducers (key 61, version 0): who writes to a partition; any replica answers, not only the leader."""

from __future__ import annotations

from broker.requests.authorization import Operation, ResourceType
from broker.requests.registry import Call, api
from controller.topic_names import check_topic_name
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def error_form(call: Call[DescribeProducersRequest], code: ErrorCode, message: str | None) -> DescribeProducersResponse:
    """The same code for every partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(partition_index=index, error_code=code, error_message=message)
                    for index in topic.partition_indexes
                ],
            )
            for topic in call.request.topics
        ]
    )


@api(ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), error_form=error_form)
def handle(call: Call[DescribeProducersRequest]) -> DescribeProducersResponse:
    """Active producers by partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name, partitions=[_describe(call, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in call.request.topics
        ]
    )


def _describe(call: Call[DescribeProducersRequest], topic: str, partition: int) -> PartitionResponse:
    try:
        return PartitionResponse(partition_index=partition, active_producers=_producers(call, topic, partition))
    except ApiError as error:
        text = error.message or error.code.message
        return PartitionResponse(partition_index=partition, error_code=error.code, error_message=text)


def _producers(call: Call[DescribeProducersRequest], topic: str, partition: int) -> list[ProducerState]:
    broker = call.broker
    check_topic_name(topic)
    if not broker.authorizer.authorize(call.connection, Operation.READ, ResourceType.TOPIC, topic):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    tp = TopicPartition(topic, partition)
    known = broker.metadata_cache.contains(topic, partition)
    if broker.replica_manager.partitions.get(tp) is None:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    log = broker.replica_manager.partitions.get_log(tp)
    if log is None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
    return [
        ProducerState(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.last_timestamp,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=producer.current_txn_start_offset,
        )
        for producer in log.active_producers()
    ]
