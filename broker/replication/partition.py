"""One partition as this broker holds it: leader or follower, its log, its ISR, its high watermark.

All state is guarded by one lock a partition; the lock order is partition, then log. Purgatories are checked, and ISR
changes are submitted, only after the lock is released.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from broker.replication.isr.machine import IsrEffect, IsrEvent, transition
from broker.replication.isr.remote_replica import RemoteReplica
from broker.replication.isr.state import CommittedIsr, IsrState, LeaderAndIsr, LeaderRecoveryState
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
from timer.sharing import shared

logger = logging.getLogger(__name__)

NO_EPOCH = -1


class Partition:
    """Public attributes are for reading by others under `lock`, or as a hint without it."""

    __slots__ = (
        "_key",
        "adding_replicas",
        "assignment",
        "controller_epoch",
        "environment",
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
        self.environment = environment
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
        return self.leader_id == self.environment.broker_id

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def is_adding_local_replica(self) -> bool:
        return self.environment.broker_id in self.adding_replicas

    @property
    def replication_factor(self) -> int:
        if not self.adding_replicas:
            return len(self.assignment)
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
    def is_under_replicated(self) -> bool:
        return self.is_leader and self.replication_factor > len(self.isr_state.isr)

    def leader_log(self) -> PartitionLog | None:
        """The log if this broker leads the partition."""
        return self.log if self.leader_id == self.environment.broker_id else None

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
            self.take(IsrEvent.LEADS, _told(state, LeaderRecoveryState.RECOVERED))
            local = self.environment.broker_id
            for broker_id in list(self.remote_replicas):
                if broker_id not in self.assignment:
                    del self.remote_replicas[broker_id]
            for broker_id in self.assignment:
                if broker_id != local and broker_id not in self.remote_replicas:
                    self.remote_replicas[broker_id] = RemoteReplica(broker_id)
            log = self._ensure_log(topic_id, is_new=state.is_new)
            if is_new_epoch:
                epoch_start = log.log_end_offset
                self.leader_epoch_start_offset = epoch_start
                log.maybe_assign_epoch_start_offset(state.leader_epoch, epoch_start)
                now = self.environment.clock.wall_ms()
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
            self.environment.delayed.check_all(self.topic_partition)
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
            self.take(IsrEvent.FOLLOWS, _told(state, LeaderRecoveryState(state.leader_recovery_state)))
            self.remote_replicas.clear()
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
        self.assignment = shared(tuple(state.replicas))
        self.adding_replicas = shared(tuple(state.adding_replicas))
        self.removing_replicas = shared(tuple(state.removing_replicas))

    def _ensure_log(self, topic_id: bytes, *, is_new: bool) -> PartitionLog:
        if self.log is None:
            self.log = self.environment.create_log(self.topic_partition, topic_id, is_new=is_new, is_future=False)
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
        return self.environment.log_topic_id(self.topic_partition)

    def clear(self) -> None:
        """Forget everything: the partition is deleted here, or its log directory failed."""
        with self.lock:
            self.log = None
            self.future_log = None
            self.leader_id = None
            self.leader_epoch_start_offset = None
            self.take(IsrEvent.CLEARED)
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
            if log is None or self.leader_id != self.environment.broker_id:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if required_acks == -1 and len(self.isr_state.isr) < self.effective_min_isr:
                raise ApiError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"The size of the current ISR {list(self.isr_state.isr)} is insufficient to satisfy the min.isr "
                    f"requirement of {self.effective_min_isr} for partition {self.topic_partition}",
                )
            info = appends.append_as_leader(log, records, self.leader_epoch, origin, guard)
            self.end_rests()
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
                self.environment.log_manager.truncate_to({self.topic_partition: offset})
            if self.future_log is not None:
                with self._future_log_errors(is_future):
                    self.environment.log_manager.truncate_to({self.topic_partition: offset}, is_future=True)

    def truncate_fully_and_start_at(self, offset: int, *, is_future: bool = False) -> None:
        """Empty the log, and with it a future log; or only the future log."""
        manager, tp = self.environment.log_manager, self.topic_partition
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
        if log is None or self.leader_id != self.environment.broker_id:
            return False
        if not self.remote_replicas:
            return log.maybe_increment_high_watermark(log.log_end_offset_metadata) is not None
        if self.is_under_min_isr:
            return False
        environment = self.environment
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
        if candidate.message_offset < 0 or log.maybe_increment_high_watermark(candidate) is None:
            return False
        self.end_rests()
        return True

    def recheck_high_watermark(self) -> None:
        """Move the high watermark where only time, or the end of a broker, has freed it: no fetch need ever follow."""
        log = self.leader_log()
        if log is None or log.high_watermark == log.log_end_offset:
            return
        with self.lock:
            advanced = self.maybe_advance_high_watermark()
        if advanced:
            self.environment.delayed.check_all(self.topic_partition)

    def low_watermark(self) -> int:
        """Leader only: the smallest log start of all live replicas and of a future log; -1 if one is unknown."""
        with self.lock:
            log = self.leader_log()
            if log is None:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            lowest: int = log.log_start_offset
            for broker_id, replica in self.remote_replicas.items():
                if self.environment.is_alive(broker_id):
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

    def take(self, event: IsrEvent, told: LeaderAndIsr | None = None) -> IsrEffect:
        """Under `lock`: let an event happen to the ISR; returns what is to be done about it.

        Nothing else sets its state. Raises IllegalIsrEventError, and changes nothing, for what cannot happen now.
        """
        self.end_rests()
        effect, self.isr_state = transition(self.isr_state, event, told)
        return effect

    def end_rests(self) -> None:
        """Under `lock`: followers whose fetches left the partition out have to look at it again, or to be told."""
        for replica in self.remote_replicas.values():
            if replica.rest is not None:
                replica.end_rest(self.topic_partition)


def _told(state: LeaderAndIsrPartitionState, recovery: LeaderRecoveryState) -> LeaderAndIsr:
    return LeaderAndIsr(state.leader, state.leader_epoch, shared(tuple(state.isr)), recovery, state.partition_epoch)
