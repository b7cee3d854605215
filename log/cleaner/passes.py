"""The two passes of a cleaning, over files alone: a map of the newest offset of each key, then every segment again.

Runs in the broker or in a process of its own; whoever runs it puts the finished files in the place of the old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from log.cleaner.offset_map import OffsetMap
from log.cleaner.output import new_cleaned_segment, write_batch
from log.cleaner.plan import CleaningPlan, DirtySegment, SourceSegment, group_segments
from log.cleaner.survivors import CleanerStats, RetentionRules
from log.cleaner.transactions import CleanedTransactions
from log.files.file_records import FileRecords
from log.files.names import CLEANED_SUFFIX
from log.files.segment import LogSegment, delete_segment_files
from log.records.batch import RecordBatch
from log.records.compression import STORED_DECOMPRESSION_LIMIT
from log.records.old_formats import LegacyBatch, iter_entries
from log.records.record import iter_keys

Progress = Callable[[int], None]
"""Told how many bytes are read or written, 0 before files are touched by their names, which may be another's once the
broker is gone; may wait, and raises LogCleaningAbortedError to stop the work."""
Replace = Callable[[int, Sequence[int]], None]
"""Told the base offset of finished `.cleaned` files, and of the segments whose place they take."""


class CleaningPasses:
    """Does what a plan says. A batch is the unit of work between two calls of `progress`."""

    def __init__(self, plan: CleaningPlan, progress: Progress) -> None:
        self._plan = plan
        self._progress = progress
        self.stats = CleanerStats(started_ms=plan.now_ms)

    def run(self, replace: Replace) -> tuple[int, CleanerStats]:
        """(the offset up to which the log is clean now, statistics).

        Raises what `progress` and `replace` raise, CorruptRecordError, SegmentOffsetOverflowError, OSError; files that
        were not handed to `replace` are gone then.
        """
        plan, stats = self._plan, self.stats
        offsets = self.build_offset_map()
        end = offsets.latest_offset + 1
        stats.buffer_utilization = offsets.size / offsets.slots
        segments = [segment for segment in plan.segments if segment.base_offset < end]
        transactions = CleanedTransactions()
        for group in group_segments(segments, plan.config, plan.first_uncleanable_offset):
            self._clean_group(group, offsets, transactions)
            replace(group[0].base_offset, [segment.base_offset for segment in group])
        return end, stats

    # Pass 1

    def build_offset_map(self) -> OffsetMap:
        """The newest offset of each key from the first dirty offset on, as far as the map's memory goes."""
        plan = self._plan
        offsets = OffsetMap(plan.map_memory)
        offsets.latest_offset = plan.first_dirty_offset - 1
        limit = max(1, int(offsets.slots * plan.load_factor))
        transactions = CleanedTransactions()
        transactions.add_aborted(plan.dirty_aborted)
        for segment in plan.dirty:
            if self._map_segment(segment, offsets, limit, transactions):
                self.stats.map_full = True
                break
            # Offsets may be missing at the segment's end.
            offsets.latest_offset = max(offsets.latest_offset, segment.end_offset - 1)
        return offsets

    def _map_segment(
        self, segment: DirtySegment, offsets: OffsetMap, limit: int, transactions: CleanedTransactions
    ) -> bool:
        start, stats = self._plan.first_dirty_offset, self.stats
        for batch in self._batches(segment.path, segment.position, segment.size):
            stats.map_bytes_read += batch.size_in_bytes
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

    def _batches(self, path: str, position: int, size: int) -> Iterator[RecordBatch | LegacyBatch]:
        records = FileRecords(path)
        try:
            for _, data in records.batches(position, size, read_bytes=self._plan.io_buffer_size):
                self._progress(len(data))
                yield from iter_entries(data)
        finally:
            records.close()

    # Pass 2

    def _clean_group(
        self, group: Sequence[SourceSegment], offsets: OffsetMap, transactions: CleanedTransactions
    ) -> None:
        plan, base = self._plan, group[0].base_offset
        self._progress(0)
        delete_segment_files(plan.directory, base, CLEANED_SUFFIX)
        target = new_cleaned_segment(plan.directory, base, plan.config, plan.now_ms)
        try:
            transactions.index = target.txn_index
            for segment in group:
                transactions.add_aborted(segment.aborted)
                rules = RetentionRules(
                    offsets,
                    transactions,
                    plan.last_records,
                    plan.now_ms,
                    plan.config.delete_retention_ms,
                    segment.modified_ms > plan.legacy_horizon_ms,
                    self.stats,
                )
                self._clean_segment(segment, target, rules)
            target.become_inactive()
            target.flush()
            self._progress(0)
            target.set_modified(group[-1].modified_ms)
            target.close_handles()
        except BaseException:
            target.delete_files()
            raise

    def _clean_segment(self, source: SourceSegment, target: LogSegment, rules: RetentionRules) -> None:
        stats = self.stats
        for batch in self._batches(source.path, 0, source.size):
            stats.bytes_read += batch.size_in_bytes
            kept = rules.clean(batch)
            if kept is not None:
                write_batch(target, batch, kept)
                stats.bytes_written += len(kept)
                self._progress(len(kept))
