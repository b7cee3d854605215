"""Appending to a partition log: as a leader, who checks and numbers records, and as a follower, who copies them.

Both do the same things in the same order, because a failed check must leave what Kafka leaves: leader epoch, size
limit, roll, producer state, write, and then what follows from the new log end offset.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from log.append_info import LogAppendInfo
from log.earlier_batches import recall_earlier_batches
from log.errors import (
    InvalidTxnStateError,
    OffsetsOutOfOrderError,
    RecordBatchTooLargeError,
    UnexpectedAppendOffsetError,
)
from log.files.segment import MAX_RELATIVE_OFFSET
from log.partition_log import PartitionLog
from log.producer_state import BatchMetadata, CompletedTxn, ProducerAppendInfo, VerificationGuard
from log.records.batch import Buffer, RecordBatch
from log.records.old_formats import LegacyBatch
from log.records.validation import AppendOrigin, check_for_follower, validate_for_leader

logger = logging.getLogger(__name__)


def append_as_leader(
    log: PartitionLog,
    records: Buffer,
    leader_epoch: int,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    verification_guard: VerificationGuard | None = None,
) -> LogAppendInfo:
    """Validate `records`, give them offsets and write them.

    A writable buffer is changed in place. Raises what `log.records.validation` and `log.producer_state` raise, and
    `StorageError`.
    """
    with log.lock:
        if log.offline:
            raise log.offline_error()
        if log.metadata_dirty:
            log.maybe_flush_metadata_file()
        local = log.local
        config = local.config
        clock = log.env.clock
        now_ms = clock.wall_ms()
        validated = validate_for_leader(
            records,
            origin=origin,
            config=config,
            next_offset=local.end.message_offset,
            leader_epoch=leader_epoch,
            now_ms=now_ms,
            now_ns=clock.monotonic_ns,
        )
        batch = validated.batch
        data = validated.records
        last_offset = batch.last_offset
        if leader_epoch >= 0:
            log.leader_epoch_cache.assign(leader_epoch, batch.base_offset)
        info = LogAppendInfo(
            batch.base_offset,
            last_offset,
            batch.max_timestamp,
            last_offset,
            validated.log_append_time,
            log.log_start_offset,
            leader_epoch,
            len(data),
            False,
            validated.conversion,
        )
        _write(log, info, data, (batch,), origin, verification_guard, now_ms)
    if last_offset + 1 - local.recovery_point >= config.flush_messages:
        log.flush()
    return info


def append_as_follower(log: PartitionLog, records: Buffer) -> LogAppendInfo:
    """Write batches as the leader sent them.

    Raises `UnexpectedAppendOffsetError` if they start below the log end, `CorruptRecordError`,
    `OffsetsOutOfOrderError`, `StorageError`.
    """
    found = check_for_follower(records)
    if not found.batches:
        return LogAppendInfo(log_start_offset=log.log_start_offset)
    data = memoryview(records)[: found.valid_bytes]
    with log.lock:
        if log.offline:
            raise log.offline_error()
        if log.metadata_dirty:
            log.maybe_flush_metadata_file()
        info = LogAppendInfo(
            found.first_offset,
            found.last_offset,
            found.max_timestamp,
            found.shallow_offset_of_max_timestamp,
            -1,
            log.log_start_offset,
            found.batches[-1].partition_leader_epoch,
            found.valid_bytes,
        )
        if not found.offsets_increase:
            raise OffsetsOutOfOrderError(
                f"{log.topic_partition}: offsets of the batches do not increase from {found.first_offset} to "
                f"{found.last_offset}"
            )
        if found.first_offset < log.log_end_offset:
            raise UnexpectedAppendOffsetError(
                f"{log.topic_partition}: batches from offset {found.first_offset} cannot follow the log end offset "
                f"{log.log_end_offset}",
                found.first_offset,
                found.last_offset,
            )
        _note_epochs(log, found.batches)
        _write(log, info, data, found.batches, AppendOrigin.REPLICATION, None, log.env.clock.wall_ms())
    if log.local.unflushed_messages >= log.local.config.flush_messages:
        log.flush()
    return info


def _note_epochs(log: PartitionLog, batches: Sequence[RecordBatch | LegacyBatch]) -> None:
    epochs = log.leader_epoch_cache
    for batch in batches:
        if batch.magic >= 2:
            if batch.partition_leader_epoch >= 0:
                epochs.assign(batch.partition_leader_epoch, batch.base_offset)
        elif not epochs.is_empty:
            # Data of an old format knows no epochs, so what is known of them does not hold for it.
            logger.warning("%s: a batch of an old format clears the leader epochs", log.topic_partition)
            epochs.clear()


def _write(
    log: PartitionLog,
    info: LogAppendInfo,
    data: memoryview,
    batches: Sequence[RecordBatch | LegacyBatch],
    origin: AppendOrigin,
    guard: VerificationGuard | None,
    now_ms: int,
) -> None:
    """Append `data`; a duplicate turns `info` into that of the first time."""
    local = log.local
    size = info.valid_bytes
    if size > local.config.segment_bytes:
        raise RecordBatchTooLargeError(
            f"{log.topic_partition}: {size} bytes of batches are more than a segment of "
            f"{local.config.segment_bytes} bytes can hold"
        )
    try:
        if local.segments.active.should_roll(info.max_timestamp, info.last_offset, size, now_ms):
            log.roll(_base_for_roll(info, batches))
        updates: dict[int, ProducerAppendInfo] | None = None
        completed: list[CompletedTxn] = []
        for batch in batches:
            if batch.producer_id >= 0:
                if updates is None:
                    updates = {}
                duplicate = _check_producer(log, batch, updates, completed, origin, guard)
                if duplicate is not None:
                    _answer_duplicate(log, info, duplicate)
                    return
        local.append(info.first_offset, info.last_offset, info.max_timestamp, info.offset_of_max_timestamp, data)
        log.after_append(info.last_offset, updates, completed)
    except OSError as error:
        raise log.storage_error(f"appending to {log.topic_partition}", error) from error


def _base_for_roll(info: LogAppendInfo, batches: Sequence[RecordBatch | LegacyBatch]) -> int:
    """The new segment's base: the first offset, which a follower does not know of a wrapper in an old format."""
    if batches[0].magic >= 2:
        return info.first_offset
    return max(0, info.last_offset - MAX_RELATIVE_OFFSET)


def _check_producer(
    log: PartitionLog,
    batch: RecordBatch | LegacyBatch,
    updates: dict[int, ProducerAppendInfo],
    completed: list[CompletedTxn],
    origin: AppendOrigin,
    guard: VerificationGuard | None,
) -> BatchMetadata | None:
    """Check sequence, epoch and transaction of a batch; returns the earlier batch that it repeats, if it does."""
    assert isinstance(batch, RecordBatch)
    producers = log.producers
    producer_id = batch.producer_id
    if origin is AppendOrigin.CLIENT:
        entry = producers.last_entry(producer_id)
        if entry is not None:
            duplicate = entry.find_duplicate(batch)
            if duplicate is None and entry.is_cut and entry.is_out_of_order(batch):
                recall_earlier_batches(entry, log.local.segments)
                duplicate = entry.find_duplicate(batch)
            if duplicate is not None:
                return duplicate
        if batch.is_transactional and not producers.is_verified(batch, guard):
            raise InvalidTxnStateError(
                f"{log.topic_partition}: the transaction of producer {producer_id} with epoch "
                f"{batch.producer_epoch} is not verified"
            )
    update = updates.get(producer_id)
    if update is None:
        update = updates[producer_id] = producers.prepare_update(producer_id, origin)
    txn = update.append(batch)
    if txn is not None:
        completed.append(txn)
    return None


def _answer_duplicate(log: PartitionLog, info: LogAppendInfo, batch: BatchMetadata) -> None:
    info.first_offset = batch.first_offset
    info.last_offset = batch.last_offset
    info.log_append_time = batch.timestamp
    info.log_start_offset = log.log_start_offset
    info.duplicate = True
