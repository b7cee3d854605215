"""The phases of a rebalance and the sessions of the members.

All methods are called under the group's lock, or take it.
"""

from __future__ import annotations

import logging

from broker.groups.classic.group import Group
from broker.groups.classic.member import JoinResult, Member, SyncResult
from broker.groups.classic.operations import (
    DelayedHeartbeat,
    DelayedJoin,
    DelayedSync,
    InitialDelayedJoin,
    join_key,
    sync_key,
)
from broker.groups.classic.states import GroupState
from broker.groups.config import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupConfig
from broker.groups.store import GroupStore
from network.protocol.errors import ErrorCode
from timer.purgatory import DelayedOperation, Purgatory

logger = logging.getLogger(__name__)


class Rebalancer:
    """Takes groups from one generation to the next, and watches over sessions."""

    def __init__(
        self,
        store: GroupStore,
        config: GroupConfig,
        rebalances: Purgatory[DelayedOperation],
        heartbeats: Purgatory[DelayedHeartbeat],
    ) -> None:
        self._store = store
        self._config = config
        self._rebalances = rebalances
        self._heartbeats = heartbeats

    # --- the join phase ---

    def maybe_prepare(self, group: Group, reason: str) -> None:
        """Start a rebalance if the group's state allows one."""
        if group.can_rebalance:
            self.prepare(group, reason)

    def prepare(self, group: Group, reason: str) -> None:
        """Begin the join phase; who waits for an assignment is told to join again."""
        if group.is_in(GroupState.COMPLETING_REBALANCE):
            self.fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        self._end_sync_phase(group)
        delay = self._config.initial_rebalance_delay_ms
        operation: DelayedOperation
        if group.is_in(GroupState.EMPTY):
            remaining = max(group.rebalance_timeout_ms - delay, 0)
            operation = InitialDelayedJoin(self, group, delay, remaining)
        else:
            operation = DelayedJoin(self, group, group.rebalance_timeout_ms)
        group.transition_to(GroupState.PREPARING_REBALANCE)
        logger.info("group %s rebalances from generation %d: %s", group.group_id, group.generation_id, reason)
        self._rebalances.try_complete_else_watch(operation, (join_key(group.group_id),))

    def check_join(self, group: Group) -> None:
        """End the join phase if nobody is missing."""
        if group.is_in(GroupState.PREPARING_REBALANCE):
            self._rebalances.check_and_complete(join_key(group.group_id))

    def wait_longer(self, group: Group, waited_ms: int, remaining_ms: int) -> None:
        """One more initial delay, because new members keep coming."""
        delay = min(self._config.initial_rebalance_delay_ms, remaining_ms)
        operation = InitialDelayedJoin(self, group, delay, max(remaining_ms - waited_ms, 0))
        self._rebalances.try_complete_else_watch(operation, (join_key(group.group_id),))

    def complete_join(self, group: Group) -> None:
        """End the join phase: drop who did not come, elect, and answer those who did."""
        with group.lock:
            for member in group.not_yet_rejoined():
                if not member.is_static:
                    logger.info("member %s of group %s did not rejoin", member.member_id, group.group_id)
                    group.remove(member.member_id)
                    self.end_session(group, member)
            if not group.is_in(GroupState.PREPARING_REBALANCE):
                return
            if group.members and not group.elect_joined_leader():
                # Only static members that have not come: give them as long again, until their sessions end.
                operation = DelayedJoin(self, group, group.rebalance_timeout_ms)
                self._rebalances.try_complete_else_watch(operation, (join_key(group.group_id),))
                return
            group.next_generation()
            if group.is_in(GroupState.EMPTY):
                logger.info("group %s is empty at generation %d", group.group_id, group.generation_id)
                self._store.store_group(group, {}, lambda _: None)
            else:
                self._answer_joins(group)

    def _answer_joins(self, group: Group) -> None:
        logger.info("group %s: generation %d with %d members", group.group_id, group.generation_id, group.size)
        for member in group:
            group.answer_join(member, self.join_result(group, member))
            self.restart_session(group, member)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        timeout_ms = group.rebalance_timeout_ms
        operation = DelayedSync(self, group, group.generation_id, timeout_ms)
        self._rebalances.try_complete_else_watch(operation, (sync_key(group.group_id),))

    @staticmethod
    def join_result(group: Group, member: Member) -> JoinResult:
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

    def abandon(self, group: Group) -> None:
        """End the phases of a group that goes on as one of the other protocol."""
        for key in (join_key(group.group_id), sync_key(group.group_id)):
            self._rebalances.cancel_for_key(key)
        for member in group:
            self.end_session(group, member)
        for member_id in list(group.pending_members):
            self.remove_pending(group, member_id)

    # --- the sync phase ---

    def received_sync(self, group: Group, member_id: str) -> None:
        """The member's SyncGroup of this generation has come."""
        group.pending_sync.discard(member_id)
        self._rebalances.check_and_complete(sync_key(group.group_id))

    def is_sync_over(self, group: Group, generation_id: int) -> bool:
        if generation_id != group.generation_id:
            return True
        if group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return not group.pending_sync
        return True

    def expire_sync(self, group: Group, generation_id: int) -> None:
        """Drop the members whose SyncGroup did not come in time, static ones too."""
        with group.lock:
            if self.is_sync_over(group, generation_id):
                return
            late = [group.members[member_id] for member_id in sorted(group.pending_sync)]
            for member in late:
                group.remove(member.member_id)
                self.end_session(group, member)
            names = ", ".join(member.member_id for member in late)
            self.prepare(group, f"no SyncGroup from {names}")

    def assign(self, group: Group, assignment: dict[str, bytes]) -> None:
        """The leader's assignment is stored: hand it out."""
        for member in group:
            member.assignment = assignment.get(member.member_id, b"")
        self._answer_syncs(group, ErrorCode.NONE)
        group.transition_to(GroupState.STABLE)
        self._store.meters.completed_rebalances.mark()

    def fail_syncs(self, group: Group, error: ErrorCode) -> None:
        """Forget assignments and answer whoever waits for one with an error."""
        for member in group:
            member.assignment = b""
        self._answer_syncs(group, error)

    def _answer_syncs(self, group: Group, error: ErrorCode) -> None:
        for member in group:
            if error is ErrorCode.NONE:
                result = SyncResult(error, member.assignment, group.protocol_type, group.protocol_name)
            else:
                result = SyncResult(error)
            if group.answer_sync(member, result):
                self.restart_session(group, member)

    def _end_sync_phase(self, group: Group) -> None:
        group.pending_sync.clear()
        self._rebalances.check_and_complete(sync_key(group.group_id))

    # --- leaving ---

    def remove_member(self, group: Group, member: Member, reason: str) -> None:
        """Take a member out, answer what it waits for, and let the others rebalance."""
        group.answer_join(member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID))
        group.answer_sync(member, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)
        self.end_session(group, member)
        if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.maybe_prepare(group, reason)
        else:
            self.check_join(group)

    def remove_pending(self, group: Group, member_id: str) -> None:
        """Forget an id that was handed out."""
        group.pending_members.discard(member_id)
        self._heartbeats.check_and_complete((group.group_id, member_id))
        self.check_join(group)

    # --- sessions ---

    def restart_session(self, group: Group, member: Member) -> None:
        """The member is alive now: its session runs from here."""
        self._watch(group, member, member.session_timeout_ms)

    def start_new_member_session(self, group: Group, member: Member) -> None:
        """A member that waits for its first join answer may do so for 5 minutes."""
        self._watch(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)

    def start_pending_session(self, group: Group, member_id: str, timeout_ms: int) -> None:
        operation = DelayedHeartbeat(self, group, member_id, is_pending=True, timeout_ms=timeout_ms)
        self._heartbeats.try_complete_else_watch(operation, ((group.group_id, member_id),))

    def end_session(self, group: Group, member: Member) -> None:
        """The member is gone from the group: its timer goes too."""
        member.heartbeat = None
        self._heartbeats.check_and_complete((group.group_id, member.member_id))

    def _watch(self, group: Group, member: Member, timeout_ms: int) -> None:
        running = member.heartbeat
        if (
            running is not None
            and running.member_id == member.member_id
            and self._heartbeats.restart(running, timeout_ms)
        ):
            return
        operation = DelayedHeartbeat(self, group, member.member_id, is_pending=False, timeout_ms=timeout_ms)
        member.heartbeat = operation
        key = (group.group_id, member.member_id)
        # What watched the id before, when it was pending, is over.
        self._heartbeats.check_and_complete(key)
        self._heartbeats.try_complete_else_watch(operation, (key,))
        if running is not None and running.member_id != member.member_id:
            self._heartbeats.check_and_complete((group.group_id, running.member_id))

    def is_session_over(self, group: Group, operation: DelayedHeartbeat) -> bool:
        """Whether the operation has nothing left to watch."""
        if group.is_in(GroupState.DEAD):
            return True
        if operation.is_pending:
            return operation.member_id not in group.pending_members
        member = group.members.get(operation.member_id)
        return member is None or member.heartbeat is not operation

    def expire_session(self, group: Group, operation: DelayedHeartbeat) -> None:
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
