"""All logs of a broker, in several log directories.

A directory whose disk fails goes offline with its logs and the broker goes on with the others. Locks: the table's lock
is never held while a log's lock is waited for on an append path; a log reports I/O errors under its own lock, so the
report only takes `_failure_lock`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from log import truncation
from log.cleaner.cleaner_threads import CleanerConfig, LogCleaner
from log.config import LogConfig
from log.errors import InconsistentTopicIdError, StorageError
from log.files.checkpoint import OffsetCheckpoint
from log.files.file_range import OpenFileBound
from log.files.handles import raise_descriptor_limit
from log.files.meta_properties import (
    MetaProperties,
    check_meta_properties,
    read_meta_properties,
    write_meta_properties,
)
from log.files.names import DirectoryKind, current_dir_name, parse_dir_name, renamed_dir_name
from log.local_log import LogEnvironment
from log.management.deletion import DeletionQueue
from log.management.loader import LoadOptions, open_log
from log.management.log_dir import LogDir
from log.management.log_dir_loading import LoadProgress, close_logs, load_log_dir
from log.management.log_metrics import LogMetrics
from log.management.log_table import LogTable
from log.management.maintenance import LogMaintenance
from log.management.manager_settings import DEFAULT_SETTINGS, LogManagerSettings
from log.management.moves import LogMoves
from log.management.topic_configs import TopicConfigs
from log.partition_log import PartitionLog
from log.producer_state import ProducerStateConfig
from log.topic_partition import TopicPartition
from timer.chance import Chance
from timer.metrics import NULL_METRICS, Metrics

if TYPE_CHECKING:
    from timer.clock import Clock
    from timer.scheduler import Scheduler
from timer.worker import Workers

logger = logging.getLogger(__name__)

__all__ = ["LogManager", "LogManagerSettings"]


class LogManager:
    """Creates, finds, cuts and deletes logs. Background work: `maintenance`; moves between directories: `moves`."""

    def __init__(
        self,
        log_dirs: Sequence[str],
        *,
        default_config: LogConfig,
        topic_configs: Callable[[str], Mapping[str, str]],
        broker_id: int,
        cluster_id: str | None,
        clock: Clock,
        scheduler: Scheduler,
        chance: Chance,
        metrics: Metrics = NULL_METRICS,
        settings: LogManagerSettings = DEFAULT_SETTINGS,
        producer_config: ProducerStateConfig | None = None,
        cleaner_config: CleanerConfig | None = None,
        on_dir_failure: Callable[[str], None] | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.settings = settings
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.env = LogEnvironment(
            clock,
            scheduler,
            chance=chance,
            bound=OpenFileBound(settings.open_files),
            on_io_error=lambda directory, message, error: self.report_failure(directory, f"{message}: {error}"),
            metrics=metrics,
        )
        self._configs = TopicConfigs(topic_configs, default_config)
        self._producer_config = producer_config if producer_config is not None else ProducerStateConfig()
        self._metrics = LogMetrics(metrics)
        self._on_dir_failure = on_dir_failure
        self._table = LogTable()
        self.cleaner: LogCleaner | None = None
        if settings.cleaner_enabled:
            # The cleaner asks for the logs under its own lock, so nothing here calls it under the table's lock.
            self.cleaner = LogCleaner(
                lambda: list(self._table.current.values()),
                lambda: self.live_log_dirs,
                clock,
                cleaner_config or CleanerConfig(),
                metrics,
                self.report_failure,
                workers=workers,
            )
        self._failure_lock = Lock()
        self._failed: set[str] = set()
        self._dirs = {path: LogDir(path) for path in _absolute(log_dirs)}
        self._live: dict[str, LogDir] = {}
        self._deletions = DeletionQueue(self.env, settings.file_delete_delay_ms)
        self.maintenance = LogMaintenance(
            self._table,
            lambda: [self._live[path] for path in self.live_log_dirs],
            self.env,
            settings,
            self.report_failure,
            None if self.cleaner is None else self.cleaner.manager,
        )
        self.moves = LogMoves(
            self._table,
            lambda: self.live_log_dirs,
            self.maintenance,
            self._deletions,
            self._metrics,
            None if self.cleaner is None else self.cleaner.manager,
            chance,
        )
        self._started = False

    # ---- start and stop

    def startup(self) -> None:
        """Lock the directories, load all logs and start the background tasks.

        A directory that cannot be read or written goes offline. Raises `LogDirLockedError` if another broker has one,
        `LogError` for a foreign sub-directory or a partition found twice, `InconsistentMetadataError` if a
        `meta.properties` belongs to another broker, and `StorageError` if no directory is left.
        """
        raise_descriptor_limit()
        for path, log_dir in self._dirs.items():
            try:
                log_dir.prepare()
                log_dir.lock()
            except (OSError, StorageError) as error:
                self.report_failure(path, f"opening the log directory: {error}")
                continue
            self._live[path] = log_dir
        self._check_meta_properties()
        self._require_live_dir()
        for log_dir in list(self._live.values()):
            self._load(log_dir)
        self._require_live_dir()
        self.maintenance.schedule()
        self.env.scheduler.schedule_once("kafka-delete-logs", self._deletions.run, self.settings.initial_task_delay_ms)
        self._metrics.add_manager(self._dirs, lambda: self.offline_log_dirs)
        self._started = True
        for tp in self._table.future:
            self.moves.pause_cleaning(tp)
        if self.cleaner is not None:
            self.cleaner.startup()

    def _require_live_dir(self) -> None:
        if not self.live_log_dirs:
            raise StorageError("none of the log directories is usable: " + ", ".join(self._dirs))

    def _check_meta_properties(self) -> None:
        """Every directory must be this broker's; new ones are marked as such."""
        found: dict[str, MetaProperties | None] = {}
        for path in list(self._live):
            try:
                found[path] = read_meta_properties(path)
            except StorageError as error:
                self.report_failure(path, str(error))
        check_meta_properties(found, self.cluster_id, self.broker_id)
        for path, known in found.items():
            directory_id = None if known is None else known.directory_id
            try:
                write_meta_properties(
                    path, MetaProperties(self.cluster_id, self.broker_id, directory_id), self.env.clock.wall_ms()
                )
            except StorageError as error:
                self.report_failure(path, str(error))

    def _load(self, log_dir: LogDir) -> None:
        progress = LoadProgress(log_dir.path, self.env.clock)
        self._metrics.add_progress(progress, self.settings.recovery_threads_per_dir)
        try:
            logs = load_log_dir(log_dir, self.settings.recovery_threads_per_dir, self._open_found, progress)
        except (OSError, StorageError) as error:
            self.report_failure(log_dir.path, f"loading logs: {error}")
            self._take_offline(log_dir.path)
            return
        for log in logs:
            self._add_loaded(log)

    def _open_found(self, directory: str, options: LoadOptions) -> PartitionLog:
        topic = parse_dir_name(os.path.basename(directory))[0].topic
        return open_log(directory, self._configs.get(topic), self.env, options, producer_config=self._producer_config)

    def _add_loaded(self, log: PartitionLog) -> None:
        tp = log.topic_partition
        if log.is_deleting:
            self._deletions.add(log)
        elif log.is_stray:
            self._table.strays[tp] = log
            logger.warning("%s: a stray replica in %s is left alone", tp, log.directory)
        else:
            self._table.add(log)
            self._metrics.add_log(log)

    def shutdown(self) -> None:
        """Clean stop: every log is flushed and closed, checkpoints are written, and last the clean-shutdown markers.

        High watermark checkpoints are written by the replica manager before this.
        """
        if self.cleaner is not None:
            self.cleaner.shutdown()
        self._deletions.stop()
        for path, log_dir in list(self._live.items()):
            try:
                clean = self._close_logs(path)
                self.maintenance.checkpoint(path)
                if clean and (log_dir.had_clean_shutdown or log_dir.loading_finished):
                    log_dir.write_clean_shutdown_marker()
            except (OSError, StorageError):
                logger.exception("%s: could not be shut down cleanly; it will be recovered", path)
        for log_dir in self._live.values():
            try:
                log_dir.unlock()
            except OSError:
                logger.exception("%s: could not give the lock back", log_dir.path)

    def _close_logs(self, log_dir: str) -> bool:
        """Flush and close all logs of a directory; False if one failed."""
        clean = close_logs(self._table.in_dir(log_dir), self.settings.recovery_threads_per_dir)
        for log in [*self._deletions.logs(), *self._table.strays.values()]:
            if log.parent_dir == log_dir:
                log.close_handles()
        return clean

    # ---- directories

    @property
    def log_dirs(self) -> list[str]:
        """All configured directories, as absolute paths."""
        return list(self._dirs)

    @property
    def live_log_dirs(self) -> list[str]:
        failed = self._failed
        return [path for path in self._live if path not in failed]

    @property
    def offline_log_dirs(self) -> list[str]:
        live = set(self.live_log_dirs)
        return [path for path in self._dirs if path not in live]

    @property
    def high_watermark_checkpoints(self) -> dict[str, OffsetCheckpoint]:
        """The high watermark checkpoint of each live directory."""
        return {path: self._live[path].high_watermarks for path in self.live_log_dirs}

    def report_failure(self, directory: str, message: str) -> None:
        """A disk has failed; told once per directory. Called under any lock, so the work is done elsewhere."""
        with self._failure_lock:
            if directory in self._failed or directory not in self._dirs:
                return
            self._failed = self._failed | {directory}
        logger.error("log directory %s goes offline: %s", directory, message)
        if self._on_dir_failure is not None:
            self._on_dir_failure(directory)
        elif self._started:
            self.env.scheduler.schedule_once("handle-log-dir-failure", partial(self._handle_failure, directory))

    def _handle_failure(self, directory: str) -> None:
        self.handle_log_dir_failure(directory)

    def handle_log_dir_failure(self, directory: str) -> list[TopicPartition]:
        """Take a directory offline: its logs are closed and forgotten. Returns the partitions that went with it."""
        path = os.path.abspath(directory)
        with self._failure_lock:
            self._failed = self._failed | {path}
        gone = self._take_offline(path)
        for log in gone:
            if log.is_future:
                self.moves.resume_cleaning(log.topic_partition)
        if self.cleaner is not None:
            self.cleaner.manager.forget_directory(path)
        logger.warning("log directory %s is offline with %d logs", path, len(gone))
        return [log.topic_partition for log in gone]

    def _take_offline(self, path: str) -> list[PartitionLog]:
        gone = self._table.take_dir(path)
        log_dir = self._live.pop(path, None)
        for log in gone:
            self._metrics.remove_log(log)
        for log in [*gone, *self._deletions.remove_dir(path)]:
            log.close_handles()
        if log_dir is not None:
            try:
                log_dir.unlock(remove=False)
            except OSError:
                logger.exception("%s: could not give the lock back", path)
        return gone

    # ---- logs

    def get_log(self, tp: TopicPartition, is_future: bool = False) -> PartitionLog | None:
        return self._table.get(tp, is_future)

    def all_logs(self) -> list[PartitionLog]:
        """Current and future logs."""
        return self._table.all()

    def logs_by_topic(self, topic: str) -> list[PartitionLog]:
        return [log for log in self.all_logs() if log.topic_partition.topic == topic]

    def get_or_create_log(
        self, tp: TopicPartition, *, is_new: bool = False, is_future: bool = False, topic_id: bytes | None = None
    ) -> PartitionLog:
        """The log of `tp`, created if need be in the preferred directory or the one with the fewest logs.

        With a directory offline a log is only created if it `is_new`: it may exist there. Raises `StorageError`,
        `InconsistentTopicIdError` if the log belongs to another topic of that name, and `LogDirNotFoundError` for a
        future log without a preferred directory, or if that is where the current log is.
        """
        if not is_future or self.get_log(tp, is_future=True) is not None:
            return self._get_or_create(tp, is_new, is_future, topic_id)
        self.moves.pause_cleaning(tp)
        try:
            return self._get_or_create(tp, is_new, is_future, topic_id)
        except BaseException:
            self.moves.resume_cleaning(tp)
            raise

    def _get_or_create(self, tp: TopicPartition, is_new: bool, is_future: bool, topic_id: bytes | None) -> PartitionLog:
        with self._table.lock:
            log = self.get_log(tp, is_future)
            if log is None:
                log = self._create_log(tp, is_new=is_new, is_future=is_future, topic_id=topic_id)
        if topic_id is not None and log.topic_id is not None and log.topic_id != topic_id:
            raise InconsistentTopicIdError(f"{tp}: the log has topic id {log.topic_id.hex()}, not {topic_id.hex()}")
        return log

    def _create_log(self, tp: TopicPartition, *, is_new: bool, is_future: bool, topic_id: bytes | None) -> PartitionLog:
        if not is_new and self.offline_log_dirs:
            raise StorageError(f"cannot create a log for {tp}: log directories {self.offline_log_dirs} are offline")
        preferred = self.moves.preferred_dir(tp)
        if is_future:
            self.moves.check_future(tp)
        candidates = [preferred] if preferred in self.live_log_dirs else self._dirs_by_load()
        name = renamed_dir_name(tp, DirectoryKind.FUTURE, self.env.chance) if is_future else current_dir_name(tp)
        failure: Exception | None = None
        for parent in candidates:
            try:
                log = open_log(
                    os.path.join(parent, name),
                    self._configs.get(tp.topic),
                    self.env,
                    topic_partition=tp,
                    topic_id=topic_id,
                    producer_config=self._producer_config,
                )
            except (OSError, StorageError) as error:
                failure = error
                self.report_failure(parent, f"creating a log for {tp}: {error}")
                continue
            self._table.add(log)
            self.moves.satisfied(tp)
            self._metrics.add_log(log)
            logger.info("%s: created the log in %s", tp, log.directory)
            return log
        raise StorageError(f"no log directory can hold {tp}: {failure or 'all are offline'}")

    def _dirs_by_load(self) -> list[str]:
        """Live directories, the one with the fewest logs first."""
        return sorted(self.live_log_dirs, key=self._table.count_in)

    def truncate_to(self, offsets: Mapping[TopicPartition, int], *, is_future: bool = False) -> None:
        """Cut logs back, and write the recovery points of their directories. Unknown partitions are skipped."""
        touched: set[str] = set()
        for tp, offset in offsets.items():
            log = self.get_log(tp, is_future)
            if log is None:
                continue
            with self._cleaning_stopped(log, offset):
                if truncation.truncate_to(log, offset):
                    touched.add(log.parent_dir)
        for path in touched:
            self.maintenance.checkpoint_recovery_points(path)

    def truncate_fully_and_start_at(
        self, tp: TopicPartition, offset: int, *, is_future: bool = False, log_start_offset: int | None = None
    ) -> None:
        """Empty a log and let it go on at `offset`."""
        log = self.get_log(tp, is_future)
        if log is not None:
            with self._cleaning_stopped(log, -1):
                truncation.truncate_fully_and_start_at(log, offset, log_start_offset)
            self.maintenance.checkpoint_recovery_points(log.parent_dir)

    def _cleaning_stopped(self, log: PartitionLog, offset: int) -> AbstractContextManager[None]:
        """Keeps the cleaner off a log that is cut to `offset`."""
        if self.cleaner is None or log.is_future:
            return nullcontext()
        return self.cleaner.manager.stopped_for_truncation(log, offset)

    def async_delete(
        self, tp: TopicPartition, *, is_future: bool = False, checkpoint: bool = True, is_stray: bool = False
    ) -> PartitionLog | None:
        """Take the log of `tp` away: its directory is renamed, and removed after `file.delete.delay.ms`.

        A stray's directory is kept. Returns the log, None if there is none. Raises `StorageError`.
        """
        log = self._table.pop(tp, is_future)
        if log is None:
            return None
        self._configs.forget(tp.topic)
        if is_future:
            # The copy for a move is given up, so the log itself may be cleaned again.
            self.moves.resume_cleaning(tp)
        elif self.cleaner is not None:
            self.cleaner.manager.abort(tp)
            self.cleaner.manager.forget(log)
            if checkpoint:
                self.cleaner.manager.update_position(log.parent_dir, tp, None)
        self._metrics.remove_log(log)
        kind = DirectoryKind.STRAY if is_stray else DirectoryKind.DELETE
        log.rename_dir(renamed_dir_name(tp, kind, self.env.chance))
        if is_stray:
            log.close()
            self._table.strays[tp] = log
        else:
            log.close_handles()
            self._deletions.add(log)
        if checkpoint:
            self.maintenance.checkpoint(log.parent_dir)
        return log

    # ---- configuration

    @property
    def default_config(self) -> LogConfig:
        """The broker's defaults, for topics without overrides."""
        return self._configs.defaults

    def update_topic_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Use new overrides for all logs of `topic`."""
        # Under the lock, so that no log is being made with the overrides from before.
        with self._table.lock:
            config = self._configs.update(topic, overrides)
            logs = self.logs_by_topic(topic)
        for log in logs:
            self._update_config(log, config)

    def update_default_config(self, config: LogConfig) -> None:
        """Use new broker defaults, under the overrides of each topic."""
        self._deletions.delay_ms = config.file_delete_delay_ms
        with self._table.lock:
            self._configs.set_defaults(config)
            logs = self.all_logs()
        for log in logs:
            self._update_config(log, self._configs.get(log.topic_partition.topic))

    def _update_config(self, log: PartitionLog, config: LogConfig) -> None:
        ends_compaction = log.config.compact and not config.compact
        log.update_config(config)
        if ends_compaction and self.cleaner is not None and not log.is_future:
            self.cleaner.manager.abort(log.topic_partition)

    def update_producer_config(self, *, expiration_ms: int, verification: bool) -> None:
        """`producer.id.expiration.ms` and `transaction.partition.verification.enable`, for all logs at once."""
        self._producer_config.producer_id_expiration_ms = expiration_ms
        self._producer_config.transaction_verification_enable = verification

    def set_recovery_threads(self, count: int) -> None:
        """`num.recovery.threads.per.data.dir`, for the next time that logs are loaded or closed."""
        self.settings = replace(self.settings, recovery_threads_per_dir=count)


def _absolute(log_dirs: Iterable[str]) -> list[str]:
    paths = [os.path.abspath(path) for path in log_dirs]
    if not paths:
        raise ValueError("at least one log directory is needed")
    if len(set(paths)) != len(paths):
        raise ValueError(f"a log directory is named twice: {', '.join(paths)}")
    return paths
