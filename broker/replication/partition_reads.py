"""What handlers ask of a partition: records for a fetch, offsets by time or epoch, deleting of records.

Where the request brings a leader epoch, one that is not current is refused before anything else.
"""

from __future__ import annotations

from broker.replication.isr.changes import update_follower
from broker.replication.partition import NO_EPOCH, Partition
from broker.replication.results import (
    CONSUMER_REPLICA_ID,
    DEBUGGING_REPLICA_ID,
    EpochEndOffset,
    FetchParams,
    FetchPartitionData,
    LogReadResult,
)
from log.fetch_data import FetchIsolation
from log.offset_lookup import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    fetch_offset_by_timestamp,
    legacy_offsets_before,
)
from log.offset_metadata import TimestampAndOffset
from log.partition_log import PartitionLog
from network.protocol.errors import ApiError, ErrorCode

UNDEFINED_EPOCH_OFFSET = EpochEndOffset(-1, -1)


def read_records(
    partition: Partition,
    params: FetchParams,
    data: FetchPartitionData,
    max_bytes: int,
    min_one_message: bool,
    fetch_time_ms: int,
    is_progress: bool,
) -> LogReadResult:
    """Read up to `max_bytes` for a fetch; a follower's progress is noted unless the answer diverges.

    The high watermark in the result is that from before the read. Raises `ApiError` or a log error.
    """
    follower = None
    with partition.lock:
        log = partition.local_log(data.current_leader_epoch, require_leader=params.only_leader)
        if params.replica_id >= 0:
            follower = partition.follower(params.replica_id, data.current_leader_epoch)
        leader_end = log.log_end_offset
        result = LogReadResult(
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            leader_log_end_offset=leader_end,
        )
        if data.last_fetched_epoch >= 0:
            diverging = find_divergence(log, data)
            if diverging is not None:
                result.diverging_epoch = diverging
                return result
        info = log.read(data.fetch_offset, max_bytes if max_bytes > 0 else 0, params.isolation, min_one_message)
        if max_bytes < 0 and (info.records.size or info.first_entry_incomplete):
            info.records.release()
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a fetch of at most {max_bytes} bytes")
        result.fetch_offset_metadata = info.fetch_offset_metadata
        if info.first_entry_incomplete and not params.hard_max_bytes:
            # From version 3 a batch that does not fit is left out; older clients see a part of it and ask for more.
            info.records.release()
        else:
            result.records = info.records
            result.size = info.records.size
        result.aborted_transactions = info.aborted_transactions
    if follower is not None and is_progress:
        update_follower(
            partition,
            follower,
            info.fetch_offset_metadata,
            data.log_start_offset,
            fetch_time_ms,
            leader_end,
            params.replica_epoch,
            log,
        )
    return result


def find_divergence(log: PartitionLog, data: FetchPartitionData) -> EpochEndOffset | None:
    """Where the fetcher's log left ours, or `None` if its last epoch and offset fit (KIP-595 truncation on fetch)."""
    epoch, end_offset = log.end_offset_for_epoch(data.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"could not determine the end offset of the last fetched epoch {data.last_fetched_epoch}",
        )
    if data.fetch_offset < log.log_start_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < data.last_fetched_epoch or end_offset < data.fetch_offset:
        return EpochEndOffset(epoch, end_offset)
    return None


def epoch_end_offset(
    partition: Partition, current_leader_epoch: int, epoch: int, *, require_leader: bool
) -> EpochEndOffset:
    """The end offset of `epoch`, or of the largest epoch below it. Undefined is (-1, -1)."""
    with partition.lock:
        log = partition.local_log(current_leader_epoch, require_leader=require_leader)
        return EpochEndOffset(*log.end_offset_for_epoch(epoch))


def offset_for_timestamp(
    partition: Partition,
    timestamp: int,
    isolation: FetchIsolation | None,
    current_leader_epoch: int,
    replica_id: int,
) -> TimestampAndOffset | None:
    """ListOffsets for one partition; `isolation` is `None` for a follower, which sees the whole log.

    Raises OFFSET_NOT_AVAILABLE while the high watermark has not reached the start of the leader's epoch, so that
    offsets never seem to go back after a leader change.
    """
    with partition.lock:
        log = partition.local_log(current_leader_epoch, require_leader=replica_id != DEBUGGING_REPLICA_ID)
        leader_epoch = partition.leader_epoch
        high_watermark = log.high_watermark
        if isolation is None:
            last_fetchable = log.log_end_offset
        elif isolation is FetchIsolation.TXN_COMMITTED:
            last_fetchable = log.last_stable_offset
        else:
            last_fetchable = high_watermark
        epoch_start = partition.leader_epoch_start_offset
        lagging = isolation is not None and epoch_start is not None and high_watermark < epoch_start
    if timestamp == LATEST_TIMESTAMP:
        if lagging:
            raise _offset_not_available(partition, high_watermark)
        return TimestampAndOffset(-1, last_fetchable, leader_epoch)
    found = fetch_offset_by_timestamp(log, timestamp)
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return found
    if found is not None and found.offset < last_fetchable:
        return found
    if lagging:
        raise _offset_not_available(partition, high_watermark)
    return None


def legacy_offsets(partition: Partition, timestamp: int, max_offsets: int, is_consumer: bool) -> list[int]:
    """ListOffsets v0: segment base offsets, newest first."""
    with partition.lock:
        log = partition.local_log(NO_EPOCH, require_leader=True)
        high_watermark = log.high_watermark
    offsets = legacy_offsets_before(log, timestamp, max_offsets)
    if not is_consumer:
        return list(offsets)
    if any(offset > high_watermark for offset in offsets):
        return [high_watermark, *(offset for offset in offsets if offset < high_watermark)]
    return list(offsets)


def delete_records(partition: Partition, requested_offset: int) -> tuple[int, int]:
    """Raise the leader's log start. Returns (offset asked for, low watermark). -1 asks for the high watermark.

    Raises POLICY_VIOLATION without the delete policy, OFFSET_OUT_OF_RANGE beyond the high watermark.
    """
    with partition.lock:
        log = partition.leader_log()
        if log is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not log.config.delete:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"Records of partition {partition.topic_partition} can not be deleted due to the configured policy",
            )
        offset = log.high_watermark if requested_offset == -1 else requested_offset
        if offset < 0 or offset > log.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        log.maybe_increment_log_start_offset(offset, "client delete records deletion")
        partition.end_rests()
        return offset, partition.low_watermark()


def is_consumer(replica_id: int) -> bool:
    return replica_id in (CONSUMER_REPLICA_ID, DEBUGGING_REPLICA_ID)


def _offset_not_available(partition: Partition, high_watermark: int) -> ApiError:
    return ApiError(
        ErrorCode.OFFSET_NOT_AVAILABLE,
        f"Failed to fetch offsets for partition {partition.topic_partition}: the high watermark {high_watermark} is "
        f"below the start of leader epoch {partition.leader_epoch}",
    )
