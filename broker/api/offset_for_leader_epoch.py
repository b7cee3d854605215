"""OffsetForLeaderEpoch (key 23, versions 0-4): where a leader epoch ends in this leader's log.

Followers use it to find where to truncate, consumers to detect that records they read were lost. Leader only. No such
epoch is not an error: the answer then is epoch -1, offset -1.

Versions: 1 the epoch whose end is told; 2 the current leader epoch, which fences, and throttle time (KIP-320); 3 the
replica's id: consumers may ask; 4 flexible.
"""

from __future__ import annotations

from broker.replication.partition_reads import epoch_end_offset
from broker.requests.authorization import CLUSTER_NAME, Operation, ResourceType
from broker.requests.registry import Call, api
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode, error_of
from network.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)


def _error_form(
    call: Call[OffsetForLeaderEpochRequest], code: ErrorCode, message: str | None
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[EpochEndOffset(error_code=code, partition=p.partition) for p in topic.partitions],
            )
            for topic in call.request.topics
        ]
    )


@api(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(0, 4), error_form=_error_form)
def handle(call: Call[OffsetForLeaderEpochRequest]) -> OffsetForLeaderEpochResponse:
    authorizer, connection, partitions = call.broker.authorizer, call.connection, call.broker.replica_manager.partitions
    everything = authorizer.authorize(
        connection, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, explicit=False
    )
    topics = []
    for topic in call.request.topics:
        allowed = everything or authorizer.authorize(connection, Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        answers = []
        for asked in topic.partitions:
            answer = EpochEndOffset(partition=asked.partition)
            if not allowed:
                answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            else:
                try:
                    partition = partitions.get_or_raise(TopicPartition(topic.topic, asked.partition))
                    found = epoch_end_offset(
                        partition, asked.current_leader_epoch, asked.leader_epoch, require_leader=True
                    )
                    answer.leader_epoch, answer.end_offset = found.epoch, found.end_offset
                except Exception as error:
                    answer.error_code, _ = error_of(error)
            answers.append(answer)
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return OffsetForLeaderEpochResponse(topics=topics)
