"""ListGroups (key 16, versions 0-5): the groups that this broker coordinates.

Groups that the caller may not see are left out.

Versions: 1 throttle time; 2 a throttled client waits by itself (KIP-219); 3 flexible; 4 states, and a filter by them
(KIP-518); 5 types, and a filter by them (KIP-848).
"""

from __future__ import annotations

from broker.requests.authorization import CLUSTER_NAME, Operation, ResourceType
from broker.requests.group_checks import may
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


@api(ApiKey.LIST_GROUPS, versions=(0, 5))
def handle(call: Call[ListGroupsRequest]) -> ListGroupsResponse:
    request = call.request
    error, groups = call.broker.group_coordinator.admin.list_groups(request.states_filter, request.types_filter)
    if not may(call, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, explicit=False):
        groups = [
            group
            for group in groups
            if may(call, Operation.DESCRIBE, ResourceType.GROUP, group.group_id, explicit=False)
        ]
    return ListGroupsResponse(
        error_code=error,
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for group in groups
        ],
    )
