"""One partition as this broker holds it: leader or follower, its log, its ISR, its high watermark.

All state is guarded by one lock a partition; the lock order is partition, then log. Purgatories are checked, and ISR
changes are submitted, only after the lock is released.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from broker.replication.isr.remote_replica import RemoteReplica
from broker.replication.isr.state import (
    CommittedIsr,
    IsrState,
    LeaderAndIsr,
    LeaderRecoveryState,
    PendingExpandIsr,
    PendingShrinkIsr,
)
from broker.replication.partition_environment import PartitionEnvironment
from log import appends
from log.append_info import LogAppendInfo
from log.errors import StorageError, UnexpectedAppendOffsetError
from log.offset_metadata import LogOffsetMetadata
from log.partition_log import PartitionLog
from log.producer_entry import VerificationGuard
from log.records.validation import AppendOrigin
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from network.protocol.uuids import ZERO_UUID

logger = logging.getLogger(__name__)

NO_EPOCH = -1

# Answers to AlterPartition that say "certainly not done": the proposal is dropped.
_REVERT = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
# Answers after which only a newer LeaderAndIsr can tell what is in effect: the proposal stays, and so does its
# conservative maximal ISR.
_STAY_PENDING = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class Partition:
    """Public attributes are for reading by others under `lock`, or as a hint without it."""

    __slots__ = (
        "_environment",
        "_key",
        "adding_replicas",
        "assignment",
        "controller_epoch",
        "future_log",
        "isr_state",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "lock",
        "log",
        "partition_epoch",
        "remote_replicas",
        "removing_replicas",
        "topic_id",
        "topic_partition",
        "truncations",
    )

    def __init__(self, topic_partition: TopicPartition, environment: PartitionEnvironment) -> None:
        self.topic_partition = topic_partition
        self._environment = environment
        self.lock = threading.RLock()
        self.log: PartitionLog | None = None
        self.future_log: PartitionLog | None = None
        self.truncations = 0  # how often either log was cut; tells a mover that what it has read is void
        self.topic_id = ZERO_UUID
        self.leader_id: int | None = None
        self.leader_epoch = -1
        self.partition_epoch = 0
        self.controller_epoch = 0
        self.leader_epoch_start_offset: int | None = None
        self.assignment: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        self.removing_replicas: tuple[int, ...] = ()
        self.isr_state: IsrState = CommittedIsr(())
        self.remote_replicas: dict[int, RemoteReplica] = {}

    # ------------------------------------------------------------------ facts about it

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self._environment.broker_id

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def is_adding_local_replica(self) -> bool:
        return self._environment.broker_id in self.adding_replicas

    @property
    def replication_factor(self) -> int:
        return len([replica for replica in self.assignment if replica not in self.adding_replicas])

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, capped by the size of the assignment."""
        assert self.log is not None
        return min(self.log.config.min_insync_replicas, len(self.remote_replicas) + 1)

    @property
    def is_under_min_isr(self) -> bool:
        return self.is_leader and self.log is not None and len(self.isr_state.isr) < self.effective_min_isr

    @property
    def is_at_min_isr(self) -> bool:
        return self.is_leader and self.log is not None and len(self.isr_state.isr) == self.effective_min_isr

    @property
    def is_under_replicated(self) -> bool:
        return self.is_leader and self.replication_factor > len(self.isr_state.isr)

    def leader_log(self) -> PartitionLog | None:
        """The log if this broker leads the partition."""
        return self.log if self.leader_id == self._environment.broker_id else None

    def local_log(self, current_leader_epoch: int, *, require_leader: bool) -> PartitionLog:
        """The log, after the checks every read makes: leader epoch first, then leadership.

        Raises FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER.
        """
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if self.log is None or (require_leader and not self.is_leader):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.log

    # ------------------------------------------------------------------ role changes

    def make_leader(self, state: LeaderAndIsrPartitionState, topic_id: bytes) -> bool:
        """Become leader in the epoch of `state`. Returns whether this broker was not leader before."""
        with self.lock:
            if state.partition_epoch < self.partition_epoch:
                self._log_stale(state)
                return False
            was_leader = self.is_leader
            is_new_epoch = state.leader_epoch > self.leader_epoch
            self.controller_epoch = state.controller_epoch
            self._use_assignment(state)
            local = self._environment.broker_id
            for broker_id in list(self.remote_replicas):
                if broker_id not in self.assignment:
                    del self.remote_replicas[broker_id]
            for broker_id in self.assignment:
                if broker_id != local and broker_id not in self.remote_replicas:
                    self.remote_replicas[broker_id] = RemoteReplica(broker_id)
            self.isr_state = CommittedIsr(state.isr)
            log = self._ensure_log(topic_id, is_new=state.is_new)
            if is_new_epoch:
                epoch_start = log.log_end_offset
                self.leader_epoch_start_offset = epoch_start
                log.maybe_assign_epoch_start_offset(state.leader_epoch, epoch_start)
                now = self._environment.clock.wall_ms()
                for replica in self.remote_replicas.values():
                    replica.reset(
                        now, epoch_start, is_new_leader=not was_leader, in_isr=replica.broker_id in self.isr_state.isr
                    )
                self.leader_epoch = state.leader_epoch
                logger.info(
                    "%s: leader in epoch %d from offset %d, high watermark %d, ISR %s, partition epoch %d",
                    self.topic_partition, state.leader_epoch, epoch_start, log.high_watermark, list(state.isr),
                    state.partition_epoch,
                )  # fmt: skip
            self.partition_epoch = state.partition_epoch
            self.leader_id = local
            advanced = self.maybe_advance_high_watermark()
        if advanced:
            self._environment.delayed.check_all(self.topic_partition)
        return not was_leader

    def make_follower(self, state: LeaderAndIsrPartitionState, topic_id: bytes) -> bool:
        """Become follower of `state.leader`. Returns whether the leader epoch grew, so fetching must start anew."""
        with self.lock:
            if state.partition_epoch < self.partition_epoch:
                self._log_stale(state)
                return False
            is_new_epoch = state.leader_epoch > self.leader_epoch
            self.controller_epoch = state.controller_epoch
            self._use_assignment(state)
            self.remote_replicas.clear()
            self.isr_state = CommittedIsr((), LeaderRecoveryState(state.leader_recovery_state))
            log = self._ensure_log(topic_id, is_new=state.is_new)
            if is_new_epoch:
                logger.info(
                    "%s: follower of %d in epoch %d, log end %d, high watermark %d, partition epoch %d",
                    self.topic_partition, state.leader, state.leader_epoch, log.log_end_offset, log.high_watermark,
                    state.partition_epoch,
                )  # fmt: skip
            self.leader_id = state.leader
            self.leader_epoch = state.leader_epoch
            self.leader_epoch_start_offset = None
            self.partition_epoch = state.partition_epoch
            return is_new_epoch

    def ensure_log(self, state: LeaderAndIsrPartitionState, topic_id: bytes) -> None:
        """Only create the log, for a follower whose leader is not known yet."""
        with self.lock:
            self._ensure_log(topic_id, is_new=state.is_new)

    def _use_assignment(self, state: LeaderAndIsrPartitionState) -> None:
        self.assignment = tuple(state.replicas)
        self.adding_replicas = tuple(state.adding_replicas)
        self.removing_replicas = tuple(state.removing_replicas)

    def _ensure_log(self, topic_id: bytes, *, is_new: bool) -> PartitionLog:
        if self.log is None:
            self.log = self._environment.create_log(self.topic_partition, topic_id, is_new=is_new, is_future=False)
        if topic_id != ZERO_UUID:
            self.assign_topic_id(topic_id)
        elif self.log.topic_id is not None:
            self.topic_id = self.log.topic_id
        return self.log

    def assign_topic_id(self, topic_id: bytes) -> None:
        if self.log is not None and self.log.topic_id is None:
            self.log.assign_topic_id(topic_id)
        self.topic_id = topic_id

    def known_topic_id(self) -> bytes | None:
        """The id this partition was made with, or that its log on disk was written under, if any."""
        if self.topic_id != ZERO_UUID:
            return self.topic_id
        return self._environment.log_topic_id(self.topic_partition)

    def clear(self) -> None:
        """Forget everything: the partition is deleted here, or its log directory failed."""
        with self.lock:
            self.log = None
            self.future_log = None
            self.leader_id = None
            self.leader_epoch_start_offset = None
            self.isr_state = CommittedIsr(())
            self.remote_replicas.clear()

    def _log_stale(self, state: LeaderAndIsrPartitionState) -> None:
        logger.info(
            "%s: skipping a change of role with partition epoch %d, older than %d",
            self.topic_partition, state.partition_epoch, self.partition_epoch,
        )  # fmt: skip

    # ------------------------------------------------------------------ appends

    def append_as_leader(
        self,
        records: Any,
        origin: AppendOrigin,
        required_acks: int,
        guard: VerificationGuard | None = None,
    ) -> tuple[LogAppendInfo, bool]:
        """Append records of a client. Returns what the log says and whether the high watermark moved.

        Raises NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (acks=all only, before anything is written) and the errors
        of the log.
        """
        with self.lock:
            log = self.log
            if log is None or self.leader_id != self._environment.broker_id:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if required_acks == -1 and len(self.isr_state.isr) < self.effective_min_isr:
                raise ApiError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"The size of the current ISR {list(self.isr_state.isr)} is insufficient to satisfy the min.isr "
                    f"requirement of {self.effective_min_isr} for partition {self.topic_partition}",
                )
            info = appends.append_as_leader(log, records, self.leader_epoch, origin, guard)
            return info, self.maybe_advance_high_watermark()

    def append_as_follower(self, records: Any, *, is_future: bool = False) -> LogAppendInfo | None:
        """Append records that were fetched from the leader (or, for a future log, from the current one).

        A first batch that begins below an empty log's end but reaches past it restarts the log there.
        """
        with self.lock:
            log = self.future_log if is_future else self.log
            if log is None:
                return None
            try:
                return appends.append_as_follower(log, records)
            except UnexpectedAppendOffsetError as error:
                empty = log.log_end_offset == log.log_start_offset
                if not (empty and error.first_offset < log.log_end_offset <= error.last_offset):
                    raise
                logger.info("%s: restarting the empty log at offset %d", self.topic_partition, error.first_offset)
                self.truncate_fully_and_start_at(error.first_offset, is_future=is_future)
                return appends.append_as_follower(log, records)

    def truncate_to(self, offset: int, *, is_future: bool = False) -> None:
        """Cut the log, and with it a future log; or only the future log."""
        with self.lock:
            self.truncations += 1
            if not is_future:
                self._environment.log_manager.truncate_to({self.topic_partition: offset})
            if self.future_log is not None:
                with self._future_log_errors(is_future):
                    self._environment.log_manager.truncate_to({self.topic_partition: offset}, is_future=True)

    def truncate_fully_and_start_at(self, offset: int, *, is_future: bool = False) -> None:
        """Empty the log, and with it a future log; or only the future log."""
        manager, tp = self._environment.log_manager, self.topic_partition
        with self.lock:
            self.truncations += 1
            if not is_future:
                manager.truncate_fully_and_start_at(tp, offset)
            if self.future_log is not None:
                with self._future_log_errors(is_future):
                    manager.truncate_fully_and_start_at(tp, offset, is_future=True)

    @contextmanager
    def _future_log_errors(self, is_future: bool) -> Iterator[None]:
        """The failure of the other directory (which has been reported) must not keep the log itself from going on."""
        try:
            yield
        except StorageError:
            if is_future:
                raise
            logger.warning("%s: its future log cannot be truncated", self.topic_partition, exc_info=True)

    def has_enough_replicas(self, required_offset: int) -> tuple[bool, ErrorCode]:
        """Whether an acks=all append up to `required_offset` may be answered, and with what."""
        log = self.leader_log()
        if log is None:
            return True, ErrorCode.NOT_LEADER_OR_FOLLOWER
        if log.high_watermark < required_offset:
            return False, ErrorCode.NONE
        with self.lock:
            if self.log is None:
                return True, ErrorCode.NOT_LEADER_OR_FOLLOWER
            if self.effective_min_isr <= len(self.isr_state.maximal):
                return True, ErrorCode.NONE
        return True, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    # ------------------------------------------------------------------ high watermark

    def maybe_advance_high_watermark(self) -> bool:
        """Move the leader's high watermark as far as the maximal ISR allows. Call under `lock`; no-op on a follower.

        Frozen while under min.insync.replicas. A replica outside the ISR that is caught up holds it back too, so that
        the replica can join.
        """
        log = self.log
        if log is None or self.leader_id != self._environment.broker_id:
            return False
        if not self.remote_replicas:
            return log.maybe_increment_high_watermark(log.log_end_offset_metadata) is not None
        if self.is_under_min_isr:
            return False
        environment = self._environment
        candidate: LogOffsetMetadata = log.log_end_offset_metadata
        leader_end = candidate.message_offset
        maximal = self.isr_state.maximal
        now = -1
        for broker_id, replica in self.remote_replicas.items():
            if replica.log_end_offset >= candidate.message_offset:
                continue
            if broker_id not in maximal:
                now = now if now >= 0 else environment.clock.wall_ms()
                caught_up = replica.is_caught_up(leader_end, now, environment.lag_time_max_ms)
                if not (caught_up and environment.is_alive(broker_id)):
                    continue
            candidate = replica.log_end_offset_metadata
        if candidate.message_offset < 0:
            return False
        return log.maybe_increment_high_watermark(candidate) is not None

    def recheck_high_watermark(self) -> None:
        """Move the high watermark where only time, or the end of a broker, has freed it: no fetch need ever follow."""
        log = self.leader_log()
        if log is None or log.high_watermark == log.log_end_offset:
            return
        with self.lock:
            advanced = self.maybe_advance_high_watermark()
        if advanced:
            self._environment.delayed.check_all(self.topic_partition)

    def low_watermark(self) -> int:
        """Leader only: the smallest log start of all live replicas and of a future log; -1 if one is unknown."""
        with self.lock:
            log = self.leader_log()
            if log is None:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            lowest: int = log.log_start_offset
            for broker_id, replica in self.remote_replicas.items():
                if self._environment.is_alive(broker_id):
                    lowest = min(lowest, replica.log_start_offset)
            if self.future_log is not None:
                lowest = min(lowest, self.future_log.log_start_offset)
            return lowest

    # ------------------------------------------------------------------ followers and the ISR

    def follower(self, replica_id: int, current_leader_epoch: int) -> RemoteReplica:
        """The entry of an assigned follower. Raises when `replica_id` is not assigned."""
        replica = self.remote_replicas.get(replica_id)
        if replica is not None:
            return replica
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if current_leader_epoch == NO_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise ApiError(code, f"replica {replica_id} is not assigned to {self.topic_partition}")

    def update_follower(
        self,
        replica: RemoteReplica,
        fetch_offset: LogOffsetMetadata,
        log_start_offset: int,
        fetch_time_ms: int,
        leader_end_offset: int,
        broker_epoch: int,
        read_from: PartitionLog | None = None,
    ) -> None:
        """Note a follower's fetch and draw every conclusion from it: low watermark, ISR expansion, high watermark.

        `read_from` is the log that `fetch_offset` has its place in.
        """
        delayed = self._environment.delayed
        with self.lock:
            if self.remote_replicas.get(replica.broker_id) is not replica:
                return  # the role changed since the read
            if read_from is not self.log:
                fetch_offset = LogOffsetMetadata(fetch_offset.message_offset)
            watches_low_watermark = delayed.num_delete_records > 0
            old_low = self.low_watermark() if watches_low_watermark else -1
            old_end = replica.log_end_offset
            replica.update_fetch_state(fetch_offset, log_start_offset, fetch_time_ms, leader_end_offset, broker_epoch)
            moved = watches_low_watermark and self.low_watermark() > old_low
            expand = self._propose_expand(replica.broker_id)
            if old_end != replica.log_end_offset and self.maybe_advance_high_watermark():
                moved = True
        if expand is not None:
            self._submit(expand)
        if moved:
            delayed.check_all(self.topic_partition)

    def _propose_expand(self, broker_id: int) -> IsrState | None:
        state = self.isr_state
        if state.in_flight or broker_id in state.isr or not isinstance(state, CommittedIsr):
            return None
        log = self.leader_log()
        replica = self.remote_replicas.get(broker_id)
        if log is None or replica is None or self.leader_epoch_start_offset is None:
            return None
        if replica.log_end_offset < max(log.high_watermark, self.leader_epoch_start_offset):
            return None
        if not self._environment.is_alive(broker_id):
            return None
        proposal = self._proposal((*state.isr, broker_id))
        return self._pend(PendingExpandIsr(broker_id, state, proposal))

    def _pend(self, pending: IsrState) -> IsrState:
        """A change is in flight from here on: only a leader has one, and it takes in nobody that has no replica here.

        What the controller has told is not asserted: a member without replica may come from it, and be dropped.
        """
        members, committed = set(pending.proposal.isr if pending.proposal else ()), self.isr_state.isr
        assert self.is_leader, f"{self.topic_partition}: {pending} on a broker that does not lead"
        assert members - set(committed) <= set(self.assignment), (
            f"{self.topic_partition}: {pending} has no replica here"
        )
        assert self._environment.broker_id in members, f"{self.topic_partition}: {pending} leaves the leader out"
        self.isr_state = pending
        return pending

    def maybe_shrink_isr(self) -> None:
        """Propose to drop the members that have not been caught up for `replica.lag.time.max.ms`."""
        with self.lock:
            state = self.isr_state
            log = self.leader_log()
            if log is None or state.in_flight or not isinstance(state, CommittedIsr):
                return
            out_of_sync = self._out_of_sync(log)
            if not out_of_sync:
                return
            logger.info(
                "%s: shrinking ISR %s by %s; leader end %d, high watermark %d, followers %s",
                self.topic_partition, list(state.isr), sorted(out_of_sync), log.log_end_offset, log.high_watermark,
                {id_: replica.log_end_offset for id_, replica in self.remote_replicas.items()},
            )  # fmt: skip
            proposal = self._proposal([member for member in state.isr if member not in out_of_sync])
            pending = self._pend(PendingShrinkIsr(out_of_sync, state, proposal))
        self._submit(pending)

    def _out_of_sync(self, log: PartitionLog) -> frozenset[int]:
        environment = self._environment
        now = environment.clock.wall_ms()
        end = log.log_end_offset
        out = set()
        for member in self.isr_state.isr:
            if member == environment.broker_id:
                continue
            replica = self.remote_replicas.get(member)
            if replica is None or not replica.is_caught_up(end, now, environment.lag_time_max_ms):
                out.add(member)
        return frozenset(out)

    def _proposal(self, isr: Sequence[int]) -> LeaderAndIsr:
        return LeaderAndIsr(
            self._environment.broker_id, self.leader_epoch, tuple(isr), LeaderRecoveryState.RECOVERED,
            self.partition_epoch,
        )  # fmt: skip

    def _submit(self, pending: IsrState) -> None:
        proposal = pending.proposal
        assert proposal is not None
        self._environment.alter_partition.submit(
            self.topic_partition,
            self.topic_id,
            proposal,
            self.controller_epoch,
            lambda answer: self._on_alter_partition(pending, answer),
        )

    def _on_alter_partition(self, pending: IsrState, answer: LeaderAndIsr | ErrorCode) -> None:
        retry = advanced = False
        with self.lock:
            if self.isr_state is not pending:
                logger.debug("%s: ignoring a late AlterPartition answer %s", self.topic_partition, answer)
                return
            if isinstance(answer, ErrorCode):
                retry = self._on_alter_partition_error(pending, answer)
            else:
                advanced = self._on_alter_partition_success(pending, answer)
        if advanced:
            self._environment.delayed.check_all(self.topic_partition)
        if retry:
            self._submit(pending)
        else:
            # A refused member waits no longer, and the others may have fetched everything already.
            self.recheck_high_watermark()

    def _on_alter_partition_success(self, pending: IsrState, answer: LeaderAndIsr) -> bool:
        meters = self._environment.isr_meters
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            logger.debug("%s: AlterPartition answer %s does not fit epoch %d/%d", self.topic_partition, answer,
                         self.leader_epoch, self.partition_epoch)  # fmt: skip
            meters.failed.mark()
            return False
        self.isr_state = CommittedIsr(answer.isr, answer.recovery_state)
        self.partition_epoch = answer.partition_epoch
        (meters.expands if isinstance(pending, PendingExpandIsr) else meters.shrinks).mark()
        logger.info("%s: ISR is %s, partition epoch %d", self.topic_partition, list(answer.isr), answer.partition_epoch)
        return self.maybe_advance_high_watermark()

    def _on_alter_partition_error(self, pending: IsrState, code: ErrorCode) -> bool:
        """Returns whether to send the same proposal again."""
        self._environment.isr_meters.failed.mark()
        if code in _REVERT:
            assert pending.committed is not None
            logger.info("%s: %r was refused with %s", self.topic_partition, pending, code.name)
            self.isr_state = pending.committed
            return False
        if code in _STAY_PENDING:
            logger.warning("%s: %r got %s; waiting for the controller", self.topic_partition, pending, code.name)
            return False
        logger.warning("%s: %r got %s; trying again", self.topic_partition, pending, code.name)
        return True
