"""DescribeGroups (key 15, versions 0-5): state and members of groups.

A group that does not exist is described as Dead, without an error.

Versions: 1 throttle time; 2 a throttled client waits by itself (KIP-219); 3 authorized operations (KIP-430); 4 instance
ids of static members (KIP-345); 5 flexible.
"""

from __future__ import annotations

from broker.requests.authorization import NOT_ASKED, Operation, ResourceType, authorized_operations
from broker.requests.group_checks import may
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


def _error_form(call: Call[DescribeGroupsRequest], code: ErrorCode, message: str | None) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[DescribedGroup(error_code=code, group_id=group_id) for group_id in call.request.groups]
    )


@api(ApiKey.DESCRIBE_GROUPS, versions=(0, 5), error_form=_error_form)
def handle(call: Call[DescribeGroupsRequest]) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[_describe(call, group_id) for group_id in call.request.groups])


def _describe(call: Call[DescribeGroupsRequest], group_id: str) -> DescribedGroup:
    if not may(call, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
    found = call.broker.group_coordinator.admin.describe_group(group_id)
    operations = NOT_ASKED
    if call.request.include_authorized_operations and found.error is ErrorCode.NONE:
        operations = authorized_operations(call.broker.authorizer, call.connection, ResourceType.GROUP, group_id)
    return DescribedGroup(
        error_code=found.error,
        group_id=group_id,
        group_state=found.state,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol_name,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in found.members
        ],
        authorized_operations=operations,
    )
