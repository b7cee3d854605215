"""DeleteGroups (key 42, versions 0 to 2): delete empty groups."""

from __future__ import annotations

from network.protocol.fields import array, int16, int32, string
from network.protocol.message import Request, Response, Struct


class DeleteGroupsRequest(Request, key=42, versions=(0, 2), flexible=2):
    groups_names: list[str] = array(string)


class DeletableGroupResult(Struct):
    group_id: str = string()
    error_code: int = int16()


class DeleteGroupsResponse(Response, key=42, versions=(0, 2), flexible=2):
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
