"""All that a cleaning needs to know of a log, as plain data, so that another process can do the work from the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from log.cleaner.cleanable import LogToClean
from log.cleaner.survivors import LastRecord
from log.config import LogConfig
from log.files.segment import MAX_RELATIVE_OFFSET, LogSegment
from log.files.txn_index import AbortedTxn
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """A sealed segment that is read. `aborted`: what the transaction indexes say of offsets in it; sizes in bytes."""

    base_offset: int
    path: str
    size: int
    offset_index_bytes: int
    time_index_bytes: int
    modified_ms: int
    aborted: Sequence[AbortedTxn]


@dataclass(frozen=True, slots=True)
class DirtySegment:
    """A part of a segment whose keys go into the offset map: from `position` on, the offsets below `end_offset`."""

    path: str
    size: int
    position: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """One cleaning of one log. `legacy_horizon_ms`: when the segment of a tombstone in an old format was last written,
    above which it stays. Memory in bytes, times in milliseconds."""

    topic_partition: TopicPartition
    directory: str
    config: LogConfig
    now_ms: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    dirty: Sequence[DirtySegment]
    dirty_aborted: Sequence[AbortedTxn]
    segments: Sequence[SourceSegment]
    last_records: Mapping[int, LastRecord]
    legacy_horizon_ms: int
    map_memory: int
    load_factor: float
    io_buffer_size: int


def plan_cleaning(
    target: LogToClean, now_ms: int, *, map_memory: int, load_factor: float, io_buffer_size: int
) -> CleaningPlan:
    """The plan for what the cleaner has chosen; nothing may cut, move or delete the log's segments until it is done."""
    log, start, end = target.log, target.first_dirty_offset, target.cleanable_end
    segments = log.local.segments
    dirty = segments.between(start, end)
    sources = [segment for segment in segments if segment.base_offset < end]
    # Tombstones of old formats are kept for a while after the segment that held them was last cleaned.
    cleaned = segments.between(0, start)
    return CleaningPlan(
        log.topic_partition,
        log.directory,
        log.config,
        now_ms,
        start,
        target.first_uncleanable_offset,
        [
            DirtySegment(segment.path, segment.size, segment.offset_index.lookup(start).position, until)
            for segment, until in zip(dirty, _ends(dirty, end), strict=True)
        ],
        log.local.collect_aborted(start, end, dirty[0]) if dirty else [],
        [_source(log, segment, following) for segment, following in zip(sources, _ends(sources, end), strict=True)],
        last_records_of(log),
        cleaned[-1].modified_ms - log.config.delete_retention_ms if cleaned else 0,
        map_memory,
        load_factor,
        io_buffer_size,
    )


def _ends(segments: Sequence[LogSegment], end: int) -> list[int]:
    """Where each of the segments ends, the last at `end`."""
    return [segment.base_offset for segment in segments[1:]] + [end] * bool(segments)


def _source(log: PartitionLog, segment: LogSegment, following: int) -> SourceSegment:
    return SourceSegment(
        segment.base_offset,
        segment.path,
        segment.size,
        segment.offset_index.used_bytes,
        segment.time_index.used_bytes,
        segment.modified_ms,
        log.local.collect_aborted(segment.base_offset, following, segment),
    )


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
    segments: Sequence[SourceSegment], config: LogConfig, first_uncleanable_offset: int
) -> list[list[SourceSegment]]:
    """Neighbouring segments that fit one output segment by size, index size and span of offsets."""
    groups: list[list[SourceSegment]] = []
    size = index = time_index = 0
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else first_uncleanable_offset
        if (
            groups
            and size + segment.size <= config.segment_bytes
            and index + segment.offset_index_bytes <= config.segment_index_bytes
            and time_index + segment.time_index_bytes <= config.segment_index_bytes
            and (segment.size == 0 or following - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        ):
            groups[-1].append(segment)
            size += segment.size
            index += segment.offset_index_bytes
            time_index += segment.time_index_bytes
            continue
        groups.append([segment])
        size, index, time_index = segment.size, segment.offset_index_bytes, segment.time_index_bytes
    return groups
