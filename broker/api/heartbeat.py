"""Heartbeat (key 12, versions 0-4): a member is alive; the answer tells whether it must join again.

Versions: 1 throttle time; 2 a throttled client waits by itself (KIP-219); 3 instance ids of static members (KIP-345);
4 flexible.
"""

from __future__ import annotations

from broker.groups.classic import requests
from broker.requests.authorization import Operation
from broker.requests.group_checks import require_group, require_static_members
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@api(ApiKey.HEARTBEAT, versions=(0, 4))
def handle(call: Call[HeartbeatRequest]) -> HeartbeatResponse:
    request = call.request
    require_static_members(call, request.group_instance_id)
    require_group(call, Operation.READ, request.group_id)
    error = call.broker.group_coordinator.heartbeat(
        requests.HeartbeatRequest(request.group_id, request.generation_id, request.member_id, request.group_instance_id)
    )
    return HeartbeatResponse(error_code=error)
