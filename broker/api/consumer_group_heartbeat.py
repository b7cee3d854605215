"""ConsumerGroupHeartbeat (key 68, versions 0-1): membership in a group of the consumer protocol (KIP-848).

One request joins, changes the subscription, keeps the session, takes partitions and gives them up, and leaves.

Without `consumer` among `group.coordinator.rebalance.protocols`, version 0 only is offered and every request answered
UNSUPPORTED_VERSION, as Kafka does in ZooKeeper mode; clients then use the classic protocol.

Versions: 1 subscriptions by regular expression, and member ids that the client makes.
"""

from __future__ import annotations

from broker.groups.consumer.config import max_version
from broker.groups.consumer.model import by_topic, from_topics
from broker.groups.consumer.requests import HeartbeatRequest, HeartbeatResult
from broker.requests.authorization import Operation, ResourceType
from broker.requests.group_checks import java_address, may, require_group
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


@api(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), limit=max_version)
def handle(call: Call[ConsumerGroupHeartbeatRequest]) -> None:
    coordinator = call.broker.group_coordinator
    if not coordinator.serves_consumer_protocol:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    request = call.request
    require_group(call, Operation.READ, request.group_id)
    for topic in request.subscribed_topic_names or ():
        if not may(call, Operation.DESCRIBE, ResourceType.TOPIC, topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    heartbeat = HeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=None if request.subscribed_topic_names is None else frozenset(request.subscribed_topic_names),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None if request.topic_partitions is None else from_topics(request.topic_partitions),
        client_id=call.header.client_id or "",
        client_host=java_address(call.connection.client_host),
        has_own_id=call.version >= 1,
        may_describe=lambda topic: may(call, Operation.DESCRIBE, ResourceType.TOPIC, topic, explicit=False),
    )
    coordinator.consumer_group_heartbeat(heartbeat, lambda result: call.respond(_response(result)))


def _response(result: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if result.assignment is not None:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in by_topic(result.assignment).items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        error_code=result.error,
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )
