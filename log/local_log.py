"""The files of one log: segments that are appended to, read, rolled, flushed, cut and deleted.

This is the lower half of `PartitionLog`: it knows nothing of high watermarks, epochs or producers. Methods that change
something are called under the partition log's lock; `read` needs none.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from log.background import BackgroundWrites
from log.config import LogConfig
from log.errors import LogError, OffsetOutOfRangeError
from log.fetch_data import EMPTY_RANGE, FetchDataInfo
from log.files.checkpoint import fsync_directory
from log.files.file_range import DEFAULT_OPEN_FILES, OpenFileBound
from log.files.names import DELETED_SUFFIX
from log.files.offset_index import OffsetPosition
from log.files.segment import LogSegment, delete_segment_files
from log.files.segments import LogSegments
from log.files.txn_index import AbortedTxn
from log.offset_metadata import LogOffsetMetadata
from log.topic_partition import TopicPartition
from timer.metrics import NULL_METRICS, Metrics
from timer.news import News

if TYPE_CHECKING:
    from timer.chance import Chance
    from timer.clock import Clock
    from timer.scheduler import Scheduler

logger = logging.getLogger(__name__)


class LogEnvironment:
    """What all logs of a broker share: time, background work, the bound on open files, and whom to tell of I/O errors.

    `on_io_error(log_dir, message, error)` takes a log directory offline.
    """

    def __init__(
        self,
        clock: Clock,
        scheduler: Scheduler,
        *,
        chance: Chance,
        bound: OpenFileBound | None = None,
        on_io_error: Callable[[str, str, OSError], None] | None = None,
        metrics: Metrics = NULL_METRICS,
    ) -> None:
        self.clock = clock
        self.scheduler = scheduler
        self.writes = BackgroundWrites(scheduler)
        self.bound = bound if bound is not None else OpenFileBound(DEFAULT_OPEN_FILES)
        self.on_io_error = on_io_error
        self.flush_times = metrics.histogram("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs")
        self.chance = chance
        self.faults = News(clock)
        """What goes wrong again and again without taking a directory offline: for the log."""

    def jitter_ms(self, config: LogConfig) -> int:
        """How much earlier than `segment.ms` a new segment rolls, drawn once per segment."""
        limit = min(config.segment_jitter_ms, config.segment_ms)
        return self.chance.randrange(limit) if limit > 0 else 0


def open_segment(
    directory: str, base_offset: int, config: LogConfig, env: LogEnvironment, *, create: bool = False
) -> LogSegment:
    """A segment of the files in `directory`, or of new ones."""
    return LogSegment(
        directory,
        base_offset,
        config,
        env.clock.wall_ms(),
        create=create,
        jitter_ms=env.jitter_ms(config),
        bound=env.bound,
    )


class LocalLog:
    """Segments, log end offset and recovery point of one partition directory."""

    __slots__ = (
        "config",
        "directory",
        "end",
        "env",
        "last_flushed_ms",
        "recovery_point",
        "segments",
        "topic_partition",
    )

    def __init__(
        self,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        segments: LogSegments,
        recovery_point: int,
        next_offset: LogOffsetMetadata,
        env: LogEnvironment,
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.config = config
        self.segments = segments
        self.recovery_point = recovery_point
        self.end = next_offset
        self.env = env
        self.last_flushed_ms = env.clock.wall_ms()

    # ---- facts

    @property
    def parent_dir(self) -> str:
        return os.path.dirname(self.directory)

    @property
    def name(self) -> str:
        return os.path.basename(self.directory)

    @property
    def log_end_offset(self) -> int:
        return self.end.message_offset

    @property
    def unflushed_messages(self) -> int:
        return self.end.message_offset - self.recovery_point

    def update_log_end_offset(self, offset: int) -> None:
        active = self.segments.active
        self.end = LogOffsetMetadata(offset, active.base_offset, active.size)
        if self.recovery_point > offset:
            self.recovery_point = offset

    # ---- appending

    def append(
        self,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        offset_of_max_timestamp: int,
        records: bytes | bytearray | memoryview,
    ) -> None:
        """Write to the active segment and move the log end offset behind `last_offset`. Raises `OSError`."""
        active = self.segments.active
        active.append(first_offset, last_offset, max_timestamp, offset_of_max_timestamp, records)
        self.end = LogOffsetMetadata(last_offset + 1, active.base_offset, active.records.size)

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """Seal the active segment and start a new one at max(`expected_next_offset`, log end offset).

        If the active segment is empty and has that base offset already, its files are made anew. Raises `LogError` if
        another segment has that base offset or a higher one.
        """
        base_offset = max(expected_next_offset, self.log_end_offset)
        active = self.segments.active
        existing = self.segments.get(base_offset)
        if existing is not None:
            if active.base_offset != base_offset or active.size:
                raise LogError(
                    f"{self.topic_partition}: cannot roll to {base_offset}: a segment with this base offset exists"
                )
            logger.warning("%s: recreating the empty active segment %d", self.topic_partition, base_offset)
            self.remove_and_delete([existing], asynchronously=False, reason="roll of an empty segment")
        elif base_offset < active.base_offset:
            raise LogError(
                f"{self.topic_partition}: cannot roll to {base_offset}, below the active segment {active.base_offset}"
            )
        else:
            active.become_inactive()
        delete_segment_files(self.directory, base_offset)
        segment = self.new_segment(base_offset)
        self.segments.add(segment)
        self.end = LogOffsetMetadata(self.log_end_offset, base_offset, 0)
        return segment

    def new_segment(self, base_offset: int) -> LogSegment:
        """Create the files of an empty segment; it is not in the map yet."""
        return open_segment(self.directory, base_offset, self.config, self.env, create=True)

    # ---- reading

    def read(
        self,
        start_offset: int,
        max_length: int,
        limit: LogOffsetMetadata,
        *,
        min_one_message: bool,
        include_aborted: bool,
    ) -> FetchDataInfo:
        """Read below `limit` from `start_offset` on, within one segment. Raises `OffsetOutOfRangeError`."""
        end = self.end
        segments = self.segments
        segment = segments.floor(start_offset)
        if start_offset > end.message_offset or segment is None:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition}: offset {start_offset} is out of range; the log has segments from "
                f"{segments.first_base_offset} to {end.message_offset}"
            )
        if start_offset == limit.message_offset:
            return _nothing(limit, include_aborted)
        if start_offset > limit.message_offset:
            return _nothing(self.offset_metadata(start_offset), include_aborted)
        if limit.segment_base_offset < 0:
            limit = self.offset_metadata(limit.message_offset)
        while segment is not None:
            base = segment.base_offset
            if base < limit.segment_base_offset:
                max_position = segment.records.size
            elif base == limit.segment_base_offset:
                max_position = limit.relative_position
            else:
                break
            found = segment.read(start_offset, max_length, max_position, min_one_message=min_one_message)
            if found is not None:
                info = FetchDataInfo(
                    LogOffsetMetadata(start_offset, base, found.position), found.records, found.first_entry_incomplete
                )
                if include_aborted:
                    info.aborted_transactions = self._aborted(start_offset, segment, found.position, found.records.size)
                return info
            segment = segments.higher(base)
        # Everything from start_offset on has been compacted away, or lies behind the limit.
        return _nothing(end if segment is None else LogOffsetMetadata(start_offset), include_aborted)

    def _aborted(self, start_offset: int, segment: LogSegment, position: int, size: int) -> Sequence[AbortedTxn]:
        upper = segment.upper_bound_offset(OffsetPosition(start_offset, position), size)
        if upper is None:
            following = self.segments.higher(segment.base_offset)
            upper = self.log_end_offset if following is None else following.base_offset
        return self.collect_aborted(start_offset, upper, segment)

    def collect_aborted(self, start_offset: int, upper: int, segment: LogSegment | None) -> list[AbortedTxn]:
        """Entries of the transaction indexes from `segment` on that overlap [start_offset, upper)."""
        found: list[AbortedTxn] = []
        while segment is not None:
            aborted, complete = segment.aborted_txns(start_offset, upper)
            found.extend(aborted)
            if complete:
                break
            segment = self.segments.higher(segment.base_offset)
        return found

    def offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """The place of `offset`; without one if it is beyond the log end or before the first segment."""
        end = self.end
        if offset == end.message_offset:
            return end
        segment = self.segments.floor(offset)
        inside = segment is not None and offset < end.message_offset
        while segment is not None:
            position = segment.position_of(offset)
            if position is not None:
                return LogOffsetMetadata(offset, segment.base_offset, position)
            segment = self.segments.higher(segment.base_offset)
        # Offsets may be missing right before the log end; what would stand there ends where the log does.
        return end._replace(message_offset=offset) if inside else LogOffsetMetadata(offset)

    # ---- flushing

    def flush(self, offset: int) -> None:
        """fsync every segment with data between the recovery point and `offset`. Raises `OSError`."""
        flushed = self.segments.between(self.recovery_point, offset)
        new_name = False
        for segment in flushed:
            try:
                new_name |= self._timed_flush(segment) and segment.base_offset >= self.recovery_point
            except FileNotFoundError:
                # Retention or a truncation may have removed it meanwhile; then there is nothing to keep.
                if self.segments.get(segment.base_offset) is segment:
                    raise
        if new_name:
            fsync_directory(self.directory)

    def _timed_flush(self, segment: LogSegment) -> bool:
        clock = self.env.clock
        started = clock.monotonic_ns()
        wrote = segment.flush()
        self.env.flush_times.update((clock.monotonic_ns() - started) / 1_000_000)
        return wrote

    def mark_flushed(self, offset: int) -> None:
        if offset > self.recovery_point:
            self.recovery_point = offset
            self.last_flushed_ms = self.env.clock.wall_ms()

    # ---- cutting and deleting

    def truncate_to(self, offset: int) -> list[LogSegment]:
        """Drop everything from `offset` on; returns the segments that left the map (deleted in the background)."""
        doomed = [segment for segment in self.segments if segment.base_offset > offset]
        self.remove_and_delete(doomed, asynchronously=True, reason=f"truncation to {offset}")
        active = self.segments.active
        active.truncate_to(offset)
        active.become_active()
        self.update_log_end_offset(offset)
        return doomed

    def truncate_fully_and_start_at(self, offset: int) -> list[LogSegment]:
        """Drop everything and go on with one empty segment at `offset`; returns the segments that left the map."""
        doomed = list(self.segments)
        self.remove_and_delete(doomed, asynchronously=True, reason=f"full truncation to {offset}")
        delete_segment_files(self.directory, offset)
        segment = self.new_segment(offset)
        segment.records.unused = False  # what it takes the place of may be on the disk
        self.segments.add(segment)
        self.update_log_end_offset(offset)
        return doomed

    def remove_and_delete(self, segments: Sequence[LogSegment], *, asynchronously: bool, reason: str) -> None:
        """Take `segments` out of the map and delete their files, in the background after `file.delete.delay.ms`."""
        if not segments:
            return
        logger.info("%s: deleting segments %s: %s", self.topic_partition, [s.base_offset for s in segments], reason)
        for segment in segments:
            self.segments.remove(segment.base_offset)
        self.delete_files(segments, asynchronously=asynchronously)

    def delete_files(self, segments: Sequence[LogSegment], *, asynchronously: bool) -> None:
        """Delete the files of segments that are not in the map any more."""
        if not asynchronously:
            for segment in segments:
                segment.delete_files()
            return
        for segment in segments:
            segment.change_suffix(DELETED_SUFFIX)
            # A deleted segment goes on to serve the ranges that are out; its indexes have no more use.
            segment.close_handles()

        def delete() -> None:
            try:
                for segment in segments:
                    segment.delete_files()
            except OSError as error:
                self.io_error(f"deleting segments of {self.topic_partition}", error)

        self.env.scheduler.schedule_once("delete-file", delete, self.config.file_delete_delay_ms)

    def io_error(self, message: str, error: OSError) -> None:
        """Report a failing disk."""
        logger.error("%s: I/O error while %s: %s", self.parent_dir, message, error)
        if self.env.on_io_error is not None:
            self.env.on_io_error(self.parent_dir, message, error)

    def renamed(self, directory: str) -> None:
        """The directory has been renamed to `directory`."""
        self.directory = directory
        for segment in self.segments:
            segment.moved(directory)

    def delete_directory(self) -> None:
        """Remove the partition directory and everything in it."""
        self.close_handles()
        shutil.rmtree(self.directory)
        fsync_directory(self.parent_dir)

    def close(self) -> None:
        for segment in self.segments:
            segment.close()

    def close_handles(self) -> None:
        for segment in self.segments:
            segment.close_handles()


def _nothing(at: LogOffsetMetadata, include_aborted: bool) -> FetchDataInfo:
    return FetchDataInfo(at, EMPTY_RANGE, aborted_transactions=[] if include_aborted else None)
