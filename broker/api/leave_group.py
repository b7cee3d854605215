"""LeaveGroup (key 13, versions 0-5): members leave, or are removed by an administrator.

Up to version 2 a request names one member, whose error is the top-level one.

Versions: 1 throttle time; 2 a throttled client waits by itself (KIP-219); 3 many members, by member or instance id,
with errors of their own (KIP-345); 4 flexible; 5 reasons (KIP-800).
"""

from __future__ import annotations

from broker.groups.classic.requests import LeavingMember
from broker.requests.authorization import Operation
from broker.requests.group_checks import require_group
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse


@api(ApiKey.LEAVE_GROUP, versions=(0, 5))
def handle(call: Call[LeaveGroupRequest]) -> LeaveGroupResponse:
    request, version = call.request, call.version
    require_group(call, Operation.READ, request.group_id)
    if version <= 2:
        leaving = [LeavingMember(request.member_id)]
    else:
        leaving = [LeavingMember(each.member_id, each.group_instance_id, each.reason) for each in request.members]
    result = call.broker.group_coordinator.leave_group(request.group_id, leaving)
    if version <= 2:
        error = result.error
        if error is ErrorCode.NONE and result.members:
            error = result.members[0][1]
        return LeaveGroupResponse(error_code=error)
    return LeaveGroupResponse(
        error_code=result.error,
        members=[
            MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error)
            for member, error in result.members
        ],
    )
