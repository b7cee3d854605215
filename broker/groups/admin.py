"""Listing, describing and deleting groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from broker.groups.classic.group import Group
from broker.groups.classic.states import GroupState
from broker.groups.consumer.group import ConsumerGroup
from network.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.groups.coordinator import GroupCoordinator


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


class GroupOverview(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str = "classic"


class GroupAdmin:
    """The administrators' side of the coordinator. Thread-safe."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        self._store = coordinator.store

    def list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> tuple[ErrorCode, list[GroupOverview]]:
        """Groups whose state and type are among those named (all if none is), ignoring case.

        While a partition is loading the error is COORDINATOR_LOAD_IN_PROGRESS, beside the groups that are there.
        """
        if not self._coordinator.is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._store.is_loading else ErrorCode.NONE
        wanted = {state.lower() for state in states}
        wanted_types = {type_.lower() for type_ in types}
        found = []
        for group in self._store.all_groups():
            with group.lock:
                if isinstance(group, ConsumerGroup):
                    overview = GroupOverview(group.group_id, "consumer", group.state.value, "consumer")
                else:
                    assert isinstance(group, Group)
                    overview = GroupOverview(group.group_id, group.protocol_type or "", group.state.value)
            if wanted_types and overview.group_type not in wanted_types:
                continue
            if not wanted or overview.state.lower() in wanted:
                found.append(overview)
        return error, found

    def describe_group(self, group_id: str) -> GroupDescription:
        """A group that does not exist, or is none of the classic protocol, is described as Dead.

        Metadata and assignments are shown of a stable group only.
        """
        error = self._coordinator.status_error(group_id, allow_empty_id=True)
        if error is not ErrorCode.NONE:
            return GroupDescription(error)
        group = self._store.get(group_id)
        if group is None:
            return GroupDescription(ErrorCode.NONE, GroupState.DEAD.value)
        with group.lock:
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
            return GroupDescription(
                ErrorCode.NONE, group.state.value, group.protocol_type or "", protocol or "", members
            )

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, ErrorCode]:
        """Delete groups that have no members, with their offsets."""
        results: dict[str, ErrorCode] = {}
        for group_id in dict.fromkeys(group_ids):
            results[group_id] = self._delete(group_id)
        return results

    def _delete(self, group_id: str) -> ErrorCode:
        error = self._coordinator.status_error(group_id, allow_empty_id=True)
        if error is not ErrorCode.NONE:
            return error
        group = self._store.get_any(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        with group.lock:
            if group.is_dead:
                return ErrorCode.GROUP_ID_NOT_FOUND
            if not group.is_empty:
                return ErrorCode.NON_EMPTY_GROUP
            group.die()
            self._store.remove_offsets([group], lambda gone: list(gone.offsets.committed))
        return ErrorCode.NONE
