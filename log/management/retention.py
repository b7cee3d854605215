"""Retention: which old segments go, by log start offset, size and time."""

from __future__ import annotations

from collections.abc import Callable

from log.files.segment import LogSegment
from log.partition_log import PartitionLog
from log.truncation import delete_producer_snapshots

Breach = Callable[[LogSegment, LogSegment | None], bool]


def delete_old_segments(log: PartitionLog) -> int:
    """Apply all rules of the topic's policy; returns the number of segments deleted.

    With `delete` in `cleanup.policy`: log start offset, `retention.bytes`, `retention.ms`, in this order; otherwise
    (compaction only) the log start offset. Raises `StorageError`.
    """
    with log.io(f"applying retention to {log.topic_partition}"):
        deleted = _delete(log, _below_log_start(log), "below the log start offset")
        if log.config.delete:
            deleted += _delete(log, _over_size(log), f"retention.bytes={log.config.retention_bytes}")
            deleted += _delete(log, _too_old(log), f"retention.ms={log.config.retention_ms}")
        return deleted


def _below_log_start(log: PartitionLog) -> Breach:
    return lambda _, following: following is not None and following.base_offset <= log.log_start_offset


def _over_size(log: PartitionLog) -> Breach:
    limit = log.config.retention_bytes
    excess = log.size - limit
    if limit < 0 or excess < 0:
        return _never

    def breach(segment: LogSegment, _: LogSegment | None) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return breach


def _too_old(log: PartitionLog) -> Breach:
    limit = log.config.retention_ms
    if limit < 0:
        return _never
    now = log.env.clock.wall_ms()
    return lambda segment, _: now - segment.largest_timestamp > limit


def _never(segment: LogSegment, following: LogSegment | None) -> bool:
    return False


def _delete(log: PartitionLog, breach: Breach, reason: str) -> int:
    with log.lock:
        doomed = _deletable(log, breach)
        if not doomed:
            return 0
        segments = log.local.segments
        if len(doomed) == len(segments):
            # A log always has a segment, and the new one keeps the end offset.
            log.roll()
        first_kept = segments.higher(doomed[-1].base_offset)
        assert first_kept is not None
        # The offset first: a crash between the two leaves segments below it, which go at the next run.
        log.maybe_increment_log_start_offset(first_kept.base_offset, "segments are deleted by retention")
        log.local.remove_and_delete(doomed, asynchronously=True, reason=reason)
        delete_producer_snapshots(log, doomed)
        return len(doomed)


def _deletable(log: PartitionLog, breach: Breach) -> list[LogSegment]:
    """The oldest segments up to the first that is kept. Nothing above the high watermark goes."""
    found: list[LogSegment] = []
    segments = list(log.local.segments)
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        end = log.log_end_offset if following is None else following.base_offset
        empty_active = following is None and segment.size == 0
        if empty_active or log.high_watermark < end or not breach(segment, following):
            break
        found.append(segment)
    return found
