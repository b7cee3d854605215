"""DeleteGroups (key 42, versions 0-2): forget groups without members, and their offsets.

Versions: 1 a throttled client waits by itself (KIP-219); 2 flexible.
"""

from __future__ import annotations

from broker.requests.authorization import Operation, ResourceType
from broker.requests.group_checks import may
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def _error_form(call: Call[DeleteGroupsRequest], code: ErrorCode, message: str | None) -> DeleteGroupsResponse:
    return _response(dict.fromkeys(call.request.groups_names, code))


@api(ApiKey.DELETE_GROUPS, versions=(0, 2), error_form=_error_form)
def handle(call: Call[DeleteGroupsRequest]) -> DeleteGroupsResponse:
    names = call.request.groups_names
    allowed = [name for name in names if may(call, Operation.DELETE, ResourceType.GROUP, name)]
    results = dict.fromkeys(names, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if allowed:
        results.update(call.broker.group_coordinator.admin.delete_groups(allowed))
    return _response(results)


def _response(results: dict[str, ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=name, error_code=error) for name, error in results.items()]
    )
