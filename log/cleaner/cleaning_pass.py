"""One cleaning of one log, from the plan to the last swap of files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from log.cleaner.cleanable import LogToClean
from log.cleaner.output import new_cleaned_segment, open_cleaned_segment, split_live_segment
from log.cleaner.passes import CleaningPasses, Progress, Replace
from log.cleaner.plan import CleaningPlan, plan_cleaning
from log.cleaner.survivors import CleanerStats
from log.cleaner.swap import replace_segments
from log.errors import LogCleaningAbortedError
from log.files.names import CLEANED_SUFFIX
from log.files.segment import LogSegment, SegmentOffsetOverflowError
from log.partition_log import PartitionLog
from log.records.batch import RecordBatch
from log.records.old_formats import LegacyBatch, iter_entries
from log.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

Run = Callable[[CleaningPlan, Progress, Replace], tuple[int, CleanerStats]]


def run_here(plan: CleaningPlan, progress: Progress, replace: Replace) -> tuple[int, CleanerStats]:
    """Both passes in this thread."""
    return CleaningPasses(plan, progress).run(replace)


class Cleaner:
    """Cleans logs with one offset map of `map_memory` bytes, filled up to `load_factor`.

    `check(tp)` raises LogCleaningAbortedError when the cleaning must stop; it is asked before every batch. `throttle`
    is told how many bytes are read or written, and may wait. `run` does the passes.
    """

    def __init__(
        self,
        map_memory: int,
        load_factor: float,
        io_buffer_size: int,
        check: Callable[[TopicPartition], None],
        throttle: Callable[[int], None],
        on_step: Callable[[str], None] = lambda step: None,
        run: Run = run_here,
    ) -> None:
        self._map_memory = map_memory
        self._load_factor = load_factor
        self._io_buffer_size = io_buffer_size
        self._check = check
        self._throttle = throttle
        self._on_step = on_step
        self._run = run

    def clean(self, target: LogToClean, now_ms: int) -> tuple[int, CleanerStats]:
        """(the offset up to which the log is clean now, statistics).

        Raises LogCleaningAbortedError, CorruptRecordError, OSError; what has not been swapped is then as before.
        """
        log = target.log
        logger.info(
            "%s: cleaning from offset %d to %d", log.topic_partition, target.first_dirty_offset, target.cleanable_end
        )
        plan = plan_cleaning(
            target,
            now_ms,
            map_memory=self._map_memory,
            load_factor=self._load_factor,
            io_buffer_size=self._io_buffer_size,
        )
        try:
            end, stats = self._run(plan, partial(self._progress, log), partial(self._replace, log))
        except SegmentOffsetOverflowError as error:
            self._split(log, target.cleanable_end, error)
        if stats.map_full:
            logger.info("%s: the offset map is full at offset %d", log.topic_partition, end - 1)
        return end, stats

    def _progress(self, log: PartitionLog, size: int) -> None:
        self._check(log.topic_partition)
        self._throttle(size)

    def _replace(self, log: PartitionLog, base: int, bases: Sequence[int]) -> None:
        target = open_cleaned_segment(log.local, base)
        try:
            self._on_step("cleaned")
            with log.lock:
                # A truncation or deletion that came meanwhile must win.
                self._check(log.topic_partition)
                found = [log.local.segments.get(each) for each in bases]
                replace_segments(log, [target], [old for old in found if old is not None], self._on_step)
        except BaseException:
            target.close_handles()
            if target.path.endswith(CLEANED_SUFFIX):
                target.delete_files()
            raise

    def _split(self, log: PartitionLog, end: int, error: SegmentOffsetOverflowError) -> None:
        """Make several segments of those whose own offsets do not fit one; then all begins anew, next time."""
        wide = [segment for segment in log.local.segments.between(0, end) if segment.has_overflow]
        if not wide:
            raise error
        env = log.env
        for segment in wide:
            new = partial(
                new_cleaned_segment, log.directory, config=log.config, now_ms=env.clock.wall_ms(), bound=env.bound
            )
            split_live_segment(log, segment, self._batches(log, segment), new, self._check, self._on_step)
        raise LogCleaningAbortedError(f"{log.topic_partition}: {error}; its segments are split first") from error

    def _batches(self, log: PartitionLog, segment: LogSegment) -> Iterator[RecordBatch | LegacyBatch]:
        for _, data in segment.records.batches(read_bytes=self._io_buffer_size):
            self._progress(log, len(data))
            yield from iter_entries(data)
