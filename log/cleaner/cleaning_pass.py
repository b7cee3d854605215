"""One cleaning of one log: a map of the newest offset of each key, then every segment below the map's end again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from log.cleaner.cleanable import LogToClean
from log.cleaner.offset_map import OffsetMap
from log.cleaner.output import new_cleaned_segment, split_live_segment, write_batch
from log.cleaner.survivors import CleanerStats, LastRecord, RetentionRules
from log.cleaner.swap import replace_segments
from log.cleaner.transactions import CleanedTransactions
from log.config import LogConfig
from log.errors import LogCleaningAbortedError
from log.files.names import CLEANED_SUFFIX
from log.files.segment import MAX_RELATIVE_OFFSET, LogSegment, SegmentOffsetOverflowError, delete_segment_files
from log.partition_log import PartitionLog
from log.records.batch import RecordBatch
from log.records.compression import STORED_DECOMPRESSION_LIMIT
from log.records.old_formats import LegacyBatch, iter_entries
from log.records.record import iter_keys
from log.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class Cleaner:
    """Cleans logs with one offset map of `map_memory` bytes, filled up to `load_factor`.

    `check(tp)` raises LogCleaningAbortedError when the cleaning must stop; it is asked before every batch. `throttle`
    is told how many bytes are read or written, and may wait. A batch is the unit of work between two calls.
    """

    def __init__(
        self,
        map_memory: int,
        load_factor: float,
        io_buffer_size: int,
        check: Callable[[TopicPartition], None],
        throttle: Callable[[int], None],
        on_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._map_memory = map_memory
        self._load_factor = load_factor
        self._io_buffer_size = io_buffer_size
        self._check = check
        self._throttle = throttle
        self._on_step = on_step

    def clean(self, target: LogToClean, now_ms: int) -> tuple[int, CleanerStats]:
        """(the offset up to which the log is clean now, statistics).

        Raises LogCleaningAbortedError, CorruptRecordError, OSError; what has not been swapped is then as before.
        """
        log = target.log
        stats = CleanerStats(started_ms=now_ms)
        logger.info(
            "%s: cleaning from offset %d to %d", log.topic_partition, target.first_dirty_offset, target.cleanable_end
        )
        # Tombstones of old formats are kept for a while after the segment that held them was last cleaned.
        cleaned = log.local.segments.between(0, target.first_dirty_offset)
        legacy_horizon = cleaned[-1].modified_ms - log.config.delete_retention_ms if cleaned else 0
        offsets = self.build_offset_map(target, stats)
        end = offsets.latest_offset + 1
        stats.buffer_utilization = offsets.size / offsets.slots
        segments = [segment for segment in log.segments if segment.base_offset < end]
        transactions = CleanedTransactions()
        for group in group_segments(segments, log.config, target.first_uncleanable_offset):
            try:
                self._clean_group(log, group, offsets, transactions, legacy_horizon, now_ms, stats)
            except SegmentOffsetOverflowError as error:
                self._split(log, group, error)
        return end, stats

    # Pass 1

    def build_offset_map(self, target: LogToClean, stats: CleanerStats) -> OffsetMap:
        """The newest offset of each key from the first dirty offset on, as far as the map's memory goes."""
        log, start = target.log, target.first_dirty_offset
        offsets = OffsetMap(self._map_memory)
        offsets.latest_offset = start - 1
        limit = max(1, int(offsets.slots * self._load_factor))
        dirty = log.local.segments.between(start, target.cleanable_end)
        transactions = CleanedTransactions()
        if not dirty:
            return offsets
        transactions.add_aborted(log.local.collect_aborted(start, target.cleanable_end, dirty[0]))
        ends = [segment.base_offset for segment in dirty[1:]] + [target.cleanable_end]
        for segment, end in zip(dirty, ends, strict=True):
            if self._map_segment(log, segment, offsets, limit, start, transactions, stats):
                logger.info("%s: the offset map is full at offset %d", log.topic_partition, offsets.latest_offset)
                break
            # Offsets may be missing at the segment's end.
            offsets.latest_offset = max(offsets.latest_offset, end - 1)
        return offsets

    def _map_segment(
        self,
        log: PartitionLog,
        segment: LogSegment,
        offsets: OffsetMap,
        limit: int,
        start: int,
        transactions: CleanedTransactions,
        stats: CleanerStats,
    ) -> bool:
        position = segment.offset_index.lookup(start).position
        for batch in self._batches(log, segment, position):
            size = batch.size_in_bytes
            stats.map_bytes_read += size
            if isinstance(batch, RecordBatch) and batch.is_control:
                transactions.on_control_batch(batch)
            elif not (isinstance(batch, RecordBatch) and transactions.on_data_batch(batch)):
                for offset, key, _ in iter_keys(batch, STORED_DECOMPRESSION_LIMIT):
                    stats.map_messages_read += 1
                    if key is None or offset < start:
                        continue
                    if offsets.size >= limit:
                        return True
                    offsets.put(key, offset)
            if batch.last_offset >= start:
                offsets.latest_offset = max(offsets.latest_offset, batch.last_offset)
        return False

    def _batches(
        self, log: PartitionLog, segment: LogSegment, position: int = 0
    ) -> Iterator[RecordBatch | LegacyBatch]:
        for _, data in segment.records.batches(position, read_bytes=self._io_buffer_size):
            self._check(log.topic_partition)
            self._throttle(len(data))
            yield from iter_entries(data)

    # Pass 2

    def _clean_group(
        self,
        log: PartitionLog,
        group: Sequence[LogSegment],
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        legacy_horizon: int,
        now_ms: int,
        stats: CleanerStats,
    ) -> None:
        base = group[0].base_offset
        delete_segment_files(log.directory, base, CLEANED_SUFFIX)
        target = new_cleaned_segment(log.local, base)
        try:
            transactions.index = target.txn_index
            for number, segment in enumerate(group):
                following = group[number + 1].base_offset if number + 1 < len(group) else segment.read_next_offset()
                transactions.add_aborted(log.local.collect_aborted(segment.base_offset, following, segment))
                rules = RetentionRules(
                    offsets,
                    transactions,
                    last_records_of(log),
                    now_ms,
                    log.config.delete_retention_ms,
                    segment.modified_ms > legacy_horizon,
                    stats,
                )
                self._clean_segment(log, segment, target, rules)
            target.become_inactive()
            target.flush()
            self._on_step("cleaned")
            target.set_modified(group[-1].modified_ms)
            with log.lock:
                # A truncation or deletion that came meanwhile must win.
                self._check(log.topic_partition)
                replace_segments(log, [target], group, self._on_step)
        except BaseException:
            target.close_handles()
            if target.path.endswith(CLEANED_SUFFIX):
                target.delete_files()
            raise

    def _split(self, log: PartitionLog, group: Sequence[LogSegment], error: SegmentOffsetOverflowError) -> None:
        """Make several segments of those whose own offsets do not fit one; then all begins anew, next time."""
        wide = [segment for segment in group if segment.has_overflow]
        if not wide:
            raise error
        for segment in wide:
            new = partial(new_cleaned_segment, log.local)
            split_live_segment(log, segment, self._batches(log, segment), new, self._check, self._on_step)
        raise LogCleaningAbortedError(f"{log.topic_partition}: {error}; its segments are split first") from error

    def _clean_segment(self, log: PartitionLog, source: LogSegment, target: LogSegment, rules: RetentionRules) -> None:
        for batch in self._batches(log, source):
            stats = rules.stats
            stats.bytes_read += batch.size_in_bytes
            kept = rules.clean(batch)
            if kept is not None:
                write_batch(target, batch, kept)
                stats.bytes_written += len(kept)
                self._throttle(len(kept))


def last_records_of(log: PartitionLog) -> dict[int, LastRecord]:
    """The newest batch of each producer that the log knows."""
    with log.lock:
        return {
            entry.producer_id: LastRecord(
                None if entry.is_empty else entry.last_data_offset,
                entry.producer_epoch,
            )
            for entry in log.producers.entries()
        }


def group_segments(
    segments: Sequence[LogSegment], config: LogConfig, first_uncleanable_offset: int
) -> list[list[LogSegment]]:
    """Neighbouring segments that fit one output segment by size, index size and span of offsets."""
    groups: list[list[LogSegment]] = []
    size = index = time_index = 0
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else first_uncleanable_offset
        if (
            groups
            and size + segment.size <= config.segment_bytes
            and index + segment.offset_index.used_bytes <= config.segment_index_bytes
            and time_index + segment.time_index.used_bytes <= config.segment_index_bytes
            and (segment.size == 0 or following - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        ):
            groups[-1].append(segment)
            size += segment.size
            index += segment.offset_index.used_bytes
            time_index += segment.time_index.used_bytes
            continue
        groups.append([segment])
        size, index, time_index = segment.size, segment.offset_index.used_bytes, segment.time_index.used_bytes
    return groups
