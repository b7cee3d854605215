"""Cutting a log back to an offset, as a follower does when its leader has other data, or all of it."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from log.files.segment import LogSegment
from log.management.recovery import rebuild_producer_state
from log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


def truncate_to(log: PartitionLog, offset: int) -> bool:
    """Drop everything from `offset` on; False if the log ends there or before.

    The whole batch that holds `offset` goes, so the log may end below it. Raises `ValueError` on a negative offset, and
    `StorageError`.
    """
    if offset < 0:
        raise ValueError(f"cannot truncate {log.topic_partition} to the negative offset {offset}")
    with log.io(f"truncating {log.topic_partition} to {offset}"), log.lock:
        local = log.local
        if offset >= local.log_end_offset:
            logger.debug("%s: nothing to truncate: %d is not below the log end", log.topic_partition, offset)
            log.leader_epoch_cache.truncate_from_end(offset)
            return False
        logger.info("%s: truncating to %d", log.topic_partition, offset)
        first = local.segments.first_base_offset
        if first is None or first > offset:
            _start_over(log, offset, None)
            return True
        doomed = local.truncate_to(offset)
        delete_producer_snapshots(log, doomed)
        log.leader_epoch_cache.truncate_from_end(offset)
        log.log_start_offset = min(offset, log.log_start_offset)
        rebuild_producer_state(log.producers, local.segments, log.log_start_offset, offset, log.env.clock.wall_ms())
        if log.high_watermark >= local.log_end_offset:
            log.update_high_watermark(local.end)
        else:
            log.update_first_unstable_offset()
        return True


def truncate_fully_and_start_at(log: PartitionLog, offset: int, log_start_offset: int | None = None) -> None:
    """Drop everything and go on with an empty segment at `offset`. Raises `StorageError`.

    The log start offset becomes `log_start_offset`, or `offset`.
    """
    with log.io(f"truncating {log.topic_partition} fully to {offset}"), log.lock:
        _start_over(log, offset, log_start_offset)


def _start_over(log: PartitionLog, offset: int, log_start_offset: int | None) -> None:
    logger.info("%s: truncating fully and starting at %d", log.topic_partition, offset)
    log.local.truncate_fully_and_start_at(offset)
    log.leader_epoch_cache.clear()
    log.producers.truncate_fully_and_start_at(offset)
    log.log_start_offset = offset if log_start_offset is None else log_start_offset
    if log_start_offset is not None:
        rebuild_producer_state(log.producers, log.local.segments, log_start_offset, offset, log.env.clock.wall_ms())
    log.update_high_watermark(log.local.end)


def delete_producer_snapshots(log: PartitionLog, segments: Iterable[LogSegment]) -> None:
    """Set the snapshots at the base offsets of deleted segments aside, and delete them with the same delay."""
    marked = []
    for segment in segments:
        path = log.producers.mark_snapshot_for_deletion(segment.base_offset)
        if path is not None:
            marked.append(path)
    if not marked:
        return

    def delete() -> None:
        with log.io("deleting producer snapshots"):
            for path in marked:
                log.producers.delete_marked_snapshot(path)

    log.env.scheduler.schedule_once("delete-producer-snapshot", delete, log.config.file_delete_delay_ms)
