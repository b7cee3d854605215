"""The steps of one move between log directories, on one partition: begin, copy a slice, exchange, give up.

A future log is a follower of the current log on the same broker: it is cut to what the current log's leader epochs
confirm, it appends what the current log holds, high watermark and log start offset follow. Nothing here waits.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import NamedTuple

from broker.replication.follower.truncation_target import truncation_target
from broker.replication.partition import Partition
from broker.replication.results import EpochEndOffset
from log.fetch_data import FetchIsolation
from log.management.manager import LogManager
from log.offset_metadata import LogOffsetMetadata
from log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


class Progress(Enum):
    GONE = "the partition has no future log any more"
    COPIED = "there is more to copy"
    CAUGHT_UP = "the future log had all that the current one had a moment ago"


class Slice(NamedTuple):
    progress: Progress
    size: int = 0


def has_other_target(partition: Partition, directory: str) -> bool:
    """Whether a move is on its way, and to another directory."""
    future = partition.future_log
    return future is not None and future.parent_dir != directory


def begin(partition: Partition, log_manager: LogManager, directory: str) -> bool:
    """Make or take over the future log in `directory`, an absolute path; False if the log is there already.

    Raises `StorageError`, also while any log directory is offline.
    """
    with partition.lock:
        current = partition.log
        if current is None or current.parent_dir == directory:
            return False
        if partition.future_log is None:
            future = log_manager.get_or_create_log(partition.topic_partition, is_future=True, topic_id=current.topic_id)
            partition.future_log = future
            if future.latest_epoch is None and future.log_end_offset > current.high_watermark:
                # Without leader epochs only what is committed is known to be the same.
                partition.truncate_to(current.high_watermark, is_future=True)
            logger.info("%s: moving from %s to %s", partition.topic_partition, current.parent_dir, future.parent_dir)
        return True


def give_up(partition: Partition, log_manager: LogManager, *, delete: bool = True) -> None:
    """Forget the future log. `delete` takes its files away; not to be asked of a directory that has failed."""
    with partition.lock:
        future, partition.future_log = partition.future_log, None
        if future is not None and delete:
            log_manager.async_delete(partition.topic_partition, is_future=True)


def copy_slice(partition: Partition, max_bytes: int) -> Slice:
    """Copy up to `max_bytes` (at least one batch) behind the end of the future log."""
    with partition.lock:
        current, future = partition.log, partition.future_log
        if current is None or future is None:
            return Slice(Progress.GONE)
        _align(partition, current, future)
        cuts = partition.truncations
        offset = future.log_end_offset
        end = current.log_end_offset
    # Cold pages may have to come from the disk, so the partition is not held up by the read.
    data = _read(current, offset, max_bytes)
    with partition.lock:
        if partition.log is not current or partition.future_log is not future or partition.truncations != cuts:
            return Slice(Progress.COPIED)
        _append(partition, current, future, data)
        caught_up = future.log_end_offset >= end or not data
    return Slice(Progress.CAUGHT_UP if caught_up else Progress.COPIED, len(data))


def exchange(partition: Partition, log_manager: LogManager, max_bytes: int) -> bool:
    """Copy what is left, if it is one read of at most `max_bytes`, and let the future log take the current one's place.

    Nothing can be appended meanwhile, so that a partition that is always written to gets there too. False if more is
    left than that.
    """
    with partition.lock:
        current, future = partition.log, partition.future_log
        if current is None or future is None:
            return False
        _align(partition, current, future)
        if future.log_end_offset < current.log_end_offset:
            _append(partition, current, future, _read(current, future.log_end_offset, max_bytes))
        if future.log_end_offset != current.log_end_offset:
            return False
        for entry in current.leader_epoch_cache.entries:
            # An epoch in which nothing was written yet is known by no batch.
            if future.latest_epoch is None or entry.epoch > future.latest_epoch:
                future.maybe_assign_epoch_start_offset(entry.epoch, entry.start_offset)
        try:
            log_manager.moves.replace_current(partition.topic_partition)
        finally:
            if log_manager.get_log(partition.topic_partition) is future:
                _use(partition, future)
        return True


def _use(partition: Partition, future: PartitionLog) -> None:
    """Places in the old log's files mean nothing in the new one's, so those of followers are forgotten."""
    partition.end_rests()
    partition.log, partition.future_log = future, None
    for replica in partition.remote_replicas.values():
        replica.log_end_offset_metadata = LogOffsetMetadata(replica.log_end_offset)


def _align(partition: Partition, current: PartitionLog, future: PartitionLog) -> None:
    """Cut the future log to what it has in common with the current one."""
    if future.log_end_offset < current.log_start_offset:
        partition.truncate_fully_and_start_at(current.log_start_offset, is_future=True)
        return
    while True:
        latest = future.latest_epoch
        if latest is None:
            if future.log_end_offset > current.log_end_offset:
                partition.truncate_to(current.log_end_offset, is_future=True)
            return
        answer = EpochEndOffset(*current.end_offset_for_epoch(latest))
        target = truncation_target(future, current.high_watermark, answer)
        if target.offset < future.log_end_offset or not target.completed:
            logger.info("%s: cutting the future log to %d", partition.topic_partition, target.offset)
            partition.truncate_to(target.offset, is_future=True)
        if target.completed or future.latest_epoch == latest:
            return


def _read(log: PartitionLog, offset: int, max_bytes: int) -> bytes:
    found = log.read(offset, max_bytes, FetchIsolation.LOG_END, min_one_message=True)
    try:
        return found.records.read()
    finally:
        found.records.release()


def _append(partition: Partition, current: PartitionLog, future: PartitionLog, data: bytes) -> None:
    if data:
        partition.append_as_follower(data, is_future=True)
    if future.high_watermark != current.high_watermark:
        future.update_high_watermark(current.high_watermark)
    if current.log_start_offset > future.log_start_offset and current.log_start_offset <= future.high_watermark:
        future.maybe_increment_log_start_offset(current.log_start_offset, "the current log's start")
