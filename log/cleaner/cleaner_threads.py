"""The cleaner threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from log.cleaner.cleanable import LogToClean
from log.cleaner.cleaning_pass import Cleaner, Run, run_here
from log.cleaner.manager import CleanerManager
from log.cleaner.process import MIN_BYTES, CleaningProcess, CleaningProcessDiedError
from log.cleaner.survivors import CleanerStats
from log.errors import LogCleaningAbortedError, LogError, StorageError
from log.management.retention import delete_old_segments
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition
from timer.clock import Clock
from timer.metrics import NULL_METRICS, Metrics
from timer.worker import OnError, Worker, Workers

logger = logging.getLogger(__name__)

MIN_MAP_BYTES_PER_THREAD = 1024 * 1024
MAX_MAP_BYTES_PER_THREAD = 2**31 - 1
_THROTTLE_INTERVAL_MS = 300
SHUTDOWN_MS = 30_000


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    """Broker settings of the cleaner (`log.cleaner.*`), with Kafka's defaults. Bytes and milliseconds.

    `own_process`: logs are cleaned by a process of each thread's own.
    """

    threads: int = 1
    dedupe_buffer_size: int = 134_217_728
    io_buffer_size: int = 524_288
    io_buffer_load_factor: float = 0.9
    max_io_bytes_per_second: float = float("inf")
    backoff_ms: int = 15_000
    own_process: bool = False

    @property
    def map_bytes_per_thread(self) -> int:
        """The offset map's memory of one thread."""
        return min(self.dedupe_buffer_size // max(1, self.threads), MAX_MAP_BYTES_PER_THREAD)

    def check(self) -> None:
        """Raises ValueError when the threads would get too little memory."""
        if self.threads < 0:
            raise ValueError("log.cleaner.threads must not be negative")
        if self.threads and self.dedupe_buffer_size // self.threads < MIN_MAP_BYTES_PER_THREAD:
            raise ValueError("log.cleaner.dedupe.buffer.size must be at least 1048576 for each of log.cleaner.threads")


class Throttler:
    """Keeps all threads together below a rate in bytes a second, by making them wait."""

    def __init__(self, rate: float, clock: Clock, metrics: Metrics = NULL_METRICS) -> None:
        self.rate = rate
        self._clock = clock
        self._meter = metrics.meter("kafka.utils", "Throttler", "cleaner-io")
        self._condition = threading.Condition()
        self._since_ms = clock.monotonic_ms()
        self._bytes = 0

    def __call__(self, size: int) -> None:
        """Counts `size` bytes, and waits when the rate of the last 300 ms or more was too high."""
        self._meter.mark(size)
        if self.rate == float("inf"):
            return
        with self._condition:
            self._bytes += size
            now = self._clock.monotonic_ms()
            elapsed = now - self._since_ms
            due = self._bytes / self.rate * 1000
            if elapsed < _THROTTLE_INTERVAL_MS and due < _THROTTLE_INTERVAL_MS:
                return
            if due > elapsed:
                self._clock.wait(self._condition, due - elapsed)
            self._since_ms = self._clock.monotonic_ms()
            self._bytes = 0

    def wake(self) -> None:
        """Ends all waiting, at shutdown."""
        with self._condition:
            self._condition.notify_all()


class LogCleaner:
    """Cleans compacted logs in the background; `step` is one round of one thread, so that a simulation can drive it.

    `on_io_error(log_dir, message)` takes a directory offline.
    """

    def __init__(
        self,
        logs: Callable[[], Iterable[PartitionLog]],
        log_dirs: Callable[[], Iterable[str]],
        clock: Clock,
        config: CleanerConfig = CleanerConfig(),
        metrics: Metrics = NULL_METRICS,
        on_io_error: Callable[[str, str], None] = lambda directory, message: None,
        on_step: Callable[[str], None] = lambda step: None,
        workers: Workers | None = None,
    ) -> None:
        config.check()
        self.config = config
        self.manager = CleanerManager(logs, clock, on_io_error)
        self._log_dirs = log_dirs
        self._clock = clock
        self._metrics = metrics
        self._on_io_error = on_io_error
        self._on_step = on_step
        self._throttler = Throttler(config.max_io_bytes_per_second, clock, metrics)
        self._registry = workers
        self._running = False
        self._workers: list[Worker] = []
        # Lock-free: each thread has its own entry.
        self._processes: dict[int, CleaningProcess] = {}
        self._last_stats: dict[int, CleanerStats] = {}

    # ---- life

    def startup(self) -> None:
        """Starts the threads and creates the checkpoint files."""
        for log_dir in self._log_dirs():
            try:
                self.manager.checkpoint_of(log_dir)
            except LogError as error:
                self._on_io_error(log_dir, str(error))
        self._running = True
        for number in range(self.config.threads):
            # One that dies of an unexpected error stays dead, and the metric tells.
            worker = Worker(
                f"kafka-log-cleaner-thread-{number}",
                partial(self.step, number),
                self._clock,
                on_error=OnError.END,
                workers=self._registry,
            )
            self._workers.append(worker)
            worker.start()
        self._register_metrics()

    def shutdown(self) -> None:
        """Stops the threads; a cleaning in progress is given up at its next batch."""
        self._running = False
        for worker in self._workers:
            worker.request_stop()
        self._throttler.wake()
        for worker in self._workers:
            worker.join(SHUTDOWN_MS)
        self._workers.clear()
        for number in list(self._processes):
            self._end_process(number)

    def reconfigure(self, config: CleanerConfig) -> None:
        """Takes over other settings, by new threads. Raises ValueError."""
        config.check()
        running = self._running
        if running:
            self.shutdown()
        self.config = config
        self._throttler.rate = config.max_io_bytes_per_second
        if running:
            self.startup()

    @property
    def dead_threads(self) -> int:
        """How many threads have died."""
        return sum(worker.is_dead for worker in self._workers)

    # ---- work

    def step(self, number: int = 0) -> float:
        """Cleans the log that needs it most, if one does, and applies retention to compacted logs.

        Returns 0 when a log was cleaned, so that another may be due, else `log.cleaner.backoff.ms`.
        """
        cleaned = self._clean_one(number)
        if not cleaned:
            self._end_process(number)
        deletable = self.manager.grab_deletable()
        try:
            for log in deletable:
                try:
                    delete_old_segments(log)
                except LogError:
                    logger.exception("%s: retention failed", log.topic_partition)
        finally:
            self.manager.done_deleting(deletable)
        return 0 if cleaned else self.config.backoff_ms

    def _clean_one(self, number: int) -> bool:
        target = self.manager.grab_filthiest()
        if target is None:
            return False
        log = target.log
        end: int | None = None
        try:
            end, stats = self._clean(number, target)
            stats.ended_ms = self._clock.wall_ms()
            self._last_stats[number] = stats
            self._report(target, end, stats)
            return True
        except LogCleaningAbortedError as error:
            logger.info("%s", error)
            return False
        except OSError as error:
            log.local.io_error(f"cleaning {log.topic_partition}", error)
            return False
        except StorageError as error:
            logger.error("%s: cleaning ends with its log directory: %s", log.topic_partition, error)
            return False
        except Exception:
            logger.exception("%s: cleaning failed; the log is left alone until the next start", log.topic_partition)
            self.manager.mark_uncleanable(log)
            return False
        finally:
            self.manager.done_cleaning(log, end)

    def _clean(self, number: int, target: LogToClean) -> tuple[int, CleanerStats]:
        now = self._clock.wall_ms()
        if self.config.own_process and target.total_bytes >= MIN_BYTES:
            process = self._processes.get(number)
            if process is None:
                process = self._processes[number] = CleaningProcess(self.config.max_io_bytes_per_second)
            try:
                return self._cleaner(process.run).clean(target, now)
            except CleaningProcessDiedError as error:
                # Anew, from a new plan: some of its segments may be in place already.
                logger.warning("%s: %s; this thread cleans the log instead", target.topic_partition, error)
        return self._cleaner(run_here).clean(target, now)

    def _end_process(self, number: int) -> None:
        """Memory of the process, and of its offset map, is for the time of its work."""
        process = self._processes.pop(number, None)
        if process is not None:
            process.close()

    def _cleaner(self, run: Run) -> Cleaner:
        config = self.config
        return Cleaner(
            config.map_bytes_per_thread,
            config.io_buffer_load_factor,
            max(4096, config.io_buffer_size // max(1, config.threads) // 2),
            self._check,
            self._throttler,
            self._on_step,
            run,
        )

    def _check(self, tp: TopicPartition) -> None:
        if self._workers and not self._running:
            raise LogCleaningAbortedError(f"the cleaning of {tp} ends with the cleaner")
        self.manager.check_not_aborted(tp)

    def _report(self, target: LogToClean, end: int, stats: CleanerStats) -> None:
        logger.info(
            "%s: clean from %d to %d: %d of %d records and %d of %d bytes kept, in %.1f s",
            target.topic_partition,
            target.first_dirty_offset,
            end,
            stats.messages_written,
            stats.messages_read,
            stats.bytes_written,
            stats.bytes_read,
            stats.elapsed_seconds,
        )
        if stats.invalid_messages:
            logger.warning("%s: %d records without a key are dropped", target.topic_partition, stats.invalid_messages)

    # ---- metrics

    def _register_metrics(self) -> None:
        gauge, stats, facts = self._metrics.gauge, self._last_stats, self.manager
        gauge(
            "kafka.log",
            "LogCleaner",
            "max-buffer-utilization-percent",
            lambda: int(100 * max((s.buffer_utilization for s in stats.values()), default=0.0)),
        )
        gauge("kafka.log", "LogCleaner", "cleaner-recopy-percent", self._recopy_percent)
        gauge(
            "kafka.log",
            "LogCleaner",
            "max-clean-time-secs",
            lambda: int(max((s.elapsed_seconds for s in stats.values()), default=0.0)),
        )
        gauge(
            "kafka.log",
            "LogCleaner",
            "max-compaction-delay-secs",
            lambda: facts.facts.max_compaction_delay_ms // 1000,
        )
        gauge("kafka.log", "LogCleaner", "DeadThreadCount", lambda: self.dead_threads)
        gauge("kafka.log", "LogCleanerManager", "max-dirty-percent", lambda: int(100 * facts.facts.max_dirty_ratio))
        gauge(
            "kafka.log",
            "LogCleanerManager",
            "time-since-last-run-ms",
            lambda: self._clock.wall_ms() - facts.facts.last_run_ms,
        )
        for log_dir in self._log_dirs():
            gauge(
                "kafka.log",
                "LogCleanerManager",
                "uncleanable-partitions-count",
                lambda log_dir=log_dir: facts.uncleanable_count(log_dir),  # type: ignore[misc]
                logDirectory=log_dir,
            )
            gauge(
                "kafka.log",
                "LogCleanerManager",
                "uncleanable-bytes",
                lambda log_dir=log_dir: facts.uncleanable_bytes(log_dir),  # type: ignore[misc]
                logDirectory=log_dir,
            )

    def _recopy_percent(self) -> float:
        read = sum(s.bytes_read for s in self._last_stats.values())
        written = sum(s.bytes_written for s in self._last_stats.values())
        return int(100 * written / read) if read else 0
