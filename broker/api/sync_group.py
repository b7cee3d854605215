"""SyncGroup (key 14, versions 0-5): the leader brings the assignment, everybody gets their part of it.

Answered when the assignment is stored.

Versions: 1 throttle time; 2 a throttled client waits by itself (KIP-219); 3 static members (KIP-345); 4 flexible;
5 protocol type and name, which are required and checked (KIP-559).
"""

from __future__ import annotations

from broker.groups.classic.requests import SyncRequest, SyncResult
from broker.requests.authorization import Operation
from broker.requests.group_checks import require_group, require_static_members
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@api(ApiKey.SYNC_GROUP, versions=(0, 5))
def handle(call: Call[SyncGroupRequest]) -> None:
    request = call.request
    require_static_members(call, request.group_instance_id)
    if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    require_group(call, Operation.READ, request.group_id)

    def respond(result: SyncResult) -> None:
        call.respond(
            SyncGroupResponse(
                error_code=result.error,
                protocol_type=result.protocol_type,
                protocol_name=result.protocol_name,
                assignment=result.assignment,
            )
        )

    call.broker.group_coordinator.sync_group(
        SyncRequest(
            request.group_id,
            request.generation_id,
            request.member_id,
            request.group_instance_id,
            request.protocol_type,
            request.protocol_name,
            {each.member_id: bytes(each.assignment) for each in request.assignments},
        ),
        respond,
    )
