"""Metrics of logs and log directories, under Kafka's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from timer.metrics import Metrics

if TYPE_CHECKING:
    from log.management.log_dir_loading import LoadProgress
    from log.partition_log import PartitionLog

GROUP = "kafka.log"
_NAMES = ("NumLogSegments", "LogStartOffset", "LogEndOffset", "Size")


class LogMetrics:
    """Registers the gauges of one log manager."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

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
        self._metrics.gauges_together(GROUP, "Log", _NAMES, partial(_values, log), **_tags(log))

    def remove_log(self, log: PartitionLog) -> None:
        self.remove_tags(self.tags_of(log))

    def tags_of(self, log: PartitionLog) -> dict[str, str]:
        """The tags of its gauges as long as its directory has its present name."""
        return _tags(log)

    def remove_tags(self, tags: Mapping[str, str]) -> None:
        for name in _NAMES:
            self._metrics.remove(GROUP, "Log", name, **tags)


def _values(log: PartitionLog) -> tuple[float, ...]:
    """In the order of `_NAMES`; a scrape reads them for every log."""
    local = log.local
    segments = local.segments
    return len(segments), log.log_start_offset, local.end.message_offset, segments.size_in_bytes


def _segments_left(progress: LoadProgress, thread: int) -> float:
    return progress.segments_left.get(thread, 0)


def _is_offline(path: str, offline: Callable[[], list[str]]) -> float:
    return float(path in offline())


def _tags(log: PartitionLog) -> dict[str, str]:
    tags = {"topic": log.topic_partition.topic, "partition": str(log.topic_partition.partition)}
    if log.is_future:
        tags["is-future"] = "true"
    return tags
