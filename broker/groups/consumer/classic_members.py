"""Members that speak the classic protocol in a group of the consumer protocol.

They join, sync and beat as ever, but nobody leads: the coordinator assigns, and a member that has to change what it
owns is told to join again. A generation is the member's own epoch.

| request | does | answers REBALANCE_IN_PROGRESS |
|---|---|---|
| JoinGroup | what a heartbeat of the consumer protocol does | never: there is nobody to wait for |
| SyncGroup | gives the assignment | when the group's epoch is ahead, unless the member is still to give partitions up |
| Heartbeat | keeps the session | when joining again would change something |

A member that was told so must join within its rebalance timeout, and sync as soon after, or it is removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from broker.groups.classic.requests import (
    HeartbeatRequest,
    JoinCallback,
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
)
from broker.groups.consumer import assigning, membership
from broker.groups.consumer.coordinator import ConsumerGroupCoordinator
from broker.groups.consumer.embedded import EmbeddedSubscription, decode_subscription, encode_assignment
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.model import ClassicProtocols, MemberState, Subscription
from broker.groups.consumer.update import Update
from network.protocol.errors import ApiError, ErrorCode, ProtocolError

logger = logging.getLogger(__name__)


class ClassicMembers:
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup of a consumer group; all take its lock."""

    def __init__(self, groups: ConsumerGroupCoordinator, new_id: Callable[[], str]) -> None:
        self._groups = groups
        self._new_id = new_id

    # --- JoinGroup ---

    def join_group(self, group: ConsumerGroup, request: JoinRequest, callback: JoinCallback) -> bool:
        """Enter the group or take the next step; the answer waits for the records.

        False, and nothing is done, if the group has no members: then it may become a classic one.
        """
        with group.lock:
            if group.is_dead or not group.members:
                return False
            try:
                self._join(group, request, callback)
            except ApiError as refused:
                callback(JoinResult(refused.code, request.member_id))
            return True

    def _join(self, group: ConsumerGroup, request: JoinRequest, callback: JoinCallback) -> None:
        groups = self._groups
        is_full = len(group.members) >= groups.config.max_size
        if is_full and request.member_id not in group.members:
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        self._require_supported(group, request)
        if request.require_known_member_id and not request.member_id and request.group_instance_id is None:
            # Nothing is remembered of the id: whoever comes with it is taken in.
            callback(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, f"{request.client_id}-{self._new_id()}"))
            return
        try:
            subscription = decode_subscription(request.protocols[0][1], groups.topics())
        except ProtocolError as error:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from None
        member_id = request.member_id or f"{request.group_instance_id or request.client_id}-{self._new_id()}"
        update = Update(group)
        replaces_consumer = self._is_consumer(group, request.group_instance_id)
        try:
            self._identify(group, update, request, member_id)
            groups.subscribe(update, member_id, _subscription(group.members.get(member_id), request, subscription))
            assigning.assign(update, groups.config.assignors)
            after = groups.reconcile(update, member_id, subscription.owned)
        except Exception:
            groups.undo(update)
            raise
        groups.restart_session(group, member_id)
        groups.timers.end_deadline(group, member_id)
        groups.start_deadline(group, member_id, "did not sync in time")
        protocol = request.protocols[0][0]
        result = JoinResult(ErrorCode.NONE, member_id, after.epoch, CONSUMER_PROTOCOL_TYPE, protocol)
        groups.write(
            update, lambda error: callback(result if error is ErrorCode.NONE else JoinResult(error, request.member_id))
        )
        if replaces_consumer:
            groups.downgrade_replaced(group)

    @staticmethod
    def _is_consumer(group: ConsumerGroup, instance_id: str | None) -> bool:
        """Whether an instance is there and speaks the consumer protocol."""
        known = None if instance_id is None else group.static_members.get(instance_id)
        return known is not None and group.members[known].classic is None

    def _require_supported(self, group: ConsumerGroup, request: JoinRequest) -> None:
        """All classic members must have a protocol in common with the newcomer."""
        names = {name for name, _ in request.protocols}
        if request.protocol_type == CONSUMER_PROTOCOL_TYPE and names:
            for member_id, member in group.members.items():
                if member.classic is not None and member_id != request.member_id:
                    names &= {name for name, _ in member.classic.protocols}
            if names:
                return
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _identify(self, group: ConsumerGroup, update: Update, request: JoinRequest, member_id: str) -> None:
        instance_id = request.group_instance_id
        if instance_id is None:
            return
        if request.member_id:
            membership.require_static(group, member_id, instance_id)
            return
        known = group.static_members.get(instance_id)
        if known is not None:
            epoch = max(group.current(known).epoch, 0)
            membership.replace_static(update, known, member_id, epoch)
            self._groups.timers.end(group, known)

    # --- SyncGroup ---

    def sync_group(self, group: ConsumerGroup, request: SyncRequest) -> SyncResult:
        """The assignment of a member that has joined."""
        with group.lock:
            try:
                return self._sync(group, request)
            except ApiError as refused:
                return SyncResult(refused.code)

    def _sync(self, group: ConsumerGroup, request: SyncRequest) -> SyncResult:
        member_id = request.member_id
        classic = self._require(group, member_id, request.group_instance_id, request.generation_id)
        name = classic.protocols[0][0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        current = group.current(member_id)
        if group.epoch > current.epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
            self._must_join(group, member_id)
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._groups.timers.end_deadline(group, member_id)
        self._groups.restart_session(group, member_id)
        assignment = encode_assignment(current.assigned, self._groups.topics(), classic.protocols[0][1])
        return SyncResult(ErrorCode.NONE, assignment, CONSUMER_PROTOCOL_TYPE, name)

    # --- Heartbeat ---

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> ErrorCode:
        """REBALANCE_IN_PROGRESS if the member should join again, NONE, or what is wrong with the request."""
        with group.lock:
            try:
                return self._beat(group, request)
            except ApiError as refused:
                return refused.code

    def _beat(self, group: ConsumerGroup, request: HeartbeatRequest) -> ErrorCode:
        member_id = request.member_id
        self._require(group, member_id, request.group_instance_id, request.generation_id)
        self._groups.restart_session(group, member_id)
        current = group.current(member_id)
        missing = group.target(member_id) - current.assigned
        if (
            group.epoch > current.epoch
            or current.state is MemberState.UNREVOKED_PARTITIONS
            or (current.state is MemberState.UNRELEASED_PARTITIONS and all(map(group.is_free, missing)))
        ):
            self._must_join(group, member_id)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _must_join(self, group: ConsumerGroup, member_id: str) -> None:
        if member_id not in group.deadlines:
            self._groups.start_deadline(group, member_id, "did not join again in time")

    # --- LeaveGroup ---

    def leave_group(self, group: ConsumerGroup, members: list[LeavingMember]) -> LeaveResult:
        """Take members out; one new epoch for all."""
        errors, leaving = [], []
        with group.lock:
            for member in members:
                member_id = member.member_id or group.static_members.get(member.group_instance_id or "", "")
                try:
                    self._require(group, member_id, member.group_instance_id)
                except ApiError as error:
                    errors.append(error.code)
                    continue
                errors.append(ErrorCode.NONE)
                if member_id not in leaving:
                    leaving.append(member_id)
            if leaving:
                self._groups.remove(group, leaving, "leaves", lambda _: None)
        return LeaveResult(ErrorCode.NONE, list(zip(members, errors, strict=True)))

    def _require(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int | None = None
    ) -> ClassicProtocols:
        """The member must be there, speak the classic protocol, and be at the generation if one is given."""
        if group.is_dead:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if instance_id is not None:
            membership.require_static(group, member_id, instance_id)
        membership.require_member(group, member_id)
        classic = group.members[member_id].classic
        if classic is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if generation_id is not None and generation_id != group.current(member_id).epoch:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        return classic


def _subscription(before: Subscription | None, request: JoinRequest, embedded: EmbeddedSubscription) -> Subscription:
    return Subscription(
        instance_id=request.group_instance_id,
        rack_id=embedded.rack_id or (before.rack_id if before is not None else None),
        client_id=request.client_id,
        client_host=request.client_host,
        topics=embedded.topics,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=ClassicProtocols(request.session_timeout_ms, request.protocols),
    )
