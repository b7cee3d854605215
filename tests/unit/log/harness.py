"""One log in a temporary directory, under a manual clock and scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from log.append_info import LogAppendInfo
from log.appends import append_as_leader
from log.config import LogConfig
from log.fetch_data import FetchIsolation
from log.files.segment import LogSegment
from log.local_log import LogEnvironment
from log.management.loader import LoadOptions, open_log
from log.partition_log import PartitionLog
from log.records.record import Record, iter_records
from log.records.validation import AppendOrigin, check_for_follower
from log.topic_partition import TopicPartition
from tests.support.batches import build_batch
from timer.chance import SeededChance
from timer.clock import ManualClock
from timer.scheduler import ManualScheduler

TP = TopicPartition("topic", 0)
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200, segment_index_bytes=1200)


class Harness:
    """`directory` is the log directory; the partition's is in it."""

    def __init__(self, directory: Path, config: LogConfig = SMALL) -> None:
        self.directory = directory
        self.config = config
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.failures: list[str] = []
        self.env = LogEnvironment(
            self.clock,
            self.scheduler,
            on_io_error=lambda directory, message, error: self.failures.append(f"{directory}: {message}: {error}"),
            chance=SeededChance(1),
        )

    @property
    def partition_dir(self) -> Path:
        return self.directory / f"{TP.topic}-{TP.partition}"

    def open(self, *, clean: bool = True, log_start_offset: int = 0, recovery_point: int = 0) -> PartitionLog:
        options = LoadOptions(log_start_offset=log_start_offset, recovery_point=recovery_point, clean=clean)
        return open_log(str(self.partition_dir), self.config, self.env, options)

    def stop(self, log: PartitionLog) -> None:
        """What the manager does with a log at a clean stop."""
        log.flush(force_active=True)
        log.take_producer_snapshot()
        log.close()

    def tick(self, ms: int = 0) -> None:
        self.clock.advance(ms)
        self.scheduler.tick()


def batch(*values: bytes, timestamp: int = 1_700_000_000_000, key: bytes | None = b"k", **options: Any) -> bytearray:
    return build_batch([Record(i, timestamp, key, value) for i, value in enumerate(values)], **options)


def append(log: PartitionLog, *values: bytes, epoch: int = 0, **options: Any) -> LogAppendInfo:
    return append_as_leader(log, batch(*values, **options), epoch, AppendOrigin.CLIENT)


def contents(
    log: PartitionLog,
    start: int | None = None,
    max_length: int = 1 << 20,
    isolation: FetchIsolation = FetchIsolation.LOG_END,
) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record from `start` on, read as a consumer does."""
    found: list[tuple[int, bytes | None]] = []
    offset = log.log_start_offset if start is None else start
    wanted = offset
    while offset < log.log_end_offset:
        info = log.read(offset, max_length, isolation, min_one_message=True)
        data = info.records.read()
        info.records.release()
        batches = check_for_follower(data).batches
        if not batches:
            break
        for one in batches:
            found.extend((r.offset, r.value) for r in iter_records(one) if r.offset >= wanted)
        offset = batches[-1].last_offset + 1
    return found


def segment_bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def index_entries(segment: LogSegment) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    return (
        [tuple(segment.offset_index.entry(i)) for i in range(segment.offset_index.entries)],  # type: ignore[misc]
        [tuple(segment.time_index.entry(i)) for i in range(segment.time_index.entries)],  # type: ignore[misc]
    )
