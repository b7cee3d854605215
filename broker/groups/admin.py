"""Listing, describing and deleting groups."""

from __future__ import annotations

from collections.abc import Iterable

from broker.groups.base import GroupOverview
from broker.groups.classic.describe import NO_GROUP, GroupDescription, describe
from broker.groups.classic.group import ClassicGroup
from broker.groups.metadata_manager import GroupMetadataManager
from broker.groups.offsets.removal import OffsetRemoval
from network.protocol.errors import ErrorCode


class GroupAdmin:
    """The administrators' side of the coordinator. Thread-safe."""

    def __init__(self, owned: GroupMetadataManager, removal: OffsetRemoval) -> None:
        self._owned = owned
        self._removal = removal

    def list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> tuple[ErrorCode, list[GroupOverview]]:
        """Groups whose state and type are among those named (all if none is), ignoring case.

        While a partition is loading the error is COORDINATOR_LOAD_IN_PROGRESS, beside the groups that are there.
        """
        if not self._owned.is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._owned.is_loading else ErrorCode.NONE
        wanted = {state.lower() for state in states}
        wanted_types = {type_.lower() for type_ in types}
        found = []
        for group in self._owned.all_groups():
            with group.lock:
                # It may have changed its protocol since; the successor has the same lock.
                current = self._owned.find(group.group_id) if group.is_replaced else group
                if current is None:
                    continue
                overview = current.overview()
            if wanted_types and overview.group_type not in wanted_types:
                continue
            if not wanted or overview.state.lower() in wanted:
                found.append(overview)
        return error, found

    def describe_group(self, group_id: str) -> GroupDescription:
        """A group that does not exist, or is none of the classic protocol, is described as Dead."""
        error = self._owned.status_error(group_id, allow_empty_id=True)
        if error is not ErrorCode.NONE:
            return GroupDescription(error)
        group = self._owned.find_as(group_id, ClassicGroup)
        if group is None:
            return NO_GROUP
        with group.lock:
            return describe(group)

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, ErrorCode]:
        """Delete groups that have no members, with their offsets."""
        return {group_id: self._delete(group_id) for group_id in dict.fromkeys(group_ids)}

    def _delete(self, group_id: str) -> ErrorCode:
        error = self._owned.status_error(group_id, allow_empty_id=True)
        if error is not ErrorCode.NONE:
            return error
        group = self._owned.find(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        with group.lock:
            if group.is_dead:
                return ErrorCode.GROUP_ID_NOT_FOUND
            if not group.is_empty:
                return ErrorCode.NON_EMPTY_GROUP
            self._removal.delete_group(group)
        return ErrorCode.NONE
