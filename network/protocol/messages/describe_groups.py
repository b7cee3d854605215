"""DescribeGroups (key 15, versions 0 to 5): state and members of classic groups."""

from __future__ import annotations

from network.protocol.fields import array, blob, boolean, int16, int32, string
from network.protocol.message import Request, Response, Struct


class DescribeGroupsRequest(Request, key=15, versions=(0, 5), flexible=5):
    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean("3+")


class DescribedGroupMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = blob()
    member_assignment: bytes = blob()


class DescribedGroup(Struct):
    error_code: int = int16()
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-2147483648)


class DescribeGroupsResponse(Response, key=15, versions=(0, 5), flexible=5):
    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup)
