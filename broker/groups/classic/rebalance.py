"""The phases of a rebalance, as effects of the table in `states`, and the sessions of the members.

All methods are called under the group's lock, or take it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from broker.groups.classic.group import ClassicGroup
from broker.groups.classic.member import Member
from broker.groups.classic.operations import (
    DelayedHeartbeat,
    DelayedJoin,
    DelayedSync,
    InitialDelayedJoin,
    join_key,
    sync_key,
)
from broker.groups.classic.requests import JoinResult, SyncResult
from broker.groups.classic.states import Effect, Event, GroupState
from broker.groups.config import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupConfig
from broker.groups.meters import GroupMeters
from broker.groups.records.writer import GroupWriter
from network.protocol.errors import ErrorCode
from timer.purgatory import DelayedOperation, Purgatory

logger = logging.getLogger(__name__)

_NO_ASSIGNMENT: Mapping[str, bytes] = {}


class Occasion(NamedTuple):
    """What an event brings along, where its effect needs it.

    `reason` is for the log, `error` for whoever is told to join again or elsewhere. `waited_ms` of the initial delays
    were waited at last, `remaining_ms` are left.
    """

    reason: str = ""
    error: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS
    assignment: Mapping[str, bytes] = _NO_ASSIGNMENT
    waited_ms: int = 0
    remaining_ms: int = 0


_NOTHING_MORE = Occasion()


class Rebalancer:
    """Takes groups from one generation to the next, and watches over sessions."""

    def __init__(
        self,
        writer: GroupWriter,
        config: GroupConfig,
        rebalances: Purgatory[DelayedOperation],
        heartbeats: Purgatory[DelayedOperation],
        meters: GroupMeters,
    ) -> None:
        self._writer = writer
        self._config = config
        self._rebalances = rebalances
        self._heartbeats = heartbeats
        self._meters = meters
        self._effects = {
            Effect.AWAIT_FIRST_JOINS: self._await_first_joins,
            Effect.AWAIT_MORE_JOINS: self._await_more_joins,
            Effect.AWAIT_JOINS: self._await_joins,
            Effect.CALL_BACK: self._call_back,
            Effect.CHECK_JOINS: self._check_joins,
            Effect.BEGIN_GENERATION: self._begin_generation,
            Effect.BECOME_EMPTY: self._become_empty,
            Effect.HAND_OUT: self._hand_out,
            Effect.DISMISS: self._dismiss,
        }

    def fire(self, group: ClassicGroup, event: Event, occasion: Occasion = _NOTHING_MORE) -> None:
        """Let an event happen: the group goes to its next state, and what the table says is done."""
        effect = group.take(event)
        if effect is not Effect.NOTHING:
            self._effects[effect](group, occasion)

    def rebalance(self, group: ClassicGroup, reason: str) -> None:
        """Let all members join again, if the group's state allows it."""
        self.fire(group, Event.REBALANCE, Occasion(reason))

    # --- the join phase: effects ---

    def _await_first_joins(self, group: ClassicGroup, occasion: Occasion) -> None:
        self._end_sync_phase(group, occasion.reason)
        delay = self._config.initial_rebalance_delay_ms
        remaining = max(group.rebalance_timeout_ms - delay, 0)
        self._watch_joins(InitialDelayedJoin(self, group, delay, remaining), group)

    def _await_more_joins(self, group: ClassicGroup, occasion: Occasion) -> None:
        delay = min(self._config.initial_rebalance_delay_ms, occasion.remaining_ms)
        remaining = max(occasion.remaining_ms - occasion.waited_ms, 0)
        self._watch_joins(InitialDelayedJoin(self, group, delay, remaining), group)

    def _await_joins(self, group: ClassicGroup, occasion: Occasion) -> None:
        self._end_sync_phase(group, occasion.reason)
        self._watch_joins(DelayedJoin(self, group, group.rebalance_timeout_ms), group)

    def _call_back(self, group: ClassicGroup, occasion: Occasion) -> None:
        for member in group:
            member.assignment = b""
            self._answer_sync(group, member, SyncResult(occasion.error))
        self._await_joins(group, occasion)

    def _check_joins(self, group: ClassicGroup, _: Occasion) -> None:
        self._rebalances.check_and_complete(join_key(group.group_id))

    def _begin_generation(self, group: ClassicGroup, _: Occasion) -> None:
        group.next_generation()
        logger.info("group %s: generation %d with %d members", group.group_id, group.generation_id, group.size)
        for member in group:
            group.answer_join(member, self.join_result(group, member))
            self.restart_session(group, member)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        operation = DelayedSync(self, group, group.generation_id, group.rebalance_timeout_ms)
        self._rebalances.try_complete_else_watch(operation, (sync_key(group.group_id),))

    def _become_empty(self, group: ClassicGroup, _: Occasion) -> None:
        group.next_generation()
        logger.info("group %s is empty at generation %d", group.group_id, group.generation_id)
        self._writer.store_group(group, {}, lambda _: None)

    def _watch_joins(self, operation: DelayedOperation, group: ClassicGroup) -> None:
        self._rebalances.try_complete_else_watch(operation, (join_key(group.group_id),))

    def _end_sync_phase(self, group: ClassicGroup, reason: str) -> None:
        group.pending_sync.clear()
        self._rebalances.check_and_complete(sync_key(group.group_id))
        logger.info("group %s rebalances from generation %d: %s", group.group_id, group.generation_id, reason)

    # --- the join phase: its operations ---

    def wait_longer(self, group: ClassicGroup, waited_ms: int, remaining_ms: int) -> None:
        """One more initial delay, because new members keep coming."""
        if not group.is_dead:
            self.fire(group, Event.MORE_MEMBERS, Occasion(waited_ms=waited_ms, remaining_ms=remaining_ms))

    def complete_join(self, group: ClassicGroup) -> None:
        """End the join phase: drop who did not come, elect, and answer those who did."""
        with group.lock:
            if not group.is_in(GroupState.PREPARING_REBALANCE):
                return
            for member in group.not_yet_rejoined():
                if not member.is_static:
                    logger.info("member %s of group %s did not rejoin", member.member_id, group.group_id)
                    group.remove(member.member_id)
                    self.end_session(group, member)
            if not group.members:
                self.fire(group, Event.NOBODY_LEFT)
            elif group.elect_joined_leader():
                self.fire(group, Event.JOINED)
            else:
                # They have as long again, until their sessions end.
                self.fire(group, Event.NOBODY_BACK, Occasion("only static members are left, and none has come"))

    @staticmethod
    def join_result(group: ClassicGroup, member: Member) -> JoinResult:
        """The ordinary answer of the current generation; the leader gets the member list."""
        return JoinResult(
            ErrorCode.NONE,
            member.member_id,
            group.generation_id,
            group.protocol_type,
            group.protocol_name,
            group.leader_id or "",
            group.join_members() if group.is_leader(member.member_id) else (),
        )

    # --- the sync phase ---

    def received_sync(self, group: ClassicGroup, member_id: str) -> None:
        """The member's SyncGroup of this generation has come."""
        group.pending_sync.discard(member_id)
        self._rebalances.check_and_complete(sync_key(group.group_id))

    def is_sync_over(self, group: ClassicGroup, generation_id: int) -> bool:
        """Whether nobody's SyncGroup of the generation is missing any more."""
        if generation_id != group.generation_id:
            return True
        if group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return not group.pending_sync
        return True

    def expire_sync(self, group: ClassicGroup, generation_id: int) -> None:
        """Drop the members whose SyncGroup did not come in time, static ones too."""
        with group.lock:
            if self.is_sync_over(group, generation_id):
                return
            late = [group.members[member_id] for member_id in sorted(group.pending_sync)]
            for member in late:
                group.remove(member.member_id)
                self.end_session(group, member)
            names = ", ".join(member.member_id for member in late)
            self.rebalance(group, f"no SyncGroup from {names}")

    def _hand_out(self, group: ClassicGroup, occasion: Occasion) -> None:
        for member in group:
            member.assignment = occasion.assignment.get(member.member_id, b"")
            self._answer_sync(
                group,
                member,
                SyncResult(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol_name),
            )
        self._meters.completed_rebalances.mark()

    def _answer_sync(self, group: ClassicGroup, member: Member, result: SyncResult) -> None:
        if group.answer_sync(member, result):
            self.restart_session(group, member)

    # --- leaving ---

    def remove_member(self, group: ClassicGroup, member: Member, reason: str) -> None:
        """Take a member out, answer what it waits for, and let the others rebalance."""
        group.answer_join(member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID))
        group.answer_sync(member, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)
        self.end_session(group, member)
        self.fire(group, Event.MEMBER_GONE, Occasion(reason))

    def remove_pending(self, group: ClassicGroup, member_id: str) -> None:
        """Forget an id that was handed out."""
        group.pending_members.discard(member_id)
        self._heartbeats.check_and_complete((group.group_id, member_id))
        self.fire(group, Event.COUNT_CHANGED)

    def _dismiss(self, group: ClassicGroup, occasion: Occasion) -> None:
        for key in (join_key(group.group_id), sync_key(group.group_id)):
            self._rebalances.cancel_for_key(key)
        for member in group:
            group.answer_join(member, JoinResult(occasion.error, member.member_id))
            group.answer_sync(member, SyncResult(occasion.error))
            self.end_session(group, member)
        for member_id in list(group.pending_members):
            self.remove_pending(group, member_id)

    # --- sessions ---

    def restart_session(self, group: ClassicGroup, member: Member) -> None:
        """The member is alive now: its session runs from here."""
        self._watch(group, member, member.session_timeout_ms)

    def start_new_member_session(self, group: ClassicGroup, member: Member) -> None:
        """A member that waits for its first join answer may do so for 5 minutes."""
        self._watch(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)

    def start_pending_session(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        operation = DelayedHeartbeat(self, group, member_id, is_pending=True, timeout_ms=timeout_ms)
        self._heartbeats.try_complete_else_watch(operation, ((group.group_id, member_id),))

    def end_session(self, group: ClassicGroup, member: Member) -> None:
        """The member is gone from the group: its timer goes too."""
        member.heartbeat = None
        self._heartbeats.check_and_complete((group.group_id, member.member_id))

    def _watch(self, group: ClassicGroup, member: Member, timeout_ms: int) -> None:
        running, watched_id = member.heartbeat, member.watched_id
        if running is not None and watched_id == member.member_id and self._heartbeats.restart(running, timeout_ms):
            return
        operation = DelayedHeartbeat(self, group, member.member_id, is_pending=False, timeout_ms=timeout_ms)
        member.heartbeat, member.watched_id = operation, member.member_id
        key = (group.group_id, member.member_id)
        # What watched the id before, when it was pending, is over.
        self._heartbeats.check_and_complete(key)
        self._heartbeats.try_complete_else_watch(operation, (key,))
        if running is not None and watched_id != member.member_id:
            self._heartbeats.check_and_complete((group.group_id, watched_id))

    def is_session_over(self, group: ClassicGroup, operation: DelayedHeartbeat) -> bool:
        """Whether the operation has nothing left to watch."""
        if group.is_in(GroupState.DEAD):
            return True
        if operation.is_pending:
            return operation.member_id not in group.pending_members
        member = group.members.get(operation.member_id)
        return member is None or member.heartbeat is not operation

    def expire_session(self, group: ClassicGroup, operation: DelayedHeartbeat) -> None:
        """A session's time is up; a member that waits for an answer of ours counts as alive."""
        with group.lock:
            if group.is_in(GroupState.DEAD):
                return
            if operation.is_pending:
                if operation.member_id in group.pending_members:
                    logger.info("pending member %s of group %s has expired", operation.member_id, group.group_id)
                    self.remove_pending(group, operation.member_id)
                return
            member = group.members.get(operation.member_id)
            if member is None or member.heartbeat is not operation:
                return
            member.heartbeat = None
            if not member.counts_as_alive:
                logger.info("member %s of group %s has failed", member.member_id, group.group_id)
                self.remove_member(group, member, f"member {member.member_id} missed its heartbeats")
