"""ConsumerGroupDescribe (key 69, versions 0-1): state and members of groups of the consumer protocol (KIP-848).

A classic group is answered GROUP_ID_NOT_FOUND, as one that does not exist; clients then ask with DescribeGroups.

Without `consumer` among `group.coordinator.rebalance.protocols`, version 0 only is offered and every group answered
UNSUPPORTED_VERSION, as Kafka does in ZooKeeper mode.

Versions: 1 which protocol each member speaks.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.groups.consumer.assignors.spec import Partitions
from broker.groups.consumer.config import max_version
from broker.groups.consumer.describe import ConsumerMemberDescription
from broker.groups.consumer.model import by_topic
from broker.requests.authorization import NOT_ASKED, Operation, ResourceType, authorized_operations
from broker.requests.group_checks import may
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


def _error_form(
    call: Call[ConsumerGroupDescribeRequest], code: ErrorCode, message: str | None
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[
            DescribedGroup(group_id=group_id, error_code=code, error_message=message)
            for group_id in call.request.group_ids
        ]
    )


@api(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), error_form=_error_form, limit=max_version)
def handle(call: Call[ConsumerGroupDescribeRequest]) -> ConsumerGroupDescribeResponse:
    if not call.broker.group_coordinator.serves_consumer_protocol:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    return ConsumerGroupDescribeResponse(groups=[_describe(call, group_id) for group_id in call.request.group_ids])


def _describe(call: Call[ConsumerGroupDescribeRequest], group_id: str) -> DescribedGroup:
    if not may(call, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    try:
        found = call.broker.group_coordinator.describe_consumer_group(group_id)
    except ApiError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    for member in found.members:
        if not all(may(call, Operation.DESCRIBE, ResourceType.TOPIC, topic) for topic in member.all_topics):
            return DescribedGroup(
                group_id=group_id,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message="a member of the group subscribes to a topic that may not be described",
            )
    operations = NOT_ASKED
    if call.request.include_authorized_operations:
        operations = authorized_operations(call.broker.authorizer, call.connection, ResourceType.GROUP, group_id)
    names = call.broker.metadata_cache.snapshot.topic_names
    return DescribedGroup(
        group_id=group_id,
        group_state=found.state,
        group_epoch=found.epoch,
        assignment_epoch=found.target_epoch,
        assignor_name=found.assignor,
        members=[_member(member, names) for member in found.members],
        authorized_operations=operations,
    )


def _member(member: ConsumerMemberDescription, names: Mapping[bytes, str]) -> Member:
    who = member.subscription
    return Member(
        member_id=member.member_id,
        instance_id=who.instance_id,
        rack_id=who.rack_id,
        member_epoch=member.epoch,
        client_id=who.client_id,
        client_host=who.client_host,
        subscribed_topic_names=sorted(who.topics),
        subscribed_topic_regex=who.regex,
        assignment=_assignment(member.assigned, names),
        target_assignment=_assignment(member.target, names),
        member_type=_CONSUMER_MEMBER if who.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(partitions: Partitions, names: Mapping[bytes, str]) -> Assignment:
    """Topics that do not exist any more are left out."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=names[topic_id], partitions=numbers)
            for topic_id, numbers in by_topic(partitions).items()
            if topic_id in names
        ]
    )
