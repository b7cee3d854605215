"""A follower's fetcher: keeps some partitions identical to the log of one leader.

`step()` is one round: truncate what has to be truncated, fetch what is ready, apply the answers. A worker calls it.
What a part of an answer leads to stands in `_apply_one`; it is used only if the partition is still held, ready, and at
the offset that was asked for.

Lock order: replica state change lock, fetcher lock, partition lock.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from broker.config.versions import MetadataVersion
from broker.replication.follower.fetch_state import InitialFetchState, PartitionFetchState, ReplicaState
from broker.replication.follower.fetch_states import FetchStates, Wanted
from broker.replication.follower.leader_endpoint import LeaderEndpoint
from broker.replication.follower.truncation_target import truncation_target
from broker.replication.partition import Partition
from broker.replication.partitions import Partitions
from broker.replication.replica_traffic import ReplicaTraffic
from broker.replication.results import EpochEndOffset, FetchPartitionData
from log.errors import CorruptRecordError, InvalidRecordError, LogError
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode, ProtocolError
from network.protocol.messages.fetch import PartitionData
from network.protocol.uuids import ZERO_UUID
from timer.clock import Clock
from timer.news import News, of_error
from timer.worker import Worker, Workers

logger = logging.getLogger(__name__)

LATEST, EARLIEST = -1, -2
SHUTDOWN_MS = 30_000


class FailedPartitions:
    """Partitions that no fetcher touches until a newer LeaderAndIsr names them; shared by all fetchers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: set[TopicPartition] = set()

    def add(self, tp: TopicPartition) -> None:
        with self._lock:
            self._partitions.add(tp)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        with self._lock:
            self._partitions.difference_update(partitions)

    def __len__(self) -> int:
        return len(self._partitions)

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self._partitions


@dataclass(frozen=True, slots=True)
class FollowerSide:
    """What all fetchers of a broker share: where they write, and how the brokers speak with each other."""

    partitions: Partitions
    traffic: ReplicaTraffic
    version: MetadataVersion
    on_high_watermark: Callable[[TopicPartition], object]


class ReplicaFetcher:
    """One fetcher of one leader. `backoff_ms` is `replica.fetch.backoff.ms`."""

    def __init__(
        self,
        name: str,
        leader: LeaderEndpoint,
        side: FollowerSide,
        failed: FailedPartitions,
        clock: Clock,
        backoff_ms: int,
        partition_max_bytes: int,
        on_bytes: Callable[[int], None] = lambda size: None,
        on_request: Callable[[], None] = lambda: None,
        workers: Workers | None = None,
    ) -> None:
        self.name = name
        self._leader = leader
        self._partitions = side.partitions
        self._traffic = side.traffic
        self._version = side.version
        self._on_high_watermark = side.on_high_watermark
        self._failed = failed
        self._clock = clock
        self._failures = News(clock)
        self._backoff_ms = backoff_ms
        self._partition_max_bytes = partition_max_bytes
        self._on_bytes = on_bytes
        self._on_request = on_request
        self._truncates_on_fetch = side.version.truncates_on_fetch
        self._lock = threading.RLock()
        self._states = FetchStates()
        self._wanted = Wanted(self._states, self._item)
        self._moved_high_watermarks: list[TopicPartition] = []
        self._worker = Worker(name, self.step, clock, interrupt=leader.close, backoff_ms=backoff_ms, workers=workers)

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        self._worker.start()

    def shutdown(self) -> None:
        """Stop; waits until the round in progress has ended."""
        self._worker.stop(SHUTDOWN_MS)

    @property
    def is_dead(self) -> bool:
        """The thread has ended although nobody asked it to."""
        return self._worker.is_dead

    @property
    def count(self) -> int:
        return len(self._states)

    def partitions(self) -> list[TopicPartition]:
        with self._lock:
            return list(self._states)

    @property
    def max_lag(self) -> int:
        # Lock-free: `list` copies a dictionary's values in one step.
        return max((state.lag or 0 for state in list(self._states.values())), default=0)

    # ------------------------------------------------------------------ partitions

    def add(self, states: Mapping[TopicPartition, InitialFetchState]) -> None:
        """Take partitions over; one that is held in the same leader epoch stays as it is."""
        self._failed.remove(states)
        with self._lock:
            for tp, initial in states.items():
                held = self._states.get(tp)
                if held is not None and held.current_leader_epoch == initial.current_leader_epoch:
                    continue
                log = self._partitions.get_log(tp)
                latest = None if log is None else log.latest_epoch
                fetching = self._truncates_on_fetch and latest is not None
                self._states[tp] = PartitionFetchState(
                    initial.topic_id,
                    initial.init_offset,
                    None,
                    initial.current_leader_epoch,
                    0,
                    ReplicaState.FETCHING if fetching else ReplicaState.TRUNCATING,
                    -1 if latest is None else latest,
                )
        self._worker.wake()

    def remove(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionFetchState]:
        """Give partitions up; their state as it was."""
        with self._lock:
            removed = {tp: self._states.pop(tp) for tp in partitions if tp in self._states}
        return removed

    def update_topic_ids(self, topic_ids: Mapping[TopicPartition, bytes | None]) -> None:
        with self._lock:
            for tp, topic_id in topic_ids.items():
                state = self._states.get(tp)
                if state is not None:
                    self._states[tp] = state.with_(topic_id=topic_id or ZERO_UUID)
        self._worker.wake()

    # ------------------------------------------------------------------ one round

    def step(self) -> int:
        """One round. Returns how long to wait before the next one, 0 for not at all."""
        self._truncate()
        fetched = self._fetch()
        moved, self._moved_high_watermarks = self._moved_high_watermarks, []
        for tp in moved:
            self._on_high_watermark(tp)
        return 0 if fetched else self._backoff_ms

    # ------------------------------------------------------------------ truncating

    def _truncate(self) -> None:
        now = self._clock.monotonic_ms()
        asked: dict[TopicPartition, tuple[int, int]] = {}
        with self._lock:
            for tp, state in self._wanted.unsettled():
                if not state.is_truncating(now):
                    continue
                log = self._partitions.get_log(tp)
                latest = None if log is None else log.latest_epoch
                if latest is not None and self._version.uses_offset_for_leader_epoch:
                    asked[tp] = (state.current_leader_epoch, latest)
                else:
                    self._truncate_one(tp, state, EpochEndOffset(-1, -1))
        if not asked:
            return
        answers: Mapping[TopicPartition, EpochEndOffset | ErrorCode]
        try:
            answers = self._leader.epoch_end_offsets(asked)
        except (OSError, ApiError, ProtocolError) as error:
            self._log_failure("asking for the ends of epochs", error)
            answers = dict.fromkeys(asked, ErrorCode.NETWORK_EXCEPTION)
        with self._lock:
            for tp, answer in answers.items():
                state_now = self._states.get(tp)
                if state_now is None or state_now.current_leader_epoch != asked[tp][0]:
                    continue
                if isinstance(answer, EpochEndOffset):
                    self._truncate_one(tp, state_now, answer)
                elif answer is ErrorCode.FENCED_LEADER_EPOCH:
                    self._on_fenced(tp, asked[tp][0])
                else:
                    self._delay(tp)

    def _truncate_one(self, tp: TopicPartition, state: PartitionFetchState, leader: EpochEndOffset) -> None:
        partition, log = self._partition(tp)
        if partition is None or log is None:
            self._mark_failed(tp)
            return
        target = truncation_target(log, state.fetch_offset, leader)
        try:
            if target.offset < log.high_watermark:
                logger.warning(
                    "%s: truncating to %d, below the high watermark %d", tp, target.offset, log.high_watermark
                )
            if target.offset < log.log_end_offset:
                logger.info("%s: truncating from %d to %d", tp, log.log_end_offset, target.offset)
            partition.truncate_to(target.offset)
        except (LogError, OSError) as error:
            logger.error("%s: cannot be truncated", tp, exc_info=error)
            self._mark_failed(tp)
            return
        done = target.completed or self._truncates_on_fetch
        latest = log.latest_epoch
        self._states.put_last(
            tp,
            state.with_(
                fetch_offset=target.offset,
                state=ReplicaState.FETCHING if done else ReplicaState.TRUNCATING,
                last_fetched_epoch=-1 if latest is None else latest,
            ),
        )

    # ------------------------------------------------------------------ fetching

    def _item(self, tp: TopicPartition, state: PartitionFetchState, now_ms: int) -> FetchPartitionData | None:
        if not state.is_ready(now_ms) or self._traffic.rests(tp, state):
            return None
        log = self._partitions.get_log(tp)
        if log is None:
            return None
        return FetchPartitionData(
            state.topic_id,
            state.fetch_offset,
            log.log_start_offset,
            self._partition_max_bytes,
            state.current_leader_epoch,
            state.last_fetched_epoch if self._truncates_on_fetch else -1,
        )

    def _fetch(self) -> bool:
        with self._lock:
            self._wanted.update(self._clock.monotonic_ms())
        wanted = self._wanted.partitions
        if not wanted:
            return False
        try:
            answers = self._leader.fetch(wanted, self._wanted.take_changes())
        except (OSError, ApiError, ProtocolError) as error:
            self._log_failure("fetching", error)
            with self._lock:
                for tp in list(self._states):
                    self._delay(tp)
            return False
        self._failures.is_over("fetching")
        self._on_request()
        with self._lock:
            for tp, answer in answers.items():
                asked = wanted.get(tp)
                if asked is not None:
                    self._apply(tp, asked, answer)
        return True

    def _apply(self, tp: TopicPartition, asked: FetchPartitionData, answer: PartitionData) -> None:
        state = self._states.get(tp)
        now = self._clock.monotonic_ms()
        if state is None or state.fetch_offset != asked.fetch_offset or not state.is_ready(now):
            return
        if state.current_leader_epoch != asked.current_leader_epoch:
            return
        try:
            self._apply_one(tp, asked, answer, state)
        except (CorruptRecordError, InvalidRecordError) as error:
            if self._failures.is_new(tp, (asked.fetch_offset, str(error))):
                logger.error("%s: bad data at offset %d: %s", tp, asked.fetch_offset, error)
            self._delay(tp)
        except Exception:
            logger.exception("%s: cannot apply what was fetched at offset %d", tp, asked.fetch_offset)
            self._mark_failed(tp)

    def _apply_one(
        self, tp: TopicPartition, asked: FetchPartitionData, answer: PartitionData, state: PartitionFetchState
    ) -> None:
        error = ErrorCode.of(answer.error_code)
        if error is ErrorCode.NONE:
            if answer.diverging_epoch.epoch >= 0:
                diverging = EpochEndOffset(answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset)
                self._truncate_one(tp, state, diverging)
            else:
                self._append(tp, answer, state)
        elif error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._on_out_of_range(tp, state)
        elif error is ErrorCode.FENCED_LEADER_EPOCH:
            self._on_fenced(tp, asked.current_leader_epoch)
        else:
            logger.log(_LEVELS.get(error, logging.WARNING), "%s: the leader answers %s", tp, error.name)
            self._delay(tp)

    def _append(self, tp: TopicPartition, answer: PartitionData, state: PartitionFetchState) -> None:
        partition, log = self._partition(tp)
        if partition is None or log is None:
            self._mark_failed(tp)
            return
        records = answer.records
        next_offset = state.fetch_offset
        epoch = state.last_fetched_epoch
        if records is not None and len(records):  # type: ignore[arg-type]
            if state.fetch_offset != log.log_end_offset:
                raise LogError(
                    f"{tp}: offset {state.fetch_offset} was fetched, but the log ends at {log.log_end_offset}"
                )
            info = partition.append_as_follower(records)
            if info is not None and info.valid_bytes > 0:
                next_offset = info.last_offset + 1
                epoch = info.last_leader_epoch
                self._on_bytes(info.valid_bytes)
            # All that came, a batch that is cut at the end too: it is paid for again when it comes whole.
            self._traffic.received(tp, partition, len(records))  # type: ignore[arg-type]
        with partition.lock:
            before = log.high_watermark
            after = log.update_high_watermark(answer.high_watermark) if answer.high_watermark != before else before
            if answer.log_start_offset > log.log_start_offset:
                log.maybe_increment_log_start_offset(answer.log_start_offset, "leader offset increment")
        if after != before:
            self._moved_high_watermarks.append(tp)
        lag = max(0, answer.high_watermark - next_offset)
        self._states.put_last(tp, state.with_(fetch_offset=next_offset, lag=lag, last_fetched_epoch=epoch))

    def _on_out_of_range(self, tp: TopicPartition, state: PartitionFetchState) -> None:
        """The leader does not have our offset: unclean leader, or its log start has moved past us."""
        partition, log = self._partition(tp)
        if partition is None or log is None:
            self._mark_failed(tp)
            return
        epoch = state.current_leader_epoch
        try:
            leader_end = self._leader.offset(tp, LATEST, epoch)
            if leader_end < log.log_end_offset:
                logger.warning("%s: the leader ends at %d, before our %d", tp, leader_end, log.log_end_offset)
                partition.truncate_to(leader_end)
                self._restart_at(tp, state, log, leader_end, lag=0)
                return
            leader_start = self._leader.offset(tp, EARLIEST, epoch)
            offset = max(leader_start, log.log_end_offset)
            if leader_start > log.log_end_offset:
                logger.warning("%s: the leader starts at %d, after our %d", tp, leader_start, log.log_end_offset)
                partition.truncate_fully_and_start_at(leader_start)
            self._restart_at(tp, state, log, offset, lag=max(0, leader_end - offset))
        except ApiError as error:
            if error.code is ErrorCode.FENCED_LEADER_EPOCH:
                self._on_fenced(tp, epoch)
            else:
                self._delay(tp)
        except (OSError, ProtocolError) as error:
            self._log_failure("listing offsets", error)
            self._delay(tp)

    def _restart_at(
        self, tp: TopicPartition, state: PartitionFetchState, log: PartitionLog, offset: int, lag: int
    ) -> None:
        latest = log.latest_epoch
        self._states.put_last(
            tp,
            state.with_(
                fetch_offset=offset,
                lag=lag,
                state=ReplicaState.FETCHING,
                last_fetched_epoch=-1 if latest is None else latest,
            ),
        )

    # ------------------------------------------------------------------ helpers; all under the lock

    def _partition(self, tp: TopicPartition) -> tuple[Partition | None, PartitionLog | None]:
        partition = self._partitions.get(tp)
        return partition, None if partition is None else partition.log

    def _delay(self, tp: TopicPartition) -> None:
        state = self._states.get(tp)
        now = self._clock.monotonic_ms()
        if state is not None and not state.is_delayed(now):
            self._states.put_last(tp, state.with_(delay_until_ms=now + self._backoff_ms))

    def _mark_failed(self, tp: TopicPartition) -> None:
        logger.warning("%s: is not fetched until the controller sends a newer leader epoch", tp)
        self._states.pop(tp, None)
        self._failed.add(tp)

    def _on_fenced(self, tp: TopicPartition, asked_epoch: int) -> None:
        state = self._states.get(tp)
        if state is None:
            return
        if state.current_leader_epoch == asked_epoch:
            logger.info("%s: epoch %d is fenced; waiting for the controller", tp, asked_epoch)
            self._mark_failed(tp)
        else:
            self._delay(tp)

    def _log_failure(self, what: str, error: BaseException) -> None:
        if not self._worker.is_stopping and self._failures.is_new(what, of_error(error)):
            logger.info("%s: %s failed: %s", self.name, what, error)


_LEVELS = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: logging.DEBUG,
    ErrorCode.UNKNOWN_LEADER_EPOCH: logging.DEBUG,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: logging.INFO,
    ErrorCode.UNKNOWN_TOPIC_ID: logging.INFO,
    ErrorCode.INCONSISTENT_TOPIC_ID: logging.INFO,
}
