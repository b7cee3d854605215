"""JoinGroup (key 11, versions 0-9): enter a group, or its next generation.

Answered when the join phase of the group ends.

Versions: 1 rebalance timeout; 2 throttle time; 3 a throttled client waits by itself (KIP-219); 4 a dynamic member is
first given an id, with MEMBER_ID_REQUIRED (KIP-394); 5 static members (KIP-345); 6 flexible; 7 protocol type, and a
protocol name that may be null; 8 reason (KIP-800); 9 a leader that must not assign.
"""

from __future__ import annotations

from broker.groups.classic.requests import JoinRequest, JoinResult
from broker.requests.authorization import Operation
from broker.requests.group_checks import java_address, require_group, require_static_members
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember


def _error_form(call: Call[JoinGroupRequest], code: ErrorCode, message: str | None) -> JoinGroupResponse:
    return _response(call.version, JoinResult(code, call.request.member_id if call.request is not None else ""))


@api(ApiKey.JOIN_GROUP, versions=(0, 9), error_form=_error_form)
def handle(call: Call[JoinGroupRequest]) -> None:
    request, version = call.request, call.version
    require_static_members(call, request.group_instance_id)
    require_group(call, Operation.READ, request.group_id)
    call.broker.group_coordinator.join_group(
        JoinRequest(
            group_id=request.group_id,
            member_id=request.member_id,
            client_id=call.header.client_id or "",
            client_host=java_address(call.connection.client_host),
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
            group_instance_id=request.group_instance_id,
            require_known_member_id=version >= 4,
            skips_assignment=version >= 9,
            reason=request.reason,
        ),
        lambda result: call.respond(_response(version, result)),
    )


def _response(version: int, result: JoinResult) -> JoinGroupResponse:
    name = result.protocol_name
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=(name or None) if version >= 7 else (name or ""),
        leader=result.leader_id,
        skip_assignment=result.skip_assignment if version >= 9 else False,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in result.members
        ],
    )
