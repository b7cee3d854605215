"""Rebuilding what a crash may have left wrong: a segment's end and indexes, and the producer state."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from log.batch import RecordBatch
from log.errors import CorruptRecordError, InvalidRecordError
from log.file_records import parse_batch
from log.leader_epoch import LeaderEpochCache
from log.producer_state import CompletedTxn, ProducerStateManager
from log.segment import LogSegment, SegmentOffsetOverflowError
from log.segments import LogSegments
from log.time_index import TimestampOffset
from log.txn_index import AbortedTxn
from log.validation import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger(__name__)


def recover_segment(
    segment: LogSegment, producers: ProducerStateManager | None, epochs: LeaderEpochCache | None
) -> int:
    """Check every batch, cut the log behind the last good one, and rebuild the three indexes. Returns the bytes cut.

    `producers` must stand at the segment's base offset and ends at its end. A batch is good if it is whole, its
    checksum is right and its offsets follow the one before. (Kafka empties the whole segment if offsets do not
    increase; here what stands before the fault is kept.) Raises `SegmentOffsetOverflowError`, `OSError`.
    """
    segment.prepare_recovery()
    interval = segment.config.index_interval_bytes
    valid = indexed = 0
    new_epochs = False
    previous = segment.base_offset - 1
    largest = TimestampOffset(-1, segment.base_offset)
    try:
        for position, data in segment.records.batches():
            batch = parse_batch(data)
            batch.ensure_valid()
            last_offset = batch.last_offset
            if last_offset <= previous or (batch.magic >= 2 and batch.base_offset <= previous):
                raise CorruptRecordError(f"offsets {batch.base_offset}..{last_offset} do not follow offset {previous}")
            previous = last_offset
            if not segment.can_convert(last_offset):
                raise SegmentOffsetOverflowError(segment.base_offset, last_offset)
            if batch.max_timestamp > largest.timestamp:
                largest = TimestampOffset(batch.max_timestamp, last_offset)
            if position - indexed > interval:
                segment.offset_index.append(last_offset, position)
                segment.time_index.maybe_append(largest.timestamp, largest.offset)
                indexed = position
            valid = position + len(data)
            if isinstance(batch, RecordBatch):
                new_epochs |= _recover_epoch(batch, epochs)
                if producers is not None:
                    _recover_producer(batch, segment, producers)
    except (CorruptRecordError, InvalidRecordError) as error:
        logger.warning("%s: invalid data at position %d, the log is cut there: %s", segment.path, valid, error)
    cut = segment.size - valid
    if cut:
        logger.warning("%s: cutting %d bytes behind the last whole batch", segment.path, cut)
    segment.finish_recovery(valid, largest)
    if new_epochs and epochs is not None:
        epochs.flush()
    return cut


def _recover_epoch(batch: RecordBatch, epochs: LeaderEpochCache | None) -> bool:
    epoch = batch.partition_leader_epoch
    if epochs is None or epoch < 0:
        return False
    latest = epochs.latest_epoch
    return (latest is None or epoch > latest) and epochs.assign(epoch, batch.base_offset, flush=False)


def _recover_producer(batch: RecordBatch, segment: LogSegment, producers: ProducerStateManager) -> None:
    if batch.has_producer_id:
        update = producers.prepare_update(batch.producer_id, AppendOrigin.REPLICATION)
        completed = update.append(batch)
        producers.update(update)
        if completed is not None:
            stable = producers.last_stable_offset(completed)
            if completed.is_aborted:
                segment.txn_index.append(
                    AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, stable)
                )
            producers.complete_txn(completed)
    producers.update_map_end_offset(batch.last_offset + 1)


def rebuild_producer_state(
    producers: ProducerStateManager,
    segments: LogSegments,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
    *,
    clean: bool = False,
) -> None:
    """Bring `producers` to `end_offset`: newest usable snapshot, then the batches behind it.

    After a clean shutdown without any snapshot there were no producers: empty snapshots are written so that this is
    known next time. Otherwise snapshots are written at the last two base offsets passed and at the end.
    """
    bases = segments.base_offsets()
    snapshot_at = [*bases[-2:], end_offset]
    if clean and producers.latest_snapshot_offset is None:
        for offset in snapshot_at:
            producers.update_map_end_offset(offset)
            producers.take_snapshot()
        return
    was_empty_there = producers.is_empty and producers.map_end_offset >= end_offset
    producers.truncate_and_reload(log_start_offset, end_offset, now_ms)
    if end_offset > producers.map_end_offset and not was_empty_there:
        for segment in segments.between(producers.map_end_offset, end_offset):
            start = max(segment.base_offset, producers.map_end_offset, log_start_offset)
            producers.update_map_end_offset(start)
            if segment.base_offset in snapshot_at:
                producers.take_snapshot()
            load_producers(producers, _batches(segment, start, end_offset))
    producers.update_map_end_offset(end_offset)
    producers.take_snapshot()


def _batches(segment: LogSegment, start: int, end: int) -> Iterable[RecordBatch]:
    """The magic 2 batches of `segment` from the one holding `start` to the last one below `end`."""
    first = segment.translate_offset(start)
    if first is None:
        return
    for _, data in segment.records.batches(first.position):
        batch = parse_batch(data)
        if batch.base_offset >= end:
            return
        if isinstance(batch, RecordBatch):
            yield batch


def load_producers(producers: ProducerStateManager, batches: Iterable[RecordBatch]) -> None:
    """Apply stored batches to `producers`."""
    for batch in batches:
        if not batch.has_producer_id:
            continue
        update = producers.prepare_update(batch.producer_id, AppendOrigin.REPLICATION)
        completed: CompletedTxn | None = update.append(batch)
        producers.update(update)
        if completed is not None:
            producers.complete_txn(completed)
