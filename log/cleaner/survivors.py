"""Which batches and records survive a cleaning pass, and how a batch is written again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

from log.cleaner.offset_map import OffsetMap
from log.cleaner.transactions import CleanedTransactions
from log.errors import CorruptRecordError
from log.records.batch import HEADER_SIZE, LOG_APPEND_TIME, NO_TIMESTAMP, RecordBatch, write_header
from log.records.compression import STORED_DECOMPRESSION_LIMIT, Codec
from log.records.old_formats import LegacyBatch, encode_message, encode_wrapper
from log.records.record import BatchBuilder, Record, batch_attributes, iter_keys, iter_records


class LastRecord(NamedTuple):
    """The newest batch of an active producer: its last offset, or None when only a marker is known."""

    last_data_offset: int | None
    producer_epoch: int


@dataclass(slots=True)
class CleanerStats:
    """What a cleaning has read and written. `map_full`: the rest of the dirty part is for another cleaning."""

    bytes_read: int = 0
    bytes_written: int = 0
    map_bytes_read: int = 0
    messages_read: int = 0
    messages_written: int = 0
    map_messages_read: int = 0
    invalid_messages: int = 0
    started_ms: int = 0
    ended_ms: int = 0
    buffer_utilization: float = 0.0
    map_full: bool = False

    @property
    def elapsed_seconds(self) -> float:
        return (self.ended_ms - self.started_ms) / 1000


@dataclass(slots=True)
class RetentionRules:
    """The rules of one pass over one segment. Times in milliseconds.

    `keep_legacy_tombstones` decides about tombstones of old formats, which have no delete horizon.
    """

    offsets: OffsetMap
    transactions: CleanedTransactions
    last_records: Mapping[int, LastRecord]
    now_ms: int
    delete_retention_ms: int
    keep_legacy_tombstones: bool
    stats: CleanerStats

    def clean(self, batch: RecordBatch | LegacyBatch) -> bytes | memoryview | None:
        """What is left of a batch: the same bytes, a new batch, or None.

        Raises CorruptRecordError when the checksum is wrong, so that damage does not get a fresh one.
        """
        batch.ensure_valid()
        if isinstance(batch, LegacyBatch):
            return self._clean_legacy(batch)
        outlived = False
        if batch.is_control:
            outlived = self.transactions.on_control_batch(batch)
            horizon = batch.delete_horizon_ms
            discard = outlived and horizon is not None and horizon <= self.now_ms
        else:
            discard = self.transactions.on_data_batch(batch)
        keep_empty = batch.has_producer_id and self._is_last_of_producer(batch)
        if discard and not keep_empty:
            self.stats.messages_read += max(0, batch.record_count)
            return None
        if discard:
            self.stats.messages_read += max(0, batch.record_count)
            return empty_batch(batch)
        flags: list[bool] = []
        tombstones = False
        for offset, key, has_value in iter_keys(batch, STORED_DECOMPRESSION_LIMIT):
            keep = batch.is_control or self._keep(batch, offset, key, has_value)
            flags.append(keep)
            tombstones = tombstones or (keep and not has_value)
        kept = flags.count(True)
        self.stats.messages_read += len(flags)
        self.stats.messages_written += kept
        if not kept:
            return empty_batch(batch) if keep_empty else None
        horizon = batch.delete_horizon_ms
        if horizon is None and (tombstones or outlived):
            horizon = self.now_ms + self.delete_retention_ms
        elif kept == len(flags):
            return batch.view
        records = list(compress(iter_records(batch, STORED_DECOMPRESSION_LIMIT), flags))
        return rebuild_batch(batch, records, horizon)

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        last = self.last_records.get(batch.producer_id)
        if last is None:
            return False
        if last.last_data_offset is not None:
            return batch.last_offset == last.last_data_offset
        return batch.is_control and batch.producer_epoch == last.producer_epoch

    def _keep(self, batch: RecordBatch | LegacyBatch, offset: int, key: bytes | None, has_value: bool) -> bool:
        offsets = self.offsets
        if offset > offsets.latest_offset:
            return True
        if key is None:
            self.stats.invalid_messages += 1
            return False
        if offset < offsets.get(key):
            return False
        if has_value:
            return True
        if batch.magic < 2:
            return self.keep_legacy_tombstones
        horizon = batch.delete_horizon_ms
        return horizon is None or self.now_ms < horizon

    def _clean_legacy(self, batch: LegacyBatch) -> bytes | memoryview | None:
        found = list(batch.iter_records(STORED_DECOMPRESSION_LIMIT))
        kept = [r for r in found if self._keep(batch, r.offset, r.key, r.value is not None)]
        self.stats.messages_read += len(found)
        self.stats.messages_written += len(kept)
        if not kept:
            return None
        if len(kept) == len(found):
            return batch.view
        kind = max(0, batch.timestamp_type)
        if not batch.is_compressed:
            record = kept[0]
            return encode_message(
                batch.magic, record.offset, record.timestamp, record.key, record.value, timestamp_type=kind
            )
        return encode_wrapper(batch.magic, kept, batch.codec, timestamp_type=kind)


def rebuild_batch(batch: RecordBatch, kept: list[Record], delete_horizon_ms: int | None) -> bytes:
    """The batch with only the `kept` records; first and last offset, producer fields and flags stay."""
    builder = BatchBuilder(
        base_offset=batch.base_offset,
        codec=batch.codec,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control,
        partition_leader_epoch=batch.partition_leader_epoch,
        log_append_time=batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else None,
        delete_horizon_ms=delete_horizon_ms,
    )
    try:
        for record in kept:
            builder.append(record.timestamp, record.key, record.value, record.headers, record.offset)
    except ValueError as error:
        raise CorruptRecordError(f"the batch at offset {batch.base_offset} cannot be written again: {error}") from None
    return bytes(builder.build(last_offset=batch.last_offset))


def empty_batch(batch: RecordBatch) -> bytes:
    """The header alone: it keeps a producer's last sequence number and epoch alive."""
    out = bytearray(HEADER_SIZE)
    write_header(
        out,
        0,
        base_offset=batch.base_offset,
        size=HEADER_SIZE,
        partition_leader_epoch=batch.partition_leader_epoch,
        attributes=batch_attributes(
            Codec.NONE, batch.timestamp_type, transactional=batch.is_transactional, control=batch.is_control
        ),
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=0,
    )
    return bytes(out)
