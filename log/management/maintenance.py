"""What happens to all logs of a broker regularly: retention, flushing, expiry of producers, offset checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from log.cleaner.manager import CleanerManager
from log.config import MAX_INT64
from log.errors import LogError, StorageError
from log.files.checkpoint import OffsetCheckpoint
from log.local_log import LogEnvironment
from log.management.log_dir import LogDir
from log.management.log_table import LogTable
from log.management.manager_settings import LogManagerSettings
from log.management.retention import delete_old_segments
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition
from timer.news import News, of_error

logger = logging.getLogger(__name__)


class LogMaintenance:
    """`live_dirs` gives the log directories that have not failed; `report_failure(path, message)` takes one offline.

    `cleaner` says which logs are being cleaned.
    """

    def __init__(
        self,
        table: LogTable,
        live_dirs: Callable[[], Iterable[LogDir]],
        env: LogEnvironment,
        settings: LogManagerSettings,
        report_failure: Callable[[str, str], None],
        cleaner: CleanerManager | None = None,
    ) -> None:
        self._table = table
        self._live_dirs = live_dirs
        self._env = env
        self._settings = settings
        self._report_failure = report_failure
        self._cleaner = cleaner
        self._failures = News(env.clock)

    def schedule(self) -> None:
        """Start the background tasks with Kafka's intervals."""
        settings, schedule = self._settings, self._env.scheduler.schedule
        delay = settings.initial_task_delay_ms
        schedule("kafka-log-retention", self.cleanup_logs, delay, settings.retention_check_ms)
        if settings.flush_check_ms < MAX_INT64:
            schedule("kafka-log-flusher", self.flush_dirty_logs, delay, settings.flush_check_ms)
        schedule(
            "kafka-recovery-point-checkpoint",
            self.checkpoint_recovery_points,
            delay,
            settings.recovery_point_checkpoint_ms,
        )
        schedule(
            "kafka-log-start-offset-checkpoint",
            self.checkpoint_log_start_offsets,
            delay,
            settings.log_start_offset_checkpoint_ms,
        )
        schedule("producer-id-expiration", self.remove_expired_producers, delay, settings.producer_expiration_check_ms)

    # ---- logs

    def cleanup_logs(self) -> None:
        """Apply retention to every log that the cleaner does not look after."""
        for log in self._table.all():
            if not log.config.compact:
                self._clean_up(log)

    def _clean_up(self, log: PartitionLog) -> None:
        tp, cleaner = log.topic_partition, None if log.is_future else self._cleaner
        # The policy may have been another a moment ago, and a cleaning still read the segments.
        if cleaner is not None and not cleaner.pause_if_idle(tp):
            return
        try:
            self._guarded(log, "retention", partial(delete_old_segments, log))
        finally:
            if cleaner is not None:
                cleaner.resume(tp)

    def flush_dirty_logs(self) -> None:
        """Flush every log that was last flushed longer than its `flush.ms` ago."""
        now = self._env.clock.wall_ms()
        for log in self._table.all():
            if now - log.last_flushed_ms >= log.config.flush_ms:
                self._guarded(log, "flushing", log.flush)

    def remove_expired_producers(self) -> None:
        for log in self._table.all():
            self._guarded(log, "expiring producers", log.remove_expired_producers)

    def _guarded(self, log: PartitionLog, name: str, work: Callable[[], object]) -> None:
        """One log's trouble must not keep the others from their turn."""
        try:
            work()
        except LogError as error:
            if self._failures.is_new((log.topic_partition, name), of_error(error)):
                logger.exception("%s: %s failed", log.topic_partition, name)

    # ---- checkpoints

    def checkpoint(self, path: str) -> None:
        """Write both offset checkpoints of one directory."""
        self.checkpoint_recovery_points(path)
        self.checkpoint_log_start_offsets(path)

    def checkpoint_recovery_points(self, path: str | None = None) -> None:
        """Write the recovery points of one directory, or of all."""
        for log_dir, logs in self._by_dir(path):
            offsets = {log.topic_partition: log.recovery_point for log in logs}
            self._write(log_dir.path, log_dir.recovery_points, offsets)

    def checkpoint_log_start_offsets(self, path: str | None = None) -> None:
        """Write the log start offsets that are above their first segment's base, of one directory or of all."""
        for log_dir, logs in self._by_dir(path):
            offsets = {
                log.topic_partition: log.log_start_offset
                for log in logs
                if log.log_start_offset > (log.local.segments.first_base_offset or 0)
            }
            self._write(log_dir.path, log_dir.log_start_offsets, offsets)

    def _write(self, path: str, checkpoint: OffsetCheckpoint, offsets: Mapping[TopicPartition, int]) -> None:
        try:
            checkpoint.write(offsets)
        except (OSError, StorageError) as error:
            self._report_failure(path, f"writing {checkpoint.path}: {error}")

    def _by_dir(self, path: str | None) -> Iterable[tuple[LogDir, list[PartitionLog]]]:
        for log_dir in self._live_dirs():
            if path is None or log_dir.path == path:
                yield log_dir, self._table.in_dir(log_dir.path)
