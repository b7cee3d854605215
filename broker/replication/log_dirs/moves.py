"""Moves of replicas between log directories of this broker (AlterReplicaLogDirs, KIP-113).

A few threads copy the logs of partitions into future logs, one partition at a time in the order of their names, in
slices, within a rate. A future log found at start goes on when the partition's role is known again.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping

from broker.config.kafka_config import KafkaConfig
from broker.replication.follower.fetcher_manager import fetcher_index
from broker.replication.log_dirs import future_log
from broker.replication.log_dirs.future_log import Progress
from broker.replication.partition import Partition
from broker.replication.partitions import Partitions
from broker.replication.throttle import ReplicationQuota
from log.files.names import has_room_for_future
from log.management.manager import LogManager
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode, error_of
from timer.clock import Clock
from timer.metrics import Metrics
from timer.worker import Worker, Workers

logger = logging.getLogger(__name__)

OnMoved = Callable[[TopicPartition], None]
"""Told that a move is over: what waited for the future log may go on."""

RATE_KEY = "replica.alter.log.dirs.io.max.bytes.per.second"
SHUTDOWN_MS = 30_000
SLICE_BYTES = 1 << 20
LAST_SLICE_BYTES = 1 << 16
"""Copied while the partition is held up."""


class LogDirMover:
    """One thread, `ReplicaAlterLogDirsThread-<n>`. `step` is one slice of one partition."""

    def __init__(
        self,
        name: str,
        partitions: Partitions,
        log_manager: LogManager,
        on_moved: OnMoved,
        quota: ReplicationQuota,
        clock: Clock,
        backoff_ms: int,
        workers: Workers | None = None,
    ) -> None:
        self.name = name
        self.failed: set[TopicPartition] = set()
        self._all = partitions
        self._log_manager = log_manager
        self._on_moved = on_moved
        self._quota = quota
        self._backoff_ms = backoff_ms
        self._lock = threading.Lock()
        self._partitions: set[TopicPartition] = set()
        self._worker = Worker(name, self.step, clock, backoff_ms=backoff_ms, workers=workers)

    # ---- life

    def add(self, tp: TopicPartition) -> None:
        with self._lock:
            self.failed.discard(tp)
            self._partitions.add(tp)
            if not self._worker.is_started and not self._worker.is_stopping:
                self._worker.start()
        self._worker.wake()

    def remove(self, tp: TopicPartition) -> None:
        with self._lock:
            self.failed.discard(tp)
            self._partitions.discard(tp)

    def shutdown(self) -> None:
        """Stop after the slice in progress."""
        self._worker.stop(SHUTDOWN_MS)

    @property
    def is_dead(self) -> bool:
        return self._worker.is_dead

    @property
    def partitions(self) -> list[TopicPartition]:
        with self._lock:
            return sorted(self._partitions)

    # ---- work

    def step(self) -> int | None:
        """Copy a slice of the first partition. Returns ms to wait before the next, None for until there is one."""
        waiting = self.partitions
        if not waiting:
            return None
        if self._quota.is_exceeded():
            return self._backoff_ms
        tp = waiting[0]
        partition = self._all.get(tp)
        try:
            if partition is None or self._copy(partition):
                self.remove(tp)
        except Exception as error:
            if not self._all.is_moving(tp):
                self.remove(tp)  # cancelled or its directory failed in the middle of the slice
                return 0
            logger.error("%s: its move between log directories has failed", tp, exc_info=error)
            with self._lock:
                self._partitions.discard(tp)
                self.failed.add(tp)
        return 0

    def _copy(self, partition: Partition) -> bool:
        """Copy a slice; True if the move is over."""
        progress, size = future_log.copy_slice(partition, SLICE_BYTES)
        if size:
            self._quota.record(size)
        if progress is Progress.GONE:
            return True
        if progress is Progress.COPIED:
            return False
        future = partition.future_log
        if future is not None:
            future.flush()  # what is durable in the old directory is so in the new one before it goes
        if not future_log.exchange(partition, self._log_manager, LAST_SLICE_BYTES):
            return partition.future_log is None
        self._on_moved(partition.topic_partition)
        return True


class LogDirMoves:
    """All moves of one broker. Methods that change partitions are called under the replica state change lock."""

    def __init__(
        self,
        config: KafkaConfig,
        partitions: Partitions,
        log_manager: LogManager,
        on_moved: OnMoved,
        clock: Clock,
        metrics: Metrics,
        workers: Workers | None = None,
    ) -> None:
        self._config = config
        self._partitions = partitions
        self._log_manager = log_manager
        self.quota = ReplicationQuota(
            clock,
            config.get_int(RATE_KEY),
            config.get_int("alter.log.dirs.replication.quota.window.num"),
            config.get_int("alter.log.dirs.replication.quota.window.size.seconds") * 1000,
        )
        threads = config["num.replica.alter.log.dirs.threads"] or len(config.log_dirs)
        backoff_ms = config.get_int("replica.fetch.backoff.ms")
        self._movers = [
            LogDirMover(
                f"ReplicaAlterLogDirsThread-{number}",
                partitions,
                log_manager,
                on_moved,
                self.quota,
                clock,
                backoff_ms,
                workers,
            )
            for number in range(max(1, threads))
        ]
        self._register_gauges(metrics)

    def alter(self, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, ErrorCode]:
        """Begin, redirect or cancel moves; the answer to AlterReplicaLogDirs."""
        results: dict[TopicPartition, ErrorCode] = {}
        with self._partitions.state_change_lock:
            for tp, path in wanted.items():
                try:
                    self._alter_one(tp, os.path.abspath(path))
                    results[tp] = ErrorCode.NONE
                except Exception as error:
                    code, message = error_of(error)
                    if code is ErrorCode.UNKNOWN_SERVER_ERROR:
                        logger.error("%s: cannot be moved to %s", tp, path, exc_info=error)
                    else:
                        logger.warning("%s: cannot be moved to %s: %s", tp, path, message or code.name)
                    # The code that this API had before there was a better one.
                    unavailable = code is ErrorCode.NOT_LEADER_OR_FOLLOWER
                    results[tp] = ErrorCode.REPLICA_NOT_AVAILABLE if unavailable else code
        return results

    def _alter_one(self, tp: TopicPartition, path: str) -> None:
        logs = self._log_manager
        if not has_room_for_future(tp):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the name of {tp} is too long for a move")
        if path not in logs.log_dirs:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not a log directory of this broker")
        if path not in logs.live_log_dirs:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory {path} is offline")
        if self._partitions.is_offline(tp):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{tp} is in an offline log directory")
        partition = self._partitions.get(tp)
        if partition is not None and future_log.has_other_target(partition, path):
            self._mover(tp).remove(tp)
            future_log.give_up(partition, logs)
        logs.moves.prefer(tp, path)
        partition = self._partitions.get_or_raise(tp)
        if partition.log is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"there is no replica of {tp} here yet")
        if future_log.begin(partition, logs, path):
            self._mover(tp).add(tp)

    def go_on(self, partitions: Iterable[Partition]) -> None:
        """Take up the moves that a restart interrupted, once the partitions have their logs."""
        logs = self._log_manager
        for partition in partitions:
            tp = partition.topic_partition
            found = logs.get_log(tp, is_future=True)
            if found is None or partition.log is None:
                continue
            try:
                if future_log.begin(partition, logs, found.parent_dir):
                    self._mover(tp).add(tp)
            except Exception:
                logger.exception("%s: its move between log directories cannot go on", tp)

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """These are deleted here, or their directory has failed."""
        for tp in partitions:
            self._mover(tp).remove(tp)

    def on_broker_config(self) -> None:
        """Take the rate from the broker's configs as they are now."""
        self.quota.set_limit(self._config.get_int(RATE_KEY))

    def shutdown(self) -> None:
        for mover in self._movers:
            mover.shutdown()

    def _mover(self, tp: TopicPartition) -> LogDirMover:
        return self._movers[fetcher_index(tp, len(self._movers))]

    def _register_gauges(self, metrics: Metrics) -> None:
        def gauge(name: str, value: Callable[[], float]) -> None:
            tags = {"clientId": "ReplicaAlterLogDirs"}
            metrics.gauge("kafka.server", "ReplicaAlterLogDirsManager", name, value, **tags)

        metrics.gauge("kafka.server", "AlterLogDirsReplication", "byte-rate", self.quota.bytes_per_second)
        gauge("MaxLag", self._largest_lag)
        gauge("FailedPartitionsCount", lambda: float(sum(len(mover.failed) for mover in self._movers)))
        gauge("DeadThreadCount", lambda: float(sum(mover.is_dead for mover in self._movers)))
        gauge("MinFetchRate", lambda: 0.0)

    def _largest_lag(self) -> float:
        lags = [0]
        for mover in self._movers:
            for tp in mover.partitions:
                partition = self._partitions.get(tp)
                if partition is not None and partition.log is not None and partition.future_log is not None:
                    lags.append(partition.log.log_end_offset - partition.future_log.log_end_offset)
        return float(max(lags))
