"""Loading and closing all partitions of a log directory, several at a time; progress is told when recovery is long."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from log.errors import LogError
from log.files.names import LOG_SUFFIX, parse_dir_name
from log.management.loader import LoadOptions
from log.management.log_dir import LogDir
from log.partition_log import PartitionLog

if TYPE_CHECKING:
    from timer.clock import Clock

logger = logging.getLogger(__name__)

PROGRESS_INTERVAL_MS = 5_000


@dataclass
class LoadProgress:
    """How far the loading of one log directory is. Counts are of this run; bytes are those to be recovered."""

    directory: str
    clock: Clock
    logs_total: int = 0
    logs_done: int = 0
    bytes_total: int = 0
    bytes_done: int = 0
    segments_left: dict[int, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _last_line_ms: int = 0

    def start(self) -> None:
        self._last_line_ms = self.clock.monotonic_ms()

    @property
    def logs_left(self) -> int:
        return self.logs_total - self.logs_done

    def recovering(self, thread: int, segments_left: int, new_bytes: int) -> None:
        with self._lock:
            self.segments_left[thread] = segments_left
            self.bytes_done += new_bytes
        self._maybe_tell()

    def log_done(self) -> None:
        with self._lock:
            self.logs_done += 1
        self._maybe_tell()

    def _maybe_tell(self) -> None:
        now = self.clock.monotonic_ms()
        with self._lock:
            if now - self._last_line_ms < PROGRESS_INTERVAL_MS:
                return
            self._last_line_ms = now
        logger.info("loading %s: %s", self.directory, self.describe())

    def describe(self) -> str:
        logs = f"{self.logs_done} of {self.logs_total} logs"
        if not self.bytes_total:
            return logs
        percent = 100 * min(self.bytes_done, self.bytes_total) // self.bytes_total
        return f"{logs}; recovered {percent}% of {self.bytes_total} bytes"


Open = Callable[[str, LoadOptions], PartitionLog]


def load_log_dir(log_dir: LogDir, threads: int, open_one: Open, progress: LoadProgress) -> list[PartitionLog]:
    """Open every partition directory of `log_dir`. The marker of a clean stop is taken away first.

    Raises `OSError` and `StorageError` if the disk fails, `LogError` for a directory that is no partition.
    """
    clean = log_dir.take_clean_shutdown_marker()
    recovery_points = log_dir.recovery_points.read()
    log_starts = log_dir.log_start_offsets.read()
    directories = log_dir.partition_directories()
    for directory in directories:
        parse_dir_name(os.path.basename(directory))
    progress.logs_total = len(directories)
    progress.start()
    if not clean and directories:
        logger.info("%s was not shut down cleanly: recovering its logs", log_dir.path)
        progress.bytes_total = sum(_log_bytes(directory) for directory in directories)

    def load(item: tuple[int, str]) -> PartitionLog:
        number, directory = item
        tp = parse_dir_name(os.path.basename(directory))[0]
        done = 0

        def on_progress(segments_left: int, bytes_done: int) -> None:
            nonlocal done
            progress.recovering(number % threads, segments_left, bytes_done - done)
            done = bytes_done

        options = LoadOptions(
            log_start_offset=log_starts.get(tp, 0),
            recovery_point=recovery_points.get(tp, 0),
            clean=clean,
            on_progress=on_progress,
        )
        log = open_one(directory, options)
        progress.log_done()
        return log

    if threads == 1 or len(directories) < 2:
        logs = [load(item) for item in enumerate(directories)]
    else:
        with ThreadPoolExecutor(threads, thread_name_prefix="log-recovery") as pool:
            logs = list(pool.map(load, enumerate(directories)))
    log_dir.loading_finished = True
    logger.info("loaded %d logs from %s", len(logs), log_dir.path)
    return logs


def close_logs(logs: Sequence[PartitionLog], threads: int) -> bool:
    """Flush and close all logs, as a clean stop does; False if one failed."""
    if threads == 1:
        closed = [_close_log(log) for log in logs]
    else:
        with ThreadPoolExecutor(threads, thread_name_prefix="log-closing") as pool:
            closed = list(pool.map(_close_log, logs))
    return all(closed)


def _close_log(log: PartitionLog) -> bool:
    try:
        log.flush(force_active=True)
        log.take_producer_snapshot()
        log.close()
    except (LogError, OSError):
        logger.exception("%s: could not be closed cleanly", log.topic_partition)
        return False
    return True


def _log_bytes(directory: str) -> int:
    with os.scandir(directory) as entries:
        return sum(entry.stat().st_size for entry in entries if entry.is_file() and entry.name.endswith(LOG_SUFFIX))
