"""Metrics of logs and log directories, under Kafka's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from timer.metrics import Family, Metrics

if TYPE_CHECKING:
    from log.management.log_dir_loading import LoadProgress
    from log.partition_log import PartitionLog

GROUP = "kafka.log"
_TAGS = ("topic", "partition")
_NAMES = ("NumLogSegments", "LogStartOffset", "LogEndOffset", "Size")


class LogMetrics:
    """Registers the gauges of one log manager."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._logs = metrics.family(GROUP, "Log", _TAGS, _NAMES, _values)
        self._future_logs = metrics.family(GROUP, "Log", (*_TAGS, "is-future"), _NAMES, _values)

    def add_manager(self, directories: Iterable[str], offline: Callable[[], list[str]]) -> None:
        self._metrics.gauge(GROUP, "LogManager", "OfflineLogDirectoryCount", lambda: len(offline()))
        for path in directories:
            fn = partial(_is_offline, path, offline)
            self._metrics.gauge(GROUP, "LogManager", "LogDirectoryOffline", fn, logDirectory=path)

    def add_progress(self, progress: LoadProgress, threads: int) -> None:
        """What is left of the loading of a directory: logs, and segments of the log that each thread is at."""
        path = progress.directory
        self._metrics.gauge(GROUP, "LogManager", "remainingLogsToRecover", lambda: progress.logs_left, dir=path)
        for thread in range(threads):
            fn = partial(_segments_left, progress, thread)
            tags = {"dir": path, "threadNum": str(thread)}
            self._metrics.gauge(GROUP, "LogManager", "remainingSegmentsToRecover", fn, **tags)

    def add_log(self, log: PartitionLog) -> None:
        tags = self.tags_of(log)
        self._family_of(tags).add(log, *tags)

    def remove_log(self, log: PartitionLog) -> None:
        self.remove_tags(self.tags_of(log))

    def tags_of(self, log: PartitionLog) -> tuple[str, ...]:
        """The values of the tags of its gauges as long as its directory has its present name."""
        topic, partition = log.topic_partition
        return (topic, str(partition), "true") if log.is_future else (topic, str(partition))

    def remove_tags(self, tags: tuple[str, ...]) -> None:
        self._family_of(tags).remove(*tags)

    def _family_of(self, tags: tuple[str, ...]) -> Family[PartitionLog]:
        return self._logs if len(tags) == len(_TAGS) else self._future_logs


def _values(log: PartitionLog) -> tuple[float, ...]:
    """In the order of `_NAMES`; a scrape reads them for every log."""
    local = log.local
    segments = local.segments
    return len(segments), log.log_start_offset, local.end.message_offset, segments.size_in_bytes


def _segments_left(progress: LoadProgress, thread: int) -> float:
    return progress.segments_left.get(thread, 0)


def _is_offline(path: str, offline: Callable[[], list[str]]) -> float:
    return float(path in offline())
