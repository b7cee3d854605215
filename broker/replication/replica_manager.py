"""All partitions of this broker: appends, reads, deletes; and what has to happen to them regularly."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from broker.cluster.metadata_cache import MetadataCache
from broker.config.kafka_config import KafkaConfig
from broker.coordinator.internal_topic_names import INTERNAL_TOPICS
from broker.fetching.replica_selector import ReplicaSelector
from broker.replication import partition_reads
from broker.replication.awaited_followers import AwaitedFollowers, FollowerKey
from broker.replication.follower.fetcher_manager import FetcherManager
from broker.replication.idle_reads import idle_read
from broker.replication.isr.changes import maybe_shrink_isr
from broker.replication.log_dirs import future_log
from broker.replication.log_dirs.high_watermarks import HighWatermarkCheckpoints
from broker.replication.log_dirs.moves import LogDirMoves
from broker.replication.metrics import ReplicaMetrics
from broker.replication.partition import Partition
from broker.replication.partition_environment import AlterPartitionSender, IsrMeters
from broker.replication.partition_metrics import COUNTS, PartitionMetrics, counts
from broker.replication.partitions import OFFLINE, Partitions
from broker.replication.replica_traffic import ReplicaTraffic
from broker.replication.results import (
    DeleteRecordsResult,
    FetchEntry,
    FetchParams,
    FetchPartitionData,
    LogReadResult,
    PartitionAppendResult,
)
from broker.replication.waiting.delayed_delete_records import DelayedDeleteRecords, DeleteRecordsCallback
from broker.replication.waiting.delayed_fetch import DelayedFetch, FetchCallback, Standby
from broker.replication.waiting.delayed_produce import DelayedProduce, ProduceCallback
from broker.replication.waiting.purgatories import DelayedOperations
from broker.requests.action_queue import ActionQueue
from log.errors import DecompressionError, LogError, UnknownCompressionError
from log.management.manager import LogManager
from log.partition_log import PartitionLog
from log.producer_entry import VerificationGuard
from log.records.validation import AppendOrigin
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode, error_of
from network.protocol.uuids import ZERO_UUID
from timer.clock import Clock
from timer.metrics import Metrics
from timer.scheduler import Scheduler
from timer.worker import Workers

logger = logging.getLogger(__name__)

ALL_REPLICAS: Final = -1
_VALID_ACKS = (-1, 0, 1)
_NONE: Final = ErrorCode.NONE
_METRICS_FLUSH_MS = 1000


class ReplicaManager:
    """Handlers append to partitions and read from them here; it is also what a `Partition` knows of its broker."""

    def __init__(
        self,
        config: KafkaConfig,
        *,
        clock: Clock,
        scheduler: Scheduler,
        log_manager: LogManager,
        metadata_cache: MetadataCache,
        delayed: DelayedOperations,
        alter_partition: AlterPartitionSender,
        partitions: Partitions,
        traffic: ReplicaTraffic,
        fetchers: FetcherManager,
        selector: ReplicaSelector | None,
        replica_metrics: ReplicaMetrics,
        metrics: Metrics,
        action_queue: ActionQueue,
        workers: Workers | None = None,
    ) -> None:
        self.config = config
        self.broker_id = config.broker_id
        self.clock = clock
        self.lag_time_max_ms = config.get_int("replica.lag.time.max.ms")
        self.log_manager = log_manager
        self.metadata_cache = metadata_cache
        self.delayed = delayed
        self.alter_partition = alter_partition
        self.metrics = replica_metrics
        self.isr_meters: IsrMeters = self.metrics
        self._partition_metrics = PartitionMetrics(metrics)
        self.high_watermarks = HighWatermarkCheckpoints(log_manager)
        self.controller_epoch = 0
        self.partitions = partitions
        self.traffic = traffic
        self.fetchers = fetchers
        self.awaited = AwaitedFollowers(clock, config.get_int("replica.fetch.wait.max.ms"), self.is_alive)
        self._selector = selector
        self.is_shutting_down = False
        self._scheduler = scheduler
        self._action_queue = action_queue
        self._checkpointing = False
        self.log_dir_moves = LogDirMoves(config, partitions, log_manager, delayed.check_all, clock, metrics, workers)
        metrics.gauges_together("kafka.server", "ReplicaManager", COUNTS, partial(counts, partitions))

    # ------------------------------------------------------------------ life

    def startup(self) -> None:
        """Start the periodic ISR check and the flush of the meters."""
        self._scheduler.schedule("flush-topic-meters", self.metrics.flush, _METRICS_FLUSH_MS, _METRICS_FLUSH_MS)
        self._scheduler.schedule(
            "isr-expiration", self.maybe_shrink_isrs, delay_ms=0, period_ms=max(1, self.lag_time_max_ms // 2)
        )

    def start_high_watermark_checkpoints(self) -> None:
        """Called at the first LeaderAndIsr: before, there is nothing to write that would not lose what is on disk."""
        if not self._checkpointing:
            self._checkpointing = True
            period = self.config.get_int("replica.high.watermark.checkpoint.interval.ms")
            self._scheduler.schedule("highwatermark-checkpoint", self.checkpoint_high_watermarks, 0, period)

    def checkpoint_high_watermarks(self) -> None:
        self.high_watermarks.write(self.partitions.online())

    def shutdown(self) -> None:
        """Stop fetching, drop waiting operations, write the last checkpoint."""
        self.is_shutting_down = True
        self.fetchers.shutdown()
        self.log_dir_moves.shutdown()
        self.delayed.shutdown()
        if self._checkpointing:
            self.checkpoint_high_watermarks()

    def maybe_shrink_isrs(self) -> None:
        """The periodic look at every partition: members of the ISR, and others that only time has made too slow."""
        for partition in self.partitions.online():
            maybe_shrink_isr(partition)
            partition.recheck_high_watermark()

    def on_brokers_gone(self) -> None:
        """Brokers have left the metadata: those that were not in an ISR hold no high watermark back any more."""
        for partition in self.partitions.leaders():
            partition.recheck_high_watermark()

    # ------------------------------------------------------------------ partitions

    def is_alive(self, broker_id: int) -> bool:
        return self.metadata_cache.is_alive(broker_id)

    def create_log(self, tp: TopicPartition, topic_id: bytes, *, is_new: bool, is_future: bool) -> PartitionLog:
        """Open or make the log of a partition; its high watermark starts from the checkpoint of its directory."""
        log = self.log_manager.get_or_create_log(
            tp, is_new=is_new, is_future=is_future, topic_id=None if topic_id == ZERO_UUID else topic_id
        )
        log.update_high_watermark(self.high_watermarks.initial(log, tp))
        return log

    def initial_fetch_offset(self, log: PartitionLog) -> int:
        """Where a new follower starts: its log end if leader epochs can correct it, else the high watermark."""
        if self.config.version.truncates_on_fetch and log.latest_epoch is not None:
            return int(log.log_end_offset)
        return int(log.high_watermark)

    def add_partition(self, tp: TopicPartition) -> Partition:
        """Make the slot of a partition that is new here. Call under the state change lock."""
        partition = Partition(tp, self)
        self.partitions.put(tp, partition)
        self._partition_metrics.add(partition)
        return partition

    def mark_offline(self, tp: TopicPartition) -> None:
        """Its log directory failed. Call under the state change lock."""
        self.partitions.put(tp, OFFLINE)
        self._partition_metrics.remove(tp)

    def remove_partition(self, tp: TopicPartition) -> None:
        """Forget a partition that is deleted here. Call under the state change lock."""
        self.log_dir_moves.stop([tp])
        slot = self.partitions.remove(tp)
        self._partition_metrics.remove(tp)
        self.metrics.remove_partition(tp)
        if isinstance(slot, Partition):
            slot.clear()

    def forget_topics(self, topics: set[str]) -> None:
        """Drop what is kept of those of `topics` that have no partition here any more.

        The throttle of a topic that is elsewhere stays: a replica may come back before its configs change again.
        """
        for topic in topics:
            if self.partitions.has_topic(topic):
                continue
            self.metrics.remove_topic(topic)
            if self.metadata_cache.partition_count(topic) is None:
                self.traffic.throttles.forget(topic)

    def handle_log_dir_failure(self, directory: str) -> None:
        """Take the partitions of a failed directory offline; they stay so until the broker restarts."""
        with self.partitions.state_change_lock:
            failed = []
            for partition in self.partitions.online():
                # One look at both logs: they may be about to change places.
                with partition.lock:
                    log, future = partition.log, partition.future_log
                    if log is not None and log.parent_dir == directory:
                        failed.append(partition.topic_partition)
                        partition.clear()
                    elif future is not None and future.parent_dir == directory:
                        future_log.give_up(partition, self.log_manager, delete=False)
            self.log_dir_moves.stop(failed)
            self.fetchers.remove(failed)
            for tp in failed:
                self.mark_offline(tp)
            self.log_manager.handle_log_dir_failure(directory)
        logger.error("%d partitions are offline with %s", len(failed), directory)
        for tp in failed:
            self.delayed.check_produce_and_fetch(tp)

    def on_topic_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        """The overrides of a topic changed (the log manager knows already)."""
        self.traffic.throttles.on_topic_config(topic, overrides)
        for number in range(self.metadata_cache.partition_count(topic) or 0):
            partition = self.partitions.get(TopicPartition(topic, number))
            if partition is not None:
                partition.recheck_high_watermark()  # a lower min.insync.replicas sets it free

    def on_broker_config(self) -> None:
        """Dynamic configs of this broker changed."""
        self.traffic.throttles.on_broker_config()
        self.log_dir_moves.on_broker_config()

    def log_topic_id(self, tp: TopicPartition) -> bytes | None:
        """The topic id that an existing log on disk was written under."""
        log = self.log_manager.get_log(tp)
        return None if log is None else log.topic_id

    # ------------------------------------------------------------------ append

    def append_records(
        self,
        timeout_ms: int,
        required_acks: int,
        entries: Mapping[TopicPartition, Any],
        origin: AppendOrigin,
        callback: ProduceCallback,
        internal_topics_allowed: bool = False,
        guards: Mapping[TopicPartition, VerificationGuard] | None = None,
    ) -> None:
        """Append to local leaders; `callback` gets one result a partition, at once or when acks=all is satisfied.

        `guards` prove that transactional batches were verified with their coordinator (KIP-890).

        Purgatory checks that the append calls for are put on the action queue: the caller may hold locks.
        """
        if required_acks not in _VALID_ACKS:
            callback({tp: PartitionAppendResult(ErrorCode.INVALID_REQUIRED_ACKS) for tp in entries})
            return
        results: dict[TopicPartition, PartitionAppendResult] = {}
        waiting = False
        for tp, records in entries.items():
            if not internal_topics_allowed and tp.topic in INTERNAL_TOPICS:
                refused = ErrorCode.INVALID_TOPIC_EXCEPTION
                results[tp] = PartitionAppendResult(refused)
                self.metrics.append_failed(tp.topic, refused, len(records))
                continue
            guard = None if guards is None else guards.get(tp)
            result = results[tp] = self._append_one(tp, records, origin, required_acks, guard)
            if required_acks == ALL_REPLICAS and result.error is ErrorCode.NONE and not waiting:
                waiting = not self._is_replicated(tp, result)
        if waiting:
            operation = DelayedProduce(timeout_ms, results, self.partitions, self.metrics, callback)
            self.delayed.produce.try_complete_else_watch(operation, list(entries))
        else:
            callback(results)

    def _append_one(
        self,
        tp: TopicPartition,
        records: Any,
        origin: AppendOrigin,
        required_acks: int,
        guard: VerificationGuard | None,
    ) -> PartitionAppendResult:
        try:
            partition = self.partitions.get_or_raise(tp)
            info, moved = partition.append_as_leader(records, origin, required_acks, guard)
        except Exception as error:
            return self._append_failure(tp, error, len(records))
        if self.delayed.is_watched(tp):
            self._action_queue.add(partial(self._after_append, tp, moved))
        first, last = info.first_offset, info.last_offset
        self.metrics.appended(tp.topic, len(records), last - first + 1)
        result = PartitionAppendResult(_NONE, first, last, info.log_append_time, info.log_start_offset)
        if info.conversion is not None:
            result.conversion = info.conversion
            self.metrics.produce_converted(tp.topic, info.conversion.records)
        return result

    def _append_failure(self, tp: TopicPartition, error: Exception, size: int) -> PartitionAppendResult:
        code, message = error_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            # Bytes that cannot be decompressed are the producer's fault, not one of this code.
            of_client = isinstance(error, DecompressionError | UnknownCompressionError)
            logger.error("append to %s failed: %s", tp, error, exc_info=None if of_client else error)
        self.metrics.append_failed(tp.topic, code, size)
        if isinstance(error, LogError):
            self.metrics.refused(error.faults)
        record_errors: Sequence[Any] = getattr(error, "record_errors", ())
        log_start = -1
        if record_errors:
            log = self.partitions.get_log(tp)
            log_start = -1 if log is None else log.log_start_offset
        # A text goes to the producer only where it says what is wrong with its records.
        text = message if record_errors else None
        return PartitionAppendResult(code, log_start_offset=log_start, record_errors=record_errors, error_message=text)

    def _is_replicated(self, tp: TopicPartition, result: PartitionAppendResult) -> bool:
        """Settle an acks=all result that need not wait; `False` if it must."""
        partition = self.partitions.get(tp)
        if partition is None:
            return False
        done, error = partition.has_enough_replicas(result.last_offset + 1)
        return done and error is ErrorCode.NONE

    def _after_append(self, tp: TopicPartition, high_watermark_moved: bool) -> None:
        if high_watermark_moved:
            self.delayed.check_all(tp)
        else:
            self.delayed.fetch.check_and_complete(tp)  # followers wait for the log end, not for the high watermark

    # ------------------------------------------------------------------ fetch

    def fetch_messages(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        callback: FetchCallback,
        standby: Standby | None = None,
    ) -> None:
        """Read; answer at once if there is enough or anything to report, else wait in the purgatory.

        With `standby` other partitions may wake meanwhile; reading them is left to the callback.
        """
        results = self.read_from_log(params, entries, update_followers=True)
        size = 0
        urgent = params.max_wait_ms <= 0 or (not entries and standby is None)
        for _, result in results:
            size += result.size
            if (
                result.error is not ErrorCode.NONE
                or result.diverging_epoch is not None
                or result.preferred_read_replica >= 0
            ):
                urgent = True
        if urgent or size >= params.min_bytes:
            callback(results)
            return
        for _, result in results:
            result.release()
        positions = [result.fetch_offset_metadata for _, result in results]
        # A tuple: the callback may add to its own list what has woken, while a check still looks at these.
        operation = DelayedFetch(params, tuple(entries), positions, self, callback, standby)
        keys: list[TopicPartition | FollowerKey] = [tp for tp, _ in entries]
        if params.replica_id >= 0:
            keys.append(FollowerKey(params.replica_id))
        fetches = self.delayed.fetch
        if fetches.try_complete_else_watch(operation, keys, has_looked=True) or standby is None:
            return
        standby.wait(operation, fetches.watch)
        if not operation.is_completed and standby.woken():
            operation.safe_try_complete()  # it woke before there was anything to be watched

    def expect_followers(self, partitions: Sequence[Partition]) -> None:
        """This broker leads `partitions` anew: the waits of their followers end, whose next fetch begins with them."""
        for key in self.awaited.expect(partitions):
            self.delayed.check_fetches_of(key)

    def read_from_log(
        self, params: FetchParams, entries: Sequence[FetchEntry], update_followers: bool, read_before: int = 0
    ) -> list[tuple[TopicPartition, LogReadResult]]:
        """Read every entry in order within the byte limits; the first non-empty one may exceed them.

        `read_before` are bytes that the answer has already.
        """
        now = self.clock.wall_ms() if params.replica_id >= 0 else 0
        limit = max(0, params.max_bytes - read_before)
        min_one_message = not params.hard_max_bytes and not read_before
        slots = self.partitions.slots if params.replica_id >= 0 else None
        idle: dict[str, int] = {}
        results = []
        for tp, data in entries:
            if slots is not None and type(slot := slots.get(tp)) is Partition:
                nothing = idle_read(slot, params, data, now, update_followers)
                if nothing is not None:
                    idle[tp.topic] = idle.get(tp.topic, 0) + 1
                    results.append((tp, nothing))
                    continue
            result = self._read_one(tp, params, data, limit, min_one_message, now, update_followers)
            size = result.size
            if size:
                min_one_message = False
                limit = limit - size if limit > size else 0
            results.append((tp, result))
        for topic, count in idle.items():
            self.metrics.fetch_requested(topic, count)
        return results

    def _read_one(
        self,
        tp: TopicPartition,
        params: FetchParams,
        data: FetchPartitionData,
        limit: int,
        min_one_message: bool,
        now: int,
        update_followers: bool,
    ) -> LogReadResult:
        self.metrics.fetch_requested(tp.topic)
        try:
            partition = self.partitions.get_or_raise(tp)
            if data.topic_id != partition.topic_id and ZERO_UUID not in (data.topic_id, partition.topic_id):
                raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
            if self._selector is not None and params.client is not None:
                preferred = self._selector.preferred_replica(partition, params.client, data)
                if preferred is not None:
                    return preferred
            max_bytes = data.max_bytes if data.max_bytes < limit else limit
            result = partition_reads.read_records(
                partition, params, data, max_bytes, min_one_message, now, update_followers
            )
        except Exception as error:
            return self._read_failure(tp, error)
        if result.size and self.traffic.holds_back(params, tp):
            result.release()
        return result

    def _read_failure(self, tp: TopicPartition, error: Exception) -> LogReadResult:
        code, _ = error_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            logger.error("reading %s failed", tp, exc_info=error)
        if code in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR):
            self.metrics.topic(tp.topic).failed_fetch.mark()
            self.metrics.all_topics.failed_fetch.mark()
        return LogReadResult(code)

    # ------------------------------------------------------------------ deletes

    def delete_records(
        self, timeout_ms: int, offsets: Mapping[TopicPartition, int], callback: DeleteRecordsCallback
    ) -> None:
        """Raise log starts; answer when every live replica has done so too, or at the timeout."""
        results: dict[TopicPartition, DeleteRecordsResult] = {}
        waiting = False
        for tp, requested in offsets.items():
            try:
                if tp.topic in INTERNAL_TOPICS:
                    raise ApiError(
                        ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {tp.topic}"
                    )
                asked, low = partition_reads.delete_records(self.partitions.get_or_raise(tp), requested)
            except Exception as error:
                code, _ = error_of(error)
                if code is ErrorCode.UNKNOWN_SERVER_ERROR:
                    logger.error("deleting records of %s failed", tp, exc_info=error)
                results[tp] = DeleteRecordsResult(code, requested)
                continue
            results[tp] = DeleteRecordsResult(ErrorCode.NONE, asked, low)
            waiting = waiting or low < asked
        if waiting:
            operation = DelayedDeleteRecords(timeout_ms, results, self.partitions, self.metrics, callback)
            self.delayed.delete_records.try_complete_else_watch(operation, list(offsets))
        else:
            callback(results)
