"""Groups of either protocol as the command line shows them."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.cli.client import describe
from broker.cli.errors import CommandError
from log.topic_partition import TopicPartition
from network.client.cluster_client import GROUP_COORDINATOR, ClusterClient
from network.client.connection_pool import UnsupportedVersion
from network.protocol.errors import ErrorCode, ProtocolError
from network.protocol.messages import consumer_group_describe as consumer
from network.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from network.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest

NOT_THERE = "Dead"


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member and the partitions that it has now, in order."""

    member_id: str
    instance_id: str | None
    client_host: str
    client_id: str
    partitions: list[TopicPartition]


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group; `strategy` is the protocol that a classic group elected, or the assignor of a consumer group."""

    group_id: str
    group_type: str
    state: str
    strategy: str
    members: list[MemberView] = field(default_factory=list)

    @property
    def exists(self) -> bool:
        return self.state != NOT_THERE


def view(client: ClusterClient, group_id: str) -> GroupView:
    """The group, in state Dead if there is none. Raises CommandError."""
    (found,) = client.call_coordinator(group_id, GROUP_COORDINATOR, DescribeGroupsRequest(groups=[group_id])).groups
    if found.error_code:
        raise CommandError(f"{group_id}: {describe(found.error_code, None)}")
    if found.group_state == NOT_THERE:
        # So is a group of the consumer protocol described by this request.
        return _consumer_view(client, group_id) or _classic_view(found)
    return _classic_view(found)


def _classic_view(group: DescribedGroup) -> GroupView:
    members = [
        MemberView(
            member.member_id,
            member.group_instance_id,
            member.client_host,
            member.client_id,
            _assigned(bytes(member.member_assignment)),
        )
        for member in group.members
    ]
    return GroupView(group.group_id, "classic", group.group_state, group.protocol_data or "-", members)


def _assigned(assignment: bytes) -> list[TopicPartition]:
    """Empty for what is not in the consumers' format."""
    try:
        content = ConsumerProtocolAssignment.decode_versioned(assignment)
    except ProtocolError:
        return []
    return sorted(
        TopicPartition(topic.topic, index) for topic in content.assigned_partitions for index in topic.partitions
    )


def _consumer_view(client: ClusterClient, group_id: str) -> GroupView | None:
    request = consumer.ConsumerGroupDescribeRequest(group_ids=[group_id])
    try:
        (group,) = client.call_coordinator(group_id, GROUP_COORDINATOR, request).groups
    except UnsupportedVersion:
        return None
    if group.error_code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND):
        return None
    if group.error_code:
        raise CommandError(f"{group_id}: {describe(group.error_code, group.error_message)}")
    members = [
        MemberView(
            member.member_id,
            member.instance_id,
            member.client_host,
            member.client_id,
            sorted(
                TopicPartition(topic.topic_name, index)
                for topic in member.assignment.topic_partitions
                for index in topic.partitions
            ),
        )
        for member in group.members
    ]
    return GroupView(group_id, "consumer", group.group_state, group.assignor_name, members)
