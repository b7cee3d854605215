"""How much of a log can be cleaned, and whether it is worth it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OffsetsToClean:
    """Where the dirty part begins, and where cleaning must stop. `reset_checkpoint`: the stored position was wrong."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    reset_checkpoint: bool


@dataclass(frozen=True, slots=True)
class LogToClean:
    """One log with the sizes of its parts in bytes. `forced`: the maximum compaction lag has passed."""

    topic_partition: TopicPartition
    log: PartitionLog
    first_dirty_offset: int
    cleanable_end: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    forced: bool = False
    compaction_delay_ms: int = 0

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def dirty_ratio(self) -> float:
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0


def cleanable_offsets(log: PartitionLog, checkpoint: int | None, now_ms: int) -> OffsetsToClean:
    """The range to clean, from the stored position of the last cleaning (None: never cleaned)."""
    start = log.log_start_offset
    first_dirty, reset = start if checkpoint is None else checkpoint, False
    if first_dirty < start or first_dirty > log.log_end_offset:
        if first_dirty > log.log_end_offset or not log.config.delete:
            logger.warning(
                "%s: the cleaner's position %d lies outside the log (%d to %d); cleaning begins at the log start",
                log.topic_partition,
                first_dirty,
                start,
                log.log_end_offset,
            )
        first_dirty, reset = start, True
    segments = log.segments
    active = segments[-1].base_offset
    limit = min(log.last_stable_offset, active)
    lag = log.config.min_compaction_lag_ms
    if lag > 0:
        for segment in log.local.segments.from_floor(first_dirty):
            if segment.base_offset >= active:
                break
            if segment.largest_timestamp > now_ms - lag:
                limit = min(limit, segment.base_offset)
                break
    return OffsetsToClean(first_dirty, max(first_dirty, limit), reset)


def log_to_clean(log: PartitionLog, offsets: OffsetsToClean, now_ms: int) -> LogToClean:
    """The log with the sizes that the choice depends on."""
    segments = log.local.segments
    uncleanable = offsets.first_uncleanable_offset
    end_segment = segments.floor(uncleanable) or segments.active
    end = end_segment.base_offset
    dirty_segments = segments.between(min(offsets.first_dirty_offset, end), end)
    clean_bytes = sum(s.size for s in segments if s.base_offset < offsets.first_dirty_offset)
    cleanable_bytes = sum(s.size for s in dirty_segments)
    delay = _compaction_delay(log, offsets.first_dirty_offset, now_ms)
    return LogToClean(
        log.topic_partition,
        log,
        offsets.first_dirty_offset,
        end,
        uncleanable,
        clean_bytes,
        cleanable_bytes,
        forced=delay > 0 and cleanable_bytes > 0,
        compaction_delay_ms=delay,
    )


def _compaction_delay(log: PartitionLog, first_dirty: int, now_ms: int) -> int:
    """How far the oldest dirty record has passed `max.compaction.lag.ms`; 0 if it has not."""
    active = log.active_segment.base_offset
    earliest: int | None = None
    for segment in log.local.segments.from_floor(first_dirty):
        if segment.base_offset >= active:
            break
        timestamp = segment.load_first_batch_timestamp()
        if timestamp > 0 and (earliest is None or timestamp < earliest):
            earliest = timestamp
    if earliest is None:
        return 0
    return max(0, now_ms - log.config.max_compaction_lag_ms - earliest)


def is_candidate(log: LogToClean) -> bool:
    """Whether it is time to clean this log."""
    return log.total_bytes > 0 and (log.forced or log.dirty_ratio > log.log.config.min_cleanable_dirty_ratio)
