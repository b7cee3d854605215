"""The group coordinator: what JoinGroup, SyncGroup, Heartbeat and LeaveGroup do, and its life.

Checks are made in the order in which Kafka makes them; the first that fails decides. Answers that may wait are
given through callbacks, which run under the group's lock and must not block.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from broker.groups.admin import GroupAdmin
from broker.groups.config import GroupConfig
from broker.groups.group import Group
from broker.groups.member import JoinCallback, JoinResult, Member, Protocols, SyncCallback, SyncResult
from broker.groups.offset_service import OffsetService
from broker.groups.operations import DelayedHeartbeat
from broker.groups.rebalance import Rebalancer
from broker.groups.states import GroupState
from broker.groups.store import GroupStore
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from timer.clock import Clock
from timer.metrics import Metrics
from timer.purgatory import DelayedOperation, Purgatory
from timer.scheduler import Scheduler

logger = logging.getLogger(__name__)

_METRICS = ("kafka.coordinator.group", "GroupMetadataManager")


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """JoinGroup without the differences of its versions. Timeouts in ms.

    `require_known_member_id` (version 4): a dynamic member is first given an id. `skips_assignment` (version 9):
    the client understands a leader that must not assign.
    """

    group_id: str
    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    group_instance_id: str | None = None
    require_known_member_id: bool = True
    skips_assignment: bool = True
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LeavingMember:
    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(slots=True)
class LeaveResult:
    """The error of the whole and of each member, in the order of the request."""

    error: ErrorCode
    members: list[tuple[LeavingMember, ErrorCode]] = field(default_factory=list)


class GroupCoordinator:
    """The coordinator of the groups whose partitions this broker leads. Thread-safe.

    `scheduler` has one thread, so that loads, unloads and the ends of transactions keep their order.
    """

    def __init__(
        self,
        store: GroupStore,
        config: GroupConfig,
        rebalances: Purgatory[DelayedOperation],
        heartbeats: Purgatory[DelayedHeartbeat],
        scheduler: Scheduler,
        clock: Clock,
        metrics: Metrics,
        run_deferred: Callable[[], None] = lambda: None,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.store = store
        self.config = config
        self.rebalancer = Rebalancer(store, config, rebalances, heartbeats, run_deferred)
        self._rebalances = rebalances
        self._heartbeats = heartbeats
        self._scheduler = scheduler
        self._clock = clock
        self._metrics = metrics
        self._new_id = new_id
        self._active = False
        self.offsets = OffsetService(self)
        self.admin = GroupAdmin(self)

    # --- life ---

    def startup(self) -> None:
        """Begin to answer, and to expire offsets."""
        self._scheduler.startup()
        interval = self.config.retention_check_interval_ms
        self._scheduler.schedule("delete-expired-group-metadata", self._expire_offsets, interval, interval)
        store = self.store
        gauge = self._metrics.gauge
        gauge(*_METRICS, "NumOffsets", lambda: sum(len(group.offsets) for group in store.all_groups()))
        gauge(*_METRICS, "NumGroups", lambda: len(store.all_groups()))
        for state in GroupState:
            gauge(*_METRICS, f"NumGroups{state.value}", partial(self._count, state))
        self._active = True

    def shutdown(self) -> None:
        """Stop answering; what is stored is the next coordinator's."""
        self._active = False
        self._scheduler.shutdown()
        self._heartbeats.shutdown()
        self._rebalances.shutdown()
        for name in ("NumOffsets", "NumGroups", *(f"NumGroups{state.value}" for state in GroupState)):
            self._metrics.remove(*_METRICS, name)

    @property
    def is_active(self) -> bool:
        return self._active

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` whose leader coordinates the group."""
        return self.store.partition_of(group_id)

    def on_election(self, partition: int, leader_epoch: int) -> None:
        """This broker leads a partition of `__consumer_offsets`: load it in the background."""
        self._scheduler.schedule_once(
            f"__consumer_offsets-{partition}", lambda: self.store.load(partition, leader_epoch, self._on_loaded)
        )

    def on_resignation(self, partition: int, leader_epoch: int | None) -> None:
        """This broker leads it no longer (None: the replica is deleted): forget its groups."""
        self._scheduler.schedule_once(
            f"__consumer_offsets-{partition}", lambda: self.store.unload(partition, leader_epoch, self._on_unloaded)
        )

    def on_transaction_completed(self, producer_id: int, partitions: Iterable[int], commit: bool) -> None:
        """Markers of a transaction were written to these partitions of `__consumer_offsets`."""
        of = set(partitions)
        self._scheduler.schedule_once(
            f"handleTxnCompletion-{producer_id}", lambda: self.store.complete_transaction(producer_id, of, commit)
        )

    def on_partitions_deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """Topics were deleted: their offsets go from every group, in the background."""
        gone = list(partitions)

        def remove() -> None:
            removed = self.store.remove_offsets(self.store.all_groups(), lambda _: gone)
            logger.info("removed %d offsets of %d deleted partitions", removed, len(gone))

        self._scheduler.schedule_once("remove-offsets-of-deleted-partitions", remove)

    def _expire_offsets(self) -> None:
        self.store.expire_offsets()

    def _on_loaded(self, group: Group) -> None:
        with group.lock:
            if group.is_in(GroupState.EMPTY, GroupState.DEAD):
                return
            for member in group:
                self.rebalancer.restart_session(group, member)
            if group.size > self.config.max_size:
                self.rebalancer.prepare(group, f"{group.size} members are more than {self.config.max_size}")

    def _on_unloaded(self, group: Group) -> None:
        with group.lock:
            group.transition_to(GroupState.DEAD)
            for member in group:
                group.answer_join(member, JoinResult(ErrorCode.NOT_COORDINATOR, member.member_id))
                group.answer_sync(member, SyncResult(ErrorCode.NOT_COORDINATOR))
                self.rebalancer.end_session(group, member)
            for member_id in list(group.pending_members):
                self.rebalancer.remove_pending(group, member_id)

    def _count(self, state: GroupState) -> int:
        return sum(group.state is state for group in self.store.all_groups())

    # --- checks ---

    def status_error(self, group_id: str | None, *, allow_empty_id: bool = False) -> ErrorCode:
        """What is checked before anything of a group is looked at."""
        if group_id is None or (not group_id and not allow_empty_id):
            return ErrorCode.INVALID_GROUP_ID
        if not self._active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self.store.ownership_error(group_id)

    @staticmethod
    def member_error(group: Group, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Whether the sender is the member that it says it is."""
        if group_instance_id is not None:
            known = group.static_members.get(group_instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID

    # --- JoinGroup ---

    def join_group(self, request: JoinRequest, callback: JoinCallback) -> None:
        """Enter the group; the answer comes when the join phase ends, or at once where nothing changes."""
        error = self.status_error(request.group_id)
        if error is not ErrorCode.NONE:
            callback(JoinResult(error, request.member_id))
            return
        if not self.config.min_session_timeout_ms <= request.session_timeout_ms <= self.config.max_session_timeout_ms:
            callback(JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
            return
        group = self.store.get(request.group_id)
        if group is None:
            if request.member_id:
                callback(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
                return
            group = self.store.get_or_add(request.group_id)
            if group is None:
                callback(JoinResult(ErrorCode.NOT_COORDINATOR, request.member_id))
                return
        with group.lock:
            self._join(group, request, callback)
            self.rebalancer.check_join(group)

    def _join(self, group: Group, request: JoinRequest, callback: JoinCallback) -> None:
        if not self._accepts(group, request.member_id):
            group_member = group.members.get(request.member_id)
            if group_member is not None:
                group.remove(request.member_id)
                self.rebalancer.end_session(group, group_member)
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
            error = self.member_error(group, request.member_id, request.group_instance_id)
            if error is not ErrorCode.NONE:
                callback(JoinResult(error, request.member_id))
            else:
                self._join_known(group, group.members[request.member_id], request, callback)

    def _accepts(self, group: Group, member_id: str) -> bool:
        """Whether the group has room; ids that were handed out take none."""
        if group.is_in(GroupState.EMPTY, GroupState.DEAD):
            return True
        member = group.members.get(member_id)
        if group.is_in(GroupState.PREPARING_REBALANCE):
            return (member is not None and member.is_awaiting_join) or group.awaiting_join < self.config.max_size
        return member is not None or group.size < self.config.max_size

    def _join_new(self, group: Group, request: JoinRequest, callback: JoinCallback) -> None:
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
            self.rebalancer.start_pending_session(group, new_id, request.session_timeout_ms)
            callback(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, new_id))
        else:
            self._add_and_rebalance(group, request, new_id, callback)

    def _join_known(self, group: Group, member: Member, request: JoinRequest, callback: JoinCallback) -> None:
        same = member.protocols == request.protocols
        if group.is_in(GroupState.PREPARING_REBALANCE):
            self._update_and_rebalance(group, member, request, callback)
        elif group.is_in(GroupState.COMPLETING_REBALANCE):
            if same:
                # The answer was lost: give it again.
                callback(self.rebalancer.join_result(group, member))
            else:
                self._update_and_rebalance(group, member, request, callback)
        elif group.is_in(GroupState.STABLE):
            if same and not group.is_leader(member.member_id):
                callback(self.rebalancer.join_result(group, member))
            else:
                self._update_and_rebalance(group, member, request, callback)
        else:
            callback(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))

    def _add_and_rebalance(self, group: Group, request: JoinRequest, member_id: str, callback: JoinCallback) -> None:
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
        self.rebalancer.start_new_member_session(group, member)
        self.rebalancer.maybe_prepare(group, f"member {member_id} joins: {request.reason or 'not provided'}")

    def _update_and_rebalance(self, group: Group, member: Member, request: JoinRequest, callback: JoinCallback) -> None:
        self._update(group, member, request, callback)
        self.rebalancer.maybe_prepare(
            group, f"member {member.member_id} joins again: {request.reason or 'not provided'}"
        )

    @staticmethod
    def _update(group: Group, member: Member, request: JoinRequest, callback: JoinCallback) -> None:
        group.update_member(
            member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms, callback
        )

    def _replace_static(
        self,
        group: Group,
        instance_id: str,
        old_id: str,
        new_id: str,
        request: JoinRequest,
        callback: JoinCallback,
    ) -> None:
        """A static member is back under a new id; where its protocols elect the same, nobody else notices (KIP-345)."""
        old_leader = group.leader_id or ""
        member = group.replace_static_member(instance_id, old_id, new_id)
        logger.info("static member %s of group %s: %s replaces %s", instance_id, group.group_id, new_id, old_id)
        old = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._update(group, member, request, callback)
        self.rebalancer.restart_session(group, member)
        if group.is_in(GroupState.COMPLETING_REBALANCE):
            self.rebalancer.prepare(group, f"static member {instance_id} came back")
        elif group.is_in(GroupState.STABLE):
            if group.select_protocol() != group.protocol_name:
                self.rebalancer.maybe_prepare(group, f"static member {instance_id} changes the protocol")
                return

            def stored(error: ErrorCode) -> None:
                with group.lock:
                    if error is not ErrorCode.NONE:
                        self._undo_replacement(group, member, instance_id, old_id, old, old_leader, error)
                    else:
                        self._answer_replacement(group, member, old_leader, request.skips_assignment)

            self.store.store_group(group, {each.member_id: each.assignment for each in group}, stored)

    def _answer_replacement(self, group: Group, member: Member, old_leader: str, skips_assignment: bool) -> None:
        result = self.rebalancer.join_result(group, member)
        if skips_assignment:
            result = result._replace(skip_assignment=group.is_leader(member.member_id))
        else:
            # Older clients would assign if they saw themselves as leader: show the leader of before (KIP-814).
            result = result._replace(leader_id=old_leader, members=())
        group.answer_join(member, result)

    def _undo_replacement(
        self,
        group: Group,
        member: Member,
        instance_id: str,
        old_id: str,
        old: tuple[Protocols, int, int],
        old_leader: str,
        error: ErrorCode,
    ) -> None:
        callback = member.join_callback
        if group.members.get(member.member_id) is not member or callback is None:
            return
        group.update_member(member, *old, None)
        group.replace_static_member(instance_id, member.member_id, old_id)
        self.rebalancer.restart_session(group, member)
        callback(JoinResult(error, "", group.generation_id, group.protocol_type, group.protocol_name, old_leader))

    # --- SyncGroup ---

    def sync_group(
        self,
        group_id: str,
        generation_id: int,
        member_id: str,
        group_instance_id: str | None,
        protocol_type: str | None,
        protocol_name: str | None,
        assignment: dict[str, bytes],
        callback: SyncCallback,
    ) -> None:
        """Ask for (and as leader bring) the assignment."""
        error = self.status_error(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # The client must join again: whether its generation still stands is not known yet.
            error = ErrorCode.REBALANCE_IN_PROGRESS
        group = self.store.get(group_id) if error is ErrorCode.NONE else None
        if group is None:
            callback(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID if error is ErrorCode.NONE else error))
            return
        with group.lock:
            error = self._sync_error(group, generation_id, member_id, group_instance_id, protocol_type, protocol_name)
            if error is not ErrorCode.NONE:
                callback(SyncResult(error))
                return
            member = group.members[member_id]
            if group.is_in(GroupState.STABLE):
                self.rebalancer.received_sync(group, member_id)
                callback(SyncResult(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol_name))
                self.rebalancer.restart_session(group, member)
                return
            member.sync_callback = callback
            self.rebalancer.received_sync(group, member_id)
            if group.is_leader(member_id):
                self._store_assignment(group, assignment)

    def _sync_error(
        self,
        group: Group,
        generation_id: int,
        member_id: str,
        group_instance_id: str | None,
        protocol_type: str | None,
        protocol_name: str | None,
    ) -> ErrorCode:
        if group.is_in(GroupState.DEAD):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.member_error(group, member_id, group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if protocol_type is not None and protocol_type != group.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if protocol_name is not None and protocol_name != group.protocol_name:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.is_in(GroupState.EMPTY):
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.is_in(GroupState.PREPARING_REBALANCE):
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _store_assignment(self, group: Group, assignment: dict[str, bytes]) -> None:
        generation_id = group.generation_id
        complete = {member_id: assignment.get(member_id, b"") for member_id in group.members}

        def stored(error: ErrorCode) -> None:
            with group.lock:
                # Another rebalance may have begun while the record was on its way.
                if not group.is_in(GroupState.COMPLETING_REBALANCE) or group.generation_id != generation_id:
                    return
                if error is ErrorCode.NONE:
                    self.rebalancer.assign(group, complete)
                else:
                    self.rebalancer.fail_syncs(group, error)
                    self.rebalancer.maybe_prepare(group, f"the assignment was not stored: {error.name}")

        self.store.store_group(group, complete, stored)

    # --- Heartbeat ---

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        """The member is alive; tells whether it must join again."""
        error = self.status_error(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE  # nothing is known against it, and all sessions start afresh after the load
        if error is not ErrorCode.NONE:
            return error
        group = self.store.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        with group.lock:
            if group.is_in(GroupState.DEAD):
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            error = self.member_error(group, member_id, group_instance_id)
            if error is not ErrorCode.NONE:
                return error
            if generation_id != group.generation_id:
                return ErrorCode.ILLEGAL_GENERATION
            if group.is_in(GroupState.EMPTY):
                return ErrorCode.UNKNOWN_MEMBER_ID
            self.rebalancer.restart_session(group, group.members[member_id])
            if group.is_in(GroupState.PREPARING_REBALANCE):
                return ErrorCode.REBALANCE_IN_PROGRESS
            return ErrorCode.NONE

    # --- LeaveGroup ---

    def leave_group(self, group_id: str, members: list[LeavingMember]) -> LeaveResult:
        """Take members out; a batch starts one rebalance."""
        error = self.status_error(group_id)
        if error is not ErrorCode.NONE:
            return LeaveResult(error)
        group = self.store.get(group_id)
        if group is None:
            return LeaveResult(ErrorCode.NONE, [(member, ErrorCode.UNKNOWN_MEMBER_ID) for member in members])
        with group.lock:
            if group.is_in(GroupState.DEAD):
                return LeaveResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return LeaveResult(ErrorCode.NONE, [(member, self._leave(group, member)) for member in members])

    def _leave(self, group: Group, leaving: LeavingMember) -> ErrorCode:
        member_id = leaving.member_id
        if not member_id:
            known = group.static_members.get(leaving.group_instance_id or "")
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = known
        elif member_id in group.pending_members:
            self.rebalancer.remove_pending(group, member_id)
            return ErrorCode.NONE
        else:
            error = self.member_error(group, member_id, leaving.group_instance_id)
            if error is not ErrorCode.NONE:
                return error
        reason = f"member {member_id} leaves: {leaving.reason or 'not provided'}"
        logger.info("group %s: %s", group.group_id, reason)
        self.rebalancer.remove_member(group, group.members[member_id], reason)
        return ErrorCode.NONE
