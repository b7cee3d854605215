"""Moves of logs between log directories: where a partition is wanted, and the exchange of a log for its copy.

The copy is a "future" log, in a directory named `topic-partition.<32 hex>-future`. While it is made, the cleaner stays
off the log: what is copied must not change underneath.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from log.cleaner.manager import CleanerManager
from log.errors import LogDirNotFoundError, StorageError
from log.files.names import DirectoryKind, current_dir_name, renamed_dir_name
from log.management.deletion import DeletionQueue
from log.management.log_metrics import LogMetrics
from log.management.log_table import LogTable
from log.management.maintenance import LogMaintenance
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition
from timer.chance import Chance

logger = logging.getLogger(__name__)


class LogMoves:
    """`live_dirs` gives the paths of the log directories in use; `cleaner` is None if there is none."""

    def __init__(
        self,
        table: LogTable,
        live_dirs: Callable[[], list[str]],
        maintenance: LogMaintenance,
        deletions: DeletionQueue,
        metrics: LogMetrics,
        cleaner: CleanerManager | None,
        chance: Chance,
    ) -> None:
        self._table = table
        self._live_dirs = live_dirs
        self._maintenance = maintenance
        self._deletions = deletions
        self._metrics = metrics
        self._cleaner = cleaner
        self._chance = chance
        self._preferred: dict[TopicPartition, str] = {}

    # ---- the wanted directory

    def prefer(self, tp: TopicPartition, path: str) -> None:
        """Note where AlterReplicaLogDirs wants `tp`; not noted if a log of `tp` is there already."""
        path = os.path.abspath(path)
        if path not in self._live_dirs():
            raise LogDirNotFoundError(f"{path} is not a live log directory of this broker")
        with self._table.lock:
            for log in (self._table.get(tp), self._table.get(tp, is_future=True)):
                if log is not None and log.parent_dir == path:
                    return
            self._preferred[tp] = path

    def preferred_dir(self, tp: TopicPartition) -> str | None:
        return self._preferred.get(tp)

    def satisfied(self, tp: TopicPartition) -> None:
        """A log has been made where it was wanted, or the partition has gone."""
        self._preferred.pop(tp, None)

    def check_future(self, tp: TopicPartition) -> None:
        """Raises `LogDirNotFoundError` if there is nowhere to move `tp` to."""
        preferred = self._preferred.get(tp)
        current = self._table.get(tp)
        if preferred is None:
            raise LogDirNotFoundError(f"no log directory is asked for to move {tp} to")
        if current is not None and current.parent_dir == preferred:
            raise LogDirNotFoundError(f"{tp} is in {preferred} already")

    # ---- the cleaner

    def pause_cleaning(self, tp: TopicPartition) -> None:
        """Before a future log is made, or when one was found at start."""
        if self._cleaner is not None:
            self._cleaner.abort_and_pause(tp)

    def resume_cleaning(self, tp: TopicPartition) -> None:
        """The future log has become the current one, or is given up."""
        if self._cleaner is not None:
            self._cleaner.resume(tp)

    # ---- the exchange

    def replace_current(self, tp: TopicPartition) -> PartitionLog:
        """The future log has caught up: it becomes the log, and the old one is deleted. Returns the new log.

        The caller sees to it that nothing is appended meanwhile. The new name is durable before the old log goes, so
        that no crash leaves the partition without a log; one in between leaves it with two. Raises `StorageError`: if
        the new directory fails nothing has changed, if the old one fails the exchange has happened.
        """
        with self._table.lock:
            source = self._table.current.get(tp)
            future = self._table.future.get(tp)
            if future is None:
                raise StorageError(f"{tp}: there is no future log")
            future_tags = self._metrics.tags_of(future)
            future.rename_dir(current_dir_name(tp))
            self._metrics.remove_tags(future_tags)
            if source is not None:
                future.update_high_watermark(source.high_watermark)
                self._metrics.remove_log(source)
            self._table.replace_current(tp)
            self._metrics.add_log(future)
        self._move_cleaning(tp, source, future)
        self._maintenance.checkpoint(future.parent_dir)
        if source is not None:
            self._retire(source)
        logger.info("%s: the log is in %s now", tp, future.directory)
        return future

    def _move_cleaning(self, tp: TopicPartition, source: PartitionLog | None, target: PartitionLog) -> None:
        if self._cleaner is not None:
            if source is not None:
                self._cleaner.move_position(tp, source.parent_dir, target.parent_dir)
            self._cleaner.resume(tp)

    def _retire(self, source: PartitionLog) -> None:
        try:
            source.rename_dir(renamed_dir_name(source.topic_partition, DirectoryKind.DELETE, self._chance))
        finally:
            # If its directory has just failed nobody else closes it: it is in no table any more.
            source.close_handles()
        self._deletions.add(source)
        self._maintenance.checkpoint(source.parent_dir)
