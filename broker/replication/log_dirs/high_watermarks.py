"""`replication-offset-checkpoint`: the high watermark from which a replica starts after a restart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from log.errors import StorageError
from log.management.manager import LogManager
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition

if TYPE_CHECKING:
    from broker.replication.partition import Partition


class HighWatermarkCheckpoints:
    """One file a log directory, read once and written every few seconds.

    The file as found at start-up is kept until this broker writes its own: a partition that is created later than
    another one still finds its entry, and entries of partitions that this broker has not been told about yet stay.
    A directory whose file cannot be read or written fails.
    """

    def __init__(self, log_manager: LogManager) -> None:
        self._log_manager = log_manager
        self._found: dict[str, Mapping[TopicPartition, int]] = {}

    def initial(self, log: PartitionLog, tp: TopicPartition) -> int:
        """The checkpointed high watermark of a log, 0 if it has none; the log clamps it to its own bounds."""
        directory = log.parent_dir
        found = self._found.get(directory)
        if found is None:
            checkpoint = self._log_manager.high_watermark_checkpoints.get(directory)
            try:
                found = {} if checkpoint is None else checkpoint.read()
            except StorageError as error:
                self._log_manager.report_failure(directory, str(error))
                found = {}
            self._found[directory] = found
        return found.get(tp, 0)

    def write(self, partitions: Iterable[Partition]) -> None:
        """Write the high watermarks of all online partitions, each to the directory its log is in."""
        by_directory: dict[str, dict[TopicPartition, int]] = {
            directory: {} for directory in self._log_manager.high_watermark_checkpoints
        }
        for partition in partitions:
            for log in (partition.log, partition.future_log):
                if log is not None:
                    directory = log.parent_dir
                    if directory in by_directory:
                        by_directory[directory][partition.topic_partition] = log.high_watermark
        self._keep_unannounced(by_directory)
        for directory, offsets in by_directory.items():
            checkpoint = self._log_manager.high_watermark_checkpoints.get(directory)
            if checkpoint is None:
                continue
            try:
                checkpoint.write(offsets)
            except StorageError as error:
                self._log_manager.report_failure(directory, str(error))

    def _keep_unannounced(self, by_directory: dict[str, dict[TopicPartition, int]]) -> None:
        # A log whose LeaderAndIsr has not come yet must not lose its entry to a crash in between.
        for directory, found in self._found.items():
            offsets = by_directory.get(directory)
            if offsets is None:
                continue
            for tp, offset in found.items():
                if tp not in offsets and self._has_log(tp, directory):
                    offsets[tp] = offset

    def _has_log(self, tp: TopicPartition, directory: str) -> bool:
        logs = (self._log_manager.get_log(tp), self._log_manager.get_log(tp, is_future=True))
        return any(log is not None and log.parent_dir == directory for log in logs)
