"""What DescribeGroups shows of a group."""

from __future__ import annotations

from typing import NamedTuple

from broker.groups.classic.group import ClassicGroup
from broker.groups.classic.states import GroupState
from network.protocol.errors import ErrorCode


class MemberDescription(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """A group as DescribeGroups shows it; the defaults are those of an error."""

    error: ErrorCode
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[MemberDescription, ...] = ()


NO_GROUP = GroupDescription(ErrorCode.NONE, GroupState.DEAD.value)
"""How a group that does not exist is described."""


def describe(group: ClassicGroup) -> GroupDescription:
    """Metadata and assignments are shown of a stable group only. Called under the group's lock."""
    stable = group.is_in(GroupState.STABLE)
    protocol = group.protocol_name if stable else None
    members = tuple(
        MemberDescription(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.metadata(protocol) if protocol is not None else b"",
            member.assignment if stable else b"",
        )
        for member in group
    )
    return GroupDescription(ErrorCode.NONE, group.state_name, group.protocol_type or "", protocol or "", members)
