"""Rebuilding what a crash may have left wrong: a segment's end and indexes, and the producer state."""

from __future__ import annotations

import logging
import os
from struct import Struct
from typing import TYPE_CHECKING

from log.errors import CorruptRecordError, InvalidRecordError
from log.files.file_records import parse_batch
from log.files.segment import MAX_RELATIVE_OFFSET, LogSegment, SegmentOffsetOverflowError
from log.files.segments import LogSegments
from log.files.time_index import TimestampOffset
from log.files.txn_index import AbortedTxn
from log.leader_epoch import LeaderEpochCache
from log.producer_state import CompletedTxn, ProducerStateManager
from log.records.batch import (
    ATTRIBUTES_OFFSET,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MIN_COUNTED_SIZE,
    MIN_SIZE_FOR_MAGIC,
    RecordBatch,
)
from log.records.checksum import crc32c
from log.records.old_formats import LegacyBatch
from log.records.validation import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger(__name__)

_READ_BYTES = 1 << 20
_INT = Struct(">i")


def recover_segment(
    segment: LogSegment, producers: ProducerStateManager | None, epochs: LeaderEpochCache | None
) -> int:
    """Check every batch, cut the log behind the last good one, and rebuild the three indexes. Returns the bytes cut.

    `producers` must stand at the segment's base offset and ends at its end. A batch is good if it is whole, its
    checksum is right and its offsets follow the one before. (Kafka empties the whole segment if offsets do not
    increase; here what stands before the fault is kept.) Raises `SegmentOffsetOverflowError`, `OSError`.
    """
    segment.prepare_recovery()
    scan = _Scan(segment, producers, epochs)
    try:
        scan.run()
    except (CorruptRecordError, InvalidRecordError) as error:
        logger.warning("%s: invalid data at position %d, the log is cut there: %s", segment.path, scan.valid, error)
    cut = segment.size - scan.valid
    if cut:
        logger.warning("%s: cutting %d bytes behind the last whole batch", segment.path, cut)
    segment.finish_recovery(scan.valid, TimestampOffset(scan.max_timestamp, scan.offset_of_max_timestamp))
    if scan.new_epochs and epochs is not None:
        epochs.flush()
    return cut


class _Scan:
    """One pass over a segment. What has been found good so far is in the attributes, also after an error."""

    def __init__(
        self, segment: LogSegment, producers: ProducerStateManager | None, epochs: LeaderEpochCache | None
    ) -> None:
        self.segment = segment
        self.producers = producers
        self.epochs = epochs
        self.valid = 0
        self.previous = segment.base_offset - 1
        self.max_timestamp = -1
        self.offset_of_max_timestamp = segment.base_offset
        self.new_epochs = False
        self._indexed = 0
        latest = None if epochs is None else epochs.latest_epoch
        self._latest_epoch = -1 if latest is None else latest

    def run(self) -> None:
        """Go over all batches. Raises `CorruptRecordError` at the first bad one."""
        records = self.segment.records
        file = records.open()
        fd = file.fd
        size = records.size
        need = 0
        while size - self.valid > MIN_SIZE_FOR_MAGIC:
            wanted = min(max(_READ_BYTES, need), size - self.valid)
            chunk = memoryview(os.pread(fd, wanted, self.valid))
            used, need = self._chunk(chunk)
            if not used and (need == 0 or need > size - self.valid or len(chunk) < wanted):
                break  # What is left is no whole batch.
        if self.producers is not None:
            self.producers.map_end_offset = self.previous + 1

    def _chunk(self, chunk: memoryview) -> tuple[int, int]:
        """(bytes of whole batches, size of the batch that is cut): the inner loop of a start after a crash."""
        start, end, at = self.valid, len(chunk), 0
        base_offset, interval = self.segment.base_offset, self.segment.config.index_interval_bytes
        unpack, counted = HEADER.unpack_from, _INT.unpack_from
        while end - at > MIN_SIZE_FOR_MAGIC:
            length = counted(chunk, at + 8)[0]
            if length < MIN_COUNTED_SIZE:
                raise CorruptRecordError(f"the size field {length} is impossible")
            total = length + LOG_OVERHEAD
            if total > end - at:
                return at, total
            if chunk[at + 16] != 2:
                first, last, timestamp = self._legacy(chunk, at)
            elif total < HEADER_SIZE:
                raise CorruptRecordError(f"a record batch of {total} bytes is smaller than its header")
            else:
                first, _, epoch, _, crc, _, delta, _, timestamp, producer_id, _, _, _ = unpack(chunk, at)
                if crc32c(chunk[at + ATTRIBUTES_OFFSET : at + total]) != crc:
                    raise CorruptRecordError(f"the batch at offset {first} has a wrong checksum")
                last = first + delta
                if first <= self.previous:
                    raise CorruptRecordError(f"offset {first} does not follow offset {self.previous}")
                if last - base_offset <= MAX_RELATIVE_OFFSET:
                    if epoch > self._latest_epoch:
                        self._note_epoch(epoch, first)
                    if producer_id >= 0 and self.producers is not None:
                        self._producer(RecordBatch(chunk, at), self.producers)
            if last <= self.previous:
                raise CorruptRecordError(f"offset {last} does not follow offset {self.previous}")
            if last - base_offset > MAX_RELATIVE_OFFSET:
                raise SegmentOffsetOverflowError(base_offset, last)
            if timestamp > self.max_timestamp:
                self.max_timestamp, self.offset_of_max_timestamp = timestamp, last
            if start + at - self._indexed > interval:
                self._index(last, start + at)
            at += total
            self.previous = last
            self.valid = start + at
        return at, 0

    def _legacy(self, chunk: memoryview, at: int) -> tuple[int, int, int]:
        magic = chunk[at + 16]
        if magic > 1:
            raise CorruptRecordError(f"unknown record format: magic {magic}")
        entry = LegacyBatch(chunk, at)
        entry.ensure_valid()
        return entry.last_offset, entry.last_offset, entry.max_timestamp

    def _index(self, last_offset: int, position: int) -> None:
        self.segment.offset_index.append(last_offset, position)
        self.segment.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self._indexed = position

    def _note_epoch(self, epoch: int, first_offset: int) -> None:
        self._latest_epoch = epoch
        if self.epochs is not None:
            self.new_epochs |= self.epochs.assign(epoch, first_offset, flush=False)

    def _producer(self, batch: RecordBatch, producers: ProducerStateManager) -> None:
        update = producers.prepare_update(batch.producer_id, AppendOrigin.REPLICATION)
        completed = update.append(batch)
        producers.update(update)
        if completed is not None:
            stable = producers.last_stable_offset(completed)
            if completed.is_aborted:
                self.segment.txn_index.append(
                    AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, stable)
                )
            producers.complete_txn(completed)


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
    producers.is_durable = clean
    if clean and producers.latest_snapshot_offset is None:
        for offset in snapshot_at:
            producers.map_end_offset = offset
            producers.take_snapshot()
        return
    was_empty_there = producers.is_empty and producers.map_end_offset >= end_offset
    producers.truncate_and_reload(log_start_offset, end_offset, now_ms)
    if end_offset > producers.map_end_offset and not was_empty_there:
        for segment in segments.between(producers.map_end_offset, end_offset):
            start = max(segment.base_offset, producers.map_end_offset, log_start_offset)
            producers.map_end_offset = start
            if segment.base_offset in snapshot_at:
                producers.take_snapshot()
            load_producers(producers, _batches(segment, start, end_offset))
    producers.map_end_offset = end_offset
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
