"""The coordinator of groups of the classic protocol: SyncGroup, Heartbeat and LeaveGroup.

JoinGroup is in `joining`; what follows when a member's session is over in `rebalance`.

Checks are made in the order in which Kafka makes them; the first that fails decides. Answers that may wait are
given through callbacks, which run under the group's lock and must not block.
"""

from __future__ import annotations

import logging

from broker.groups.classic.group import ClassicGroup
from broker.groups.classic.joining import Joining
from broker.groups.classic.rebalance import Occasion, Rebalancer
from broker.groups.classic.requests import (
    HeartbeatRequest,
    JoinCallback,
    JoinRequest,
    LeaveResult,
    LeavingMember,
    SyncCallback,
    SyncRequest,
    SyncResult,
)
from broker.groups.classic.states import Event, GroupState
from broker.groups.config import GroupConfig
from broker.groups.metadata_manager import GroupMetadataManager
from broker.groups.records.writer import GroupWriter
from network.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


class ClassicGroupCoordinator:
    """Requests are those of groups that this broker coordinates. Thread-safe: work on a group is under its lock."""

    def __init__(
        self,
        owned: GroupMetadataManager,
        writer: GroupWriter,
        config: GroupConfig,
        rebalancer: Rebalancer,
        joining: Joining,
    ) -> None:
        self._owned = owned
        self._writer = writer
        self._config = config
        self._rebalancer = rebalancer
        self._joining = joining

    # --- life ---

    def on_loaded(self, group: ClassicGroup) -> None:
        """All members get a full session; a group that is larger than allowed by now rebalances."""
        with group.lock:
            if group.is_in(GroupState.EMPTY, GroupState.DEAD):
                return
            for member in group:
                self._rebalancer.restart_session(group, member)
            if group.size > self._config.max_size:
                self._rebalancer.rebalance(group, f"{group.size} members are more than {self._config.max_size}")

    def on_unloaded(self, group: ClassicGroup) -> None:
        """Whoever waits is told to look for the new coordinator."""
        with group.lock:
            self._rebalancer.fire(group, Event.DISMISSED, Occasion(error=ErrorCode.NOT_COORDINATOR))

    def on_commit(self, group: ClassicGroup, member_id: str) -> None:
        """A commit of a member is as good as a heartbeat; called under the group's lock."""
        if group.is_in(GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            member = group.members.get(member_id)
            if member is not None:
                self._rebalancer.restart_session(group, member)

    # --- requests ---

    def join_group(self, request: JoinRequest, callback: JoinCallback) -> None:
        """Enter the group; the answer comes when the join phase ends, or at once where nothing changes."""
        self._joining.join_group(request, callback)

    def sync_group(self, request: SyncRequest, callback: SyncCallback) -> None:
        """Ask for (and as leader bring) the assignment."""
        group = self._owned.find_as(request.group_id, ClassicGroup)
        if group is None:
            callback(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
            return
        with group.lock:
            error = _sync_error(group, request)
            if error is not ErrorCode.NONE:
                callback(SyncResult(error))
                return
            member = group.members[request.member_id]
            if group.is_in(GroupState.STABLE):
                self._rebalancer.received_sync(group, request.member_id)
                callback(SyncResult(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol_name))
                self._rebalancer.restart_session(group, member)
                return
            member.sync_callback = callback
            self._rebalancer.received_sync(group, request.member_id)
            if group.is_leader(request.member_id):
                self._store_assignment(group, request)

    def _store_assignment(self, group: ClassicGroup, request: SyncRequest) -> None:
        generation_id = group.generation_id
        complete = {member_id: request.assignment.get(member_id, b"") for member_id in group.members}

        def stored(error: ErrorCode) -> None:
            with group.lock:
                # Another rebalance may have begun while the record was on its way.
                if not group.is_in(GroupState.COMPLETING_REBALANCE) or group.generation_id != generation_id:
                    return
                if error is ErrorCode.NONE:
                    self._rebalancer.fire(group, Event.ASSIGNED, Occasion(assignment=complete))
                else:
                    reason = f"the assignment was not stored: {error.name}"
                    self._rebalancer.fire(group, Event.ASSIGNMENT_LOST, Occasion(reason, error))

        self._writer.store_group(group, complete, stored)

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """The member is alive; tells whether it must join again."""
        group = self._owned.find_as(request.group_id, ClassicGroup)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        with group.lock:
            error = group.request_error(request.member_id, request.group_instance_id, request.generation_id)
            if error is not ErrorCode.NONE:
                return error
            if group.is_in(GroupState.EMPTY):
                return ErrorCode.UNKNOWN_MEMBER_ID
            self._rebalancer.restart_session(group, group.members[request.member_id])
            is_called_back = group.is_in(GroupState.PREPARING_REBALANCE)
            return ErrorCode.REBALANCE_IN_PROGRESS if is_called_back else ErrorCode.NONE

    def leave_group(self, group_id: str, members: list[LeavingMember]) -> LeaveResult:
        """Take members out; a batch starts one rebalance."""
        group = self._owned.find_as(group_id, ClassicGroup)
        if group is None:
            return LeaveResult(ErrorCode.NONE, [(member, ErrorCode.UNKNOWN_MEMBER_ID) for member in members])
        with group.lock:
            if group.is_dead:
                return LeaveResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return LeaveResult(ErrorCode.NONE, [(member, self._leave(group, member)) for member in members])

    def _leave(self, group: ClassicGroup, leaving: LeavingMember) -> ErrorCode:
        member_id = leaving.member_id
        if not member_id:
            known = group.static_members.get(leaving.group_instance_id or "")
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = known
        elif member_id in group.pending_members:
            self._rebalancer.remove_pending(group, member_id)
            return ErrorCode.NONE
        else:
            error = group.member_error(member_id, leaving.group_instance_id)
            if error is not ErrorCode.NONE:
                return error
        reason = f"member {member_id} leaves: {leaving.reason or 'not provided'}"
        logger.info("group %s: %s", group.group_id, reason)
        self._rebalancer.remove_member(group, group.members[member_id], reason)
        return ErrorCode.NONE


def _sync_error(group: ClassicGroup, request: SyncRequest) -> ErrorCode:
    error = group.request_error(request.member_id, request.group_instance_id, request.generation_id)
    if error is not ErrorCode.NONE:
        return error
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.is_in(GroupState.EMPTY):
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.is_in(GroupState.PREPARING_REBALANCE):
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
