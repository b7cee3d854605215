"""JoinGroup: who may enter a group, as whom, and whether that starts a rebalance.

Checks are made in the order in which Kafka makes them; the first that fails decides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from broker.groups.classic.group import ClassicGroup
from broker.groups.classic.member import Member
from broker.groups.classic.rebalance import Rebalancer
from broker.groups.classic.requests import JoinCallback, JoinRequest, JoinResult, Protocols
from broker.groups.classic.states import Event, GroupState
from broker.groups.config import GroupConfig
from broker.groups.metadata_manager import GroupMetadataManager
from broker.groups.records.writer import GroupWriter
from network.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


class _Replacement(NamedTuple):
    """A static member under a new id, and what it was before: to be undone if that is not stored."""

    instance_id: str
    member: Member
    old_id: str
    old_leader: str
    protocols: Protocols
    rebalance_timeout_ms: int
    session_timeout_ms: int


class Joining:
    """The part of the coordinator that handles JoinGroup. Callbacks run under the group's lock."""

    def __init__(
        self,
        owned: GroupMetadataManager,
        writer: GroupWriter,
        config: GroupConfig,
        rebalancer: Rebalancer,
        new_id: Callable[[], str],
    ) -> None:
        self._owned = owned
        self._writer = writer
        self._config = config
        self._rebalancer = rebalancer
        self._new_id = new_id

    def join_group(self, request: JoinRequest, callback: JoinCallback) -> None:
        """The request of somebody whose group this broker coordinates, and whose timeout is allowed."""
        group = self._owned.find_as(request.group_id, ClassicGroup)
        if group is None:
            if request.member_id:
                callback(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
                return
            group = self._owned.ensure_as(request.group_id, ClassicGroup)
            if group is None:
                # A member of the consumer protocol was faster: the next try finds its group.
                is_there = self._owned.find(request.group_id) is not None
                error = ErrorCode.REBALANCE_IN_PROGRESS if is_there else ErrorCode.NOT_COORDINATOR
                callback(JoinResult(error, request.member_id))
                return
        with group.lock:
            self._join(group, request, callback)
            self._rebalancer.fire(group, Event.COUNT_CHANGED)

    def _join(self, group: ClassicGroup, request: JoinRequest, callback: JoinCallback) -> None:
        if not self._accepts(group, request.member_id):
            group_member = group.members.get(request.member_id)
            if group_member is not None:
                group.remove(request.member_id)
                self._rebalancer.end_session(group, group_member)
            callback(JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif group.is_in(GroupState.DEAD):
            callback(JoinResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id))
        elif not group.supports_protocols(request.protocol_type, [name for name, _ in request.protocols]):
            callback(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
        elif not request.member_id:
            self._join_new(group, request, callback)
        elif request.member_id in group.pending_members:
            if request.group_instance_id is not None:
                callback(JoinResult(ErrorCode.UNKNOWN_SERVER_ERROR, request.member_id))
                return
            self._add_and_rebalance(group, request, request.member_id, callback)
        else:
            error = group.member_error(request.member_id, request.group_instance_id)
            if error is not ErrorCode.NONE:
                callback(JoinResult(error, request.member_id))
            else:
                self._join_known(group, group.members[request.member_id], request, callback)

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether the group has room; ids that were handed out take none."""
        if group.is_in(GroupState.EMPTY, GroupState.DEAD):
            return True
        member = group.members.get(member_id)
        if group.is_in(GroupState.PREPARING_REBALANCE):
            return (member is not None and member.is_awaiting_join) or group.awaiting_join < self._config.max_size
        return member is not None or group.size < self._config.max_size

    def _join_new(self, group: ClassicGroup, request: JoinRequest, callback: JoinCallback) -> None:
        instance_id = request.group_instance_id
        new_id = f"{request.client_id if instance_id is None else instance_id}-{self._new_id()}"
        if instance_id is not None:
            old_id = group.static_members.get(instance_id)
            if old_id is None:
                self._add_and_rebalance(group, request, new_id, callback)
            else:
                self._replace_static(group, instance_id, old_id, new_id, request, callback)
        elif request.require_known_member_id:
            group.pending_members.add(new_id)
            self._rebalancer.start_pending_session(group, new_id, request.session_timeout_ms)
            callback(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, new_id))
        else:
            self._add_and_rebalance(group, request, new_id, callback)

    def _join_known(self, group: ClassicGroup, member: Member, request: JoinRequest, callback: JoinCallback) -> None:
        same = member.protocols == request.protocols
        if group.is_in(GroupState.PREPARING_REBALANCE):
            self._update_and_rebalance(group, member, request, callback)
        elif group.is_in(GroupState.COMPLETING_REBALANCE):
            if same:
                # The answer was lost: give it again.
                callback(self._rebalancer.join_result(group, member))
            else:
                self._update_and_rebalance(group, member, request, callback)
        elif group.is_in(GroupState.STABLE):
            if same and not group.is_leader(member.member_id):
                callback(self._rebalancer.join_result(group, member))
            else:
                self._update_and_rebalance(group, member, request, callback)
        else:
            callback(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))

    def _add_and_rebalance(
        self, group: ClassicGroup, request: JoinRequest, member_id: str, callback: JoinCallback
    ) -> None:
        member = Member(
            member_id,
            request.group_instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocol_type,
            request.protocols,
        )
        member.is_new = True
        if group.is_in(GroupState.PREPARING_REBALANCE) and group.generation_id == 0:
            group.new_member_added = True
        group.add(member, callback)
        # No heartbeats come before the first answer, so this bounds how long a lost client stays.
        self._rebalancer.start_new_member_session(group, member)
        self._rebalancer.rebalance(group, f"member {member_id} joins: {request.reason or 'not provided'}")

    def _update_and_rebalance(
        self, group: ClassicGroup, member: Member, request: JoinRequest, callback: JoinCallback
    ) -> None:
        self._update(group, member, request, callback)
        self._rebalancer.rebalance(group, f"member {member.member_id} joins again: {request.reason or 'not provided'}")

    @staticmethod
    def _update(group: ClassicGroup, member: Member, request: JoinRequest, callback: JoinCallback) -> None:
        group.update_member(
            member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms, callback
        )

    def _replace_static(
        self,
        group: ClassicGroup,
        instance_id: str,
        old_id: str,
        new_id: str,
        request: JoinRequest,
        callback: JoinCallback,
    ) -> None:
        """A static member is back under a new id; where its protocols elect the same, nobody else notices (KIP-345)."""
        before = group.members[old_id]
        old = (before.protocols, before.rebalance_timeout_ms, before.session_timeout_ms)
        replacement = _Replacement(instance_id, before, old_id, group.leader_id or "", *old)
        member = group.replace_static_member(instance_id, old_id, new_id)
        logger.info("static member %s of group %s: %s replaces %s", instance_id, group.group_id, new_id, old_id)
        self._update(group, member, request, callback)
        self._rebalancer.restart_session(group, member)
        if group.is_in(GroupState.COMPLETING_REBALANCE):
            self._rebalancer.rebalance(group, f"static member {instance_id} came back")
        elif group.is_in(GroupState.STABLE):
            if group.select_protocol() != group.protocol_name:
                self._rebalancer.rebalance(group, f"static member {instance_id} changes the protocol")
                return

            def stored(error: ErrorCode) -> None:
                with group.lock:
                    if error is not ErrorCode.NONE:
                        self._undo_replacement(group, replacement, error)
                    else:
                        self._answer_replacement(group, replacement, request.skips_assignment)

            self._writer.store_group(group, {each.member_id: each.assignment for each in group}, stored)

    def _answer_replacement(self, group: ClassicGroup, replaced: _Replacement, skips_assignment: bool) -> None:
        member = replaced.member
        result = self._rebalancer.join_result(group, member)
        if skips_assignment:
            result = result._replace(skip_assignment=group.is_leader(member.member_id))
        else:
            # Older clients would assign if they saw themselves as leader: show the leader of before (KIP-814).
            result = result._replace(leader_id=replaced.old_leader, members=())
        group.answer_join(member, result)

    def _undo_replacement(self, group: ClassicGroup, replaced: _Replacement, error: ErrorCode) -> None:
        member = replaced.member
        callback = member.join_callback
        if group.members.get(member.member_id) is not member or callback is None:
            return
        group.update_member(
            member, replaced.protocols, replaced.rebalance_timeout_ms, replaced.session_timeout_ms, None
        )
        group.replace_static_member(replaced.instance_id, member.member_id, replaced.old_id)
        self._rebalancer.restart_session(group, member)
        callback(
            JoinResult(error, "", group.generation_id, group.protocol_type, group.protocol_name, replaced.old_leader)
        )
