"""Finding offsets by time: ListOffsets."""

from __future__ import annotations

from log.files.file_records import parse_batch
from log.files.segment import LogSegment
from log.offset_metadata import TimestampAndOffset
from log.partition_log import PartitionLog
from log.records.batch import RecordBatch
from log.records.old_formats import LegacyBatch
from log.records.record import iter_records

# Instead of a time.
LATEST_TIMESTAMP = -1  # the log end
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3  # where the largest timestamp is
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5


def fetch_offset_by_timestamp(log: PartitionLog, timestamp: int) -> TimestampAndOffset | None:
    """The offset that ListOffsets answers for `timestamp` (ms) or one of the values above; None if there is none.

    Raises `ValueError` for an unknown negative timestamp, and `StorageError`.
    """
    return log.reading(lambda: _by_timestamp(log, timestamp))


def _by_timestamp(log: PartitionLog, timestamp: int) -> TimestampAndOffset | None:
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        start = log.log_start_offset
        entry = log.leader_epoch_cache.earliest_entry
        epoch = entry.epoch if entry is not None and entry.start_offset <= start else None
        return TimestampAndOffset(-1, start, epoch)
    if timestamp == LATEST_TIMESTAMP:
        return TimestampAndOffset(-1, log.log_end_offset, log.latest_epoch)
    if timestamp == LATEST_TIERED_TIMESTAMP:
        return TimestampAndOffset(-1, -1)
    if timestamp == MAX_TIMESTAMP:
        return _max_timestamp(log)
    if timestamp < 0:
        raise ValueError(f"{timestamp} is not a timestamp that a log can look up")
    for segment in log.segments:
        if segment.largest_timestamp >= timestamp:
            return find_by_timestamp(segment, timestamp, log.log_start_offset)
    return None


def _max_timestamp(log: PartitionLog) -> TimestampAndOffset | None:
    """The first record with the largest timestamp of the log, in the first such batch of its segment."""
    segments = log.segments
    if not segments:
        return None
    latest = max(segments, key=lambda segment: segment.max_timestamp.timestamp)
    largest = latest.max_timestamp
    if largest.timestamp < 0:
        return None
    start = latest.translate_offset(largest.offset)
    if start is None:
        return None
    for _, data in latest.records.batches(start.position):
        batch = parse_batch(data)
        if batch.max_timestamp == largest.timestamp:
            return _first_record(batch, largest.timestamp, latest.base_offset)
    return None


def find_by_timestamp(segment: LogSegment, timestamp: int, starting_offset: int) -> TimestampAndOffset | None:
    """The first record of `segment` with a timestamp >= `timestamp` and an offset >= `starting_offset`."""
    found = segment.time_index.lookup(timestamp)
    position = segment.offset_index.lookup(max(found.offset, starting_offset)).position
    for _, data in segment.records.batches(position, read_bytes=65536):
        batch = parse_batch(data)
        if batch.max_timestamp >= timestamp:
            record = _first_record(batch, timestamp, starting_offset)
            if record is not None:
                return record
    return None


def _first_record(batch: RecordBatch | LegacyBatch, timestamp: int, starting_offset: int) -> TimestampAndOffset | None:
    for record in iter_records(batch):
        if record.timestamp >= timestamp and record.offset >= starting_offset:
            epoch = batch.partition_leader_epoch
            return TimestampAndOffset(record.timestamp, record.offset, epoch if epoch >= 0 else None)
    return None


def legacy_offsets_before(log: PartitionLog, timestamp: int, max_offsets: int) -> list[int]:
    """ListOffsets version 0: up to `max_offsets` starts of segments by modification time, and the log end; newest
    first.

    Raises as `fetch_offset_by_timestamp` does.
    """
    return log.reading(lambda: _legacy(log, timestamp, max_offsets))


def _legacy(log: PartitionLog, timestamp: int, max_offsets: int) -> list[int]:
    now = log.env.clock.wall_ms()
    marks = [(max(segment.base_offset, log.log_start_offset), segment.modified_ms) for segment in log.segments]
    if log.active_segment.size:
        marks.append((log.log_end_offset, now))
    if timestamp == LATEST_TIMESTAMP:
        last = len(marks) - 1
    elif timestamp == EARLIEST_TIMESTAMP:
        last = 0
    elif timestamp < 0:
        raise ValueError(f"{timestamp} is not a timestamp that a log can look up")
    else:
        last = max((i for i, (_, modified) in enumerate(marks) if modified <= timestamp), default=-1)
    newest_first = [offset for offset, _ in reversed(marks[: last + 1])]
    return sorted(newest_first[:max_offsets], reverse=True)
