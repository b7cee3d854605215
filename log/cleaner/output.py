"""Segments that the cleaner writes: batch by batch into `.cleaned` files; and the split of one that spans too much."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from log.cleaner.swap import replace_segments
from log.config import LogConfig
from log.files.file_range import OpenFileBound
from log.files.names import CLEANED_SUFFIX
from log.files.segment import MAX_RELATIVE_OFFSET, LogSegment, SegmentOffsetOverflowError, delete_segment_files
from log.local_log import LocalLog
from log.partition_log import PartitionLog
from log.records.batch import Buffer, RecordBatch
from log.records.old_formats import LegacyBatch, iter_entries
from log.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


def write_batch(target: LogSegment, batch: RecordBatch | LegacyBatch, data: Buffer) -> None:
    """Appends what is left of one batch. One at a time, so that every index entry names the batch it points to."""
    last = batch.last_offset
    first = batch.base_offset if isinstance(batch, RecordBatch) else last
    if isinstance(data, bytes):
        # The batch was written again; it may have another timestamp, and an old wrapper another last offset.
        (batch,) = iter_entries(data)
        last = batch.last_offset
    if last - target.base_offset > MAX_RELATIVE_OFFSET:
        raise SegmentOffsetOverflowError(target.base_offset, last)
    target.append(first, last, batch.max_timestamp, last, data)


def new_cleaned_segment(
    directory: str, base_offset: int, config: LogConfig, now_ms: int, bound: OpenFileBound | None = None
) -> LogSegment:
    """An empty segment whose files end in `.cleaned`."""
    return LogSegment(directory, base_offset, config, now_ms, create=True, suffix=CLEANED_SUFFIX, bound=bound)


def open_cleaned_segment(local: LocalLog, base_offset: int) -> LogSegment:
    """The segment of finished `.cleaned` files, as one of the log."""
    return LogSegment(
        local.directory,
        base_offset,
        local.config,
        local.env.clock.wall_ms(),
        suffix=CLEANED_SUFFIX,
        bound=local.env.bound,
    )


def split_live_segment(
    log: PartitionLog,
    segment: LogSegment,
    batches: Iterable[RecordBatch | LegacyBatch],
    new_segment: Callable[[int], LogSegment],
    check: Callable[[TopicPartition], None],
    on_step: Callable[[str], None],
) -> None:
    """Put several segments in the place of one whose offsets span more than 31 bits, as old brokers could leave it.

    `batches` are all of the segment's. Raises what `check` raises, and `OSError`; the log is then as before.
    """
    parts: list[LogSegment] = []
    try:
        for batch in batches:
            if not parts or not parts[-1].can_convert(batch.last_offset):
                first = batch.base_offset if isinstance(batch, RecordBatch) else batch.last_offset
                base = first if parts else segment.base_offset
                delete_segment_files(log.directory, base, CLEANED_SUFFIX)
                parts.append(new_segment(base))
            write_batch(parts[-1], batch, batch.view)
        for entry in segment.txn_index.entries():
            part = next(part for part in reversed(parts) if part.base_offset <= entry.last_offset)
            part.txn_index.append(entry)
        for part in parts:
            part.become_inactive()
            part.flush()
            part.set_modified(segment.modified_ms)
        bases = [part.base_offset for part in parts]
        logger.warning("%s: segment %d is split into %s", log.topic_partition, segment.base_offset, bases)
        with log.lock:
            check(log.topic_partition)
            replace_segments(log, parts, [segment], on_step)
    except BaseException:
        for part in parts:
            part.close_handles()
            if part.path.endswith(CLEANED_SUFFIX):
                part.delete_files()
        raise
