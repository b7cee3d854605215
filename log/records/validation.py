"""What the leader checks before it appends, and what it rewrites.

The checks stand in the order in which Kafka makes them, because the first that fails decides the error. Offsets and the
leader epoch are written into the batch in place; the batch is built anew only when the topic asks for another codec,
when the offsets inside a compressed batch have gaps, or when it arrives in an old format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from log.config import MAX_INT64, LogConfig
from log.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    RecordError,
    RecordFault,
    RecordTooLargeError,
)
from log.records.batch import (
    ATTRIBUTES_OFFSET,
    CODEC_MASK,
    CONTROL_MASK,
    CREATE_TIME,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    Buffer,
    RecordBatch,
)
from log.records.buffers import underlying
from log.records.checksum import crc32c
from log.records.compression import DECOMPRESSION_LIMIT, Codec, codec_for, codec_named
from log.records.old_formats import LegacyBatch, WrongMagic, iter_entries
from log.records.record import BatchBuilder, Record, iter_records, record_bytes
from log.records.record_walk import walk_records
from log.records.varint import decode_varint, decode_varlong

_SMALL_BATCH = 8192
"""Up to this size a copy costs less than finding out where the bytes lie."""
# Attributes that need more than the plain checks: compression, LogAppendTime, control batches.
_NOT_PLAIN = CODEC_MASK | TIMESTAMP_TYPE_MASK | CONTROL_MASK


class AppendOrigin(Enum):
    """Who hands in the records; decides which checks apply."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class Conversion(NamedTuple):
    """What an append had to do beyond checking records where they lie."""

    records: int
    """Written anew, in another format or codec."""
    time_ns: int
    """Spent on that."""
    memory_bytes: int
    """Taken for decompressed and for rebuilt records."""


@dataclass(slots=True)
class ValidatedRecords:
    """Records ready to be written.

    `records` are the bytes: the caller's buffer, changed in place, or a new one if `rebuilt`. `batch` is the header of
    the one batch in them. `max_timestamp` belongs to the batch; `offset_of_max_timestamp` is its last offset.
    `log_append_time` is -1 unless the topic uses LogAppendTime. `conversion`: None where nothing was decompressed.
    """

    records: memoryview
    batch: RecordBatch
    source_codec: int
    log_append_time: int
    rebuilt: bool
    conversion: Conversion | None = None

    @property
    def first_offset(self) -> int:
        return self.batch.base_offset

    @property
    def last_offset(self) -> int:
        return self.batch.last_offset

    @property
    def max_timestamp(self) -> int:
        return self.batch.max_timestamp

    @property
    def offset_of_max_timestamp(self) -> int:
        return self.batch.last_offset

    @property
    def record_count(self) -> int:
        return self.batch.record_count


def _untimed() -> int:
    return 0


def validate_for_leader(
    records: Buffer,
    *,
    origin: AppendOrigin,
    config: LogConfig,
    next_offset: int,
    leader_epoch: int,
    now_ms: int,
    now_ns: Callable[[], int] = _untimed,
    decompression_limit: int = DECOMPRESSION_LIMIT,
) -> ValidatedRecords:
    """Checks the records of one append and gives them offsets from `next_offset`.

    A writable buffer is changed in place (only after all checks have passed); read-only bytes are copied. What follows
    the last complete batch is dropped. Raises CorruptRecordError, InvalidRecordError, InvalidTimestampError,
    RecordTooLargeError, UnknownCompressionError, DecompressionError; nothing has changed then. `now_ns` is a monotonic
    clock that tells how long conversions take.
    """
    view = records if isinstance(records, memoryview) else memoryview(records)
    if view.readonly:
        view = memoryview(bytearray(view))
    if config.stores_as_sent and origin is AppendOrigin.CLIENT:
        batch = _plain_batch(view, config.max_message_bytes)
        if batch is not None:
            batch.assign(next_offset, leader_epoch)
            return ValidatedRecords(view, batch, Codec.NONE, NO_TIMESTAMP, rebuilt=False)
    batches = _shallow_checks(view, origin, config.max_message_bytes)
    first = batches[0]
    source = codec_for(first.codec)
    target = source if config.compression_type == "producer" else codec_named(config.compression_type)
    began_ns = now_ns()
    if isinstance(first, LegacyBatch):
        builder = _batch_builder(target, config, next_offset, leader_epoch, now_ms)
        found = _legacy_records(batches, config, now_ms, decompression_limit)
        converted = _rebuild(found, builder, source, config, now_ms)
        memory = builder.uncompressed_size * (1 if source == target == Codec.NONE else 2)
        converted.conversion = Conversion(builder.count, now_ns() - began_ns, memory)
        return converted
    if origin is AppendOrigin.CLIENT:
        _check_client_batch(first)
    in_place = source == target or (first.is_control and source == Codec.NONE)
    if origin is not AppendOrigin.CLIENT and in_place:
        # Coordinators hand in what this process has built.
        max_timestamp, offsets_in_sequence, plain, memory = first.max_timestamp, False, b"", 0
    else:
        max_timestamp, offsets_in_sequence, plain = _check_records(first, config, now_ms, decompression_limit)
        memory = HEADER_SIZE + len(plain)
        in_place = in_place and (offsets_in_sequence or source == Codec.NONE)
    append_time = config.message_timestamp_type == "LogAppendTime"
    if in_place:
        first.assign(next_offset, leader_epoch)
        if append_time:
            first.set_max_timestamp(LOG_APPEND_TIME, now_ms)
        else:
            first.set_max_timestamp(CREATE_TIME, max_timestamp)
        if len(view) != first.size_in_bytes:
            view = first.view
        conversion = Conversion(0, 0, memory) if source != Codec.NONE and memory else None
        append_ms = now_ms if append_time else NO_TIMESTAMP
        return ValidatedRecords(view, first, source, append_ms, rebuilt=False, conversion=conversion)
    builder = _batch_builder(target, config, next_offset, leader_epoch, now_ms, first)
    keeps_times = first.timestamp_type == CREATE_TIME and not append_time
    if keeps_times and offsets_in_sequence and _begins_with_base_timestamp(plain):
        # The new batch would hold the same record bytes, so no record is built.
        builder.append_encoded(plain, first.record_count, first.base_timestamp, max_timestamp)
        built = _finished(builder, source, config, now_ms)
    else:
        built = _rebuild(iter_records(first, decompression_limit), builder, source, config, now_ms)
    built.conversion = Conversion(builder.count, now_ns() - began_ns, memory + builder.uncompressed_size)
    return built


def _plain_batch(records: memoryview, max_bytes: int) -> RecordBatch | None:
    """The common case in one go: one uncompressed batch of a client, at fault in nothing and with the max timestamp it
    should have, for a topic that keeps batches as they are. None where any check needs the long way."""
    size = len(records)
    if not HEADER_SIZE < size <= max_bytes or records[MAGIC_OFFSET] != 2:
        return None
    batch = RecordBatch(records)
    count = batch.record_count
    if (
        batch.batch_length + LOG_OVERHEAD != size
        or batch.base_offset
        or batch.attributes & _NOT_PLAIN
        or count <= 0
        or batch.last_offset_delta + 1 != count
        or (batch.base_sequence < 0 <= batch.producer_id)
        or crc32c(records[ATTRIBUTES_OFFSET:]) != batch.crc
    ):
        return None
    if size <= _SMALL_BATCH:
        largest, smallest, _, _ = walk_records(records[HEADER_SIZE:].tobytes(), count)
    else:
        data, start = underlying(records)
        largest, smallest, _, _ = walk_records(data, count, start + HEADER_SIZE, start + size)
    base = batch.base_timestamp
    return batch if base + smallest >= 0 and base + largest == batch.max_timestamp else None


def _shallow_checks(records: Buffer, origin: AppendOrigin, max_bytes: int) -> Sequence[RecordBatch | LegacyBatch]:
    # Nearly always there is exactly one batch, and it is of magic 2.
    size = len(records)
    if size >= HEADER_SIZE and records[MAGIC_OFFSET] == 2:
        batch = RecordBatch(records)
        if batch.batch_length + LOG_OVERHEAD == size:
            _check_shallow(batch, origin, max_bytes)
            return (batch,)
    batches: list[RecordBatch | LegacyBatch] = []
    for entry in iter_entries(records, strict_magic=True):
        _check_shallow(entry, origin, max_bytes)
        batches.append(entry)
    if not batches:
        raise InvalidRecordError("there is no complete record batch")
    first = batches[0]
    if len(batches) > 1 and (first.magic >= 2 or first.is_compressed):
        raise InvalidRecordError("expected one record batch, found several")
    if any(batch.magic != first.magic for batch in batches):
        raise InvalidRecordError("the batches have different formats").counted_as(RecordFault.MAGIC)
    return batches


def _check_shallow(batch: RecordBatch | LegacyBatch, origin: AppendOrigin, max_bytes: int) -> None:
    if origin is AppendOrigin.CLIENT and batch.magic >= 2 and batch.base_offset != 0:
        raise InvalidRecordError(f"the base offset of a record batch must be 0, not {batch.base_offset}")
    size = batch.size_in_bytes
    if size > max_bytes:
        raise RecordTooLargeError(f"the record batch has {size} bytes, more than the {max_bytes} that the topic allows")
    batch.ensure_valid()
    codec_for(batch.codec)


def _check_client_batch(batch: RecordBatch) -> None:
    if batch.last_offset_delta < 0:
        raise _offset_fault(f"the last offset delta {batch.last_offset_delta} is negative")
    if batch.record_count <= 0:
        raise _offset_fault(f"the record count {batch.record_count} is not positive")
    if batch.last_offset_delta + 1 != batch.record_count:
        raise _offset_fault(f"{batch.record_count} records do not fit the last offset delta {batch.last_offset_delta}")
    if batch.is_control:
        raise _offset_fault("clients may not write control batches")
    if batch.has_producer_id and batch.base_sequence < 0:
        raise _offset_fault(f"the batch of producer {batch.producer_id} has the sequence number {batch.base_sequence}")


def _offset_fault(message: str) -> InvalidRecordError:
    return InvalidRecordError(message).counted_as(RecordFault.OFFSET_OR_SEQUENCE)


def _begins_with_base_timestamp(plain: bytes) -> bool:
    """Whether the timestamp delta of the first record is 0, as it is when a batch is built."""
    _, behind_length = decode_varint(plain, 0)
    return decode_varlong(plain, behind_length + 1)[0] == 0


def _check_records(batch: RecordBatch, config: LogConfig, now_ms: int, limit: int) -> tuple[int, bool, bytes]:
    """(largest record timestamp, whether the offset deltas count up from 0, the records without a codec)."""
    plain = record_bytes(batch, limit)
    largest_delta, smallest_delta, in_sequence, null_keys = walk_records(plain, batch.record_count)
    if batch.attributes & TIMESTAMP_TYPE_MASK:
        largest = smallest = batch.max_timestamp
    else:
        largest = batch.base_timestamp + largest_delta
        smallest = batch.base_timestamp + smallest_delta
        if largest > MAX_INT64 and config.message_timestamp_type != "LogAppendTime":
            raise InvalidTimestampError(f"the timestamp {largest} does not fit 64 bits")
    if (null_keys and config.compact) or not _timestamps_pass(batch, largest, smallest, config, now_ms):
        # Some record is at fault: look at each, so that the answer names them all.
        _raise_record_errors(
            check_record(record, index, batch.timestamp_type, config, now_ms)
            for index, record in enumerate(iter_records(batch, limit))
        )
    return largest, in_sequence, plain


def _timestamps_pass(batch: RecordBatch, largest: int, smallest: int, config: LogConfig, now_ms: int) -> bool:
    if config.message_timestamp_type == "LogAppendTime":
        return batch.timestamp_type == CREATE_TIME
    if smallest >= 0 and config.any_timestamp:
        return True
    before, after = config.timestamp_before_max_ms, config.timestamp_after_max_ms
    if smallest <= NO_TIMESTAMP and (batch.timestamp_type == LOG_APPEND_TIME or smallest < NO_TIMESTAMP):
        return False
    return (before == MAX_INT64 or now_ms - smallest <= before) and (after == MAX_INT64 or largest - now_ms <= after)


class _NoKey(RecordError):
    """A record without a key in a compacted topic."""

    __slots__ = ()


class _TimestampFault(RecordError):
    """A record error that makes the whole answer INVALID_TIMESTAMP."""

    __slots__ = ()


def check_record(record: Record, index: int, timestamp_type: int, config: LogConfig, now_ms: int) -> RecordError | None:
    """What the topic's settings refuse about one record, or None."""
    if config.compact and record.key is None:
        return _NoKey(index, "a record of a compacted topic needs a key")
    timestamp = record.timestamp
    if config.message_timestamp_type == "LogAppendTime":
        if timestamp_type == LOG_APPEND_TIME:
            return _TimestampFault(index, "producers may not set the timestamp type LogAppendTime")
        return None
    if timestamp == NO_TIMESTAMP:
        if timestamp_type == LOG_APPEND_TIME:
            return _TimestampFault(index, "a batch of type LogAppendTime needs a timestamp")
        return None
    if timestamp < NO_TIMESTAMP:
        return _TimestampFault(index, f"the timestamp {timestamp} is negative")
    before, after = config.timestamp_before_max_ms, config.timestamp_after_max_ms
    if now_ms - timestamp > before or timestamp - now_ms > after:
        return _TimestampFault(
            index,
            f"the timestamp {timestamp} is out of range; it must lie within [{now_ms - before}, {now_ms + after}]",
        )
    return None


def _raise_record_errors(found: Iterable[RecordError | None]) -> None:
    errors = [error for error in found if error is not None]
    if not errors:
        return
    plain = [RecordError(error.batch_index, error.message) for error in errors]
    kind = InvalidTimestampError if any(isinstance(error, _TimestampFault) for error in errors) else InvalidRecordError
    refusal = kind(f"{len(errors)} record(s) are refused, the first: {plain[0].message}", plain)
    for fault, cause in ((RecordFault.NO_KEY, _NoKey), (RecordFault.MAGIC, WrongMagic)):
        count = sum(isinstance(error, cause) for error in errors)
        if count:
            refusal.counted_as(fault, count)
    raise refusal


def _batch_builder(
    target: Codec,
    config: LogConfig,
    next_offset: int,
    leader_epoch: int,
    now_ms: int,
    producer: RecordBatch | None = None,
) -> BatchBuilder:
    """For the batch that replaces what came; `producer` is that batch, if it is of the current format."""
    builder = BatchBuilder(
        base_offset=next_offset,
        codec=target,
        level=_level(target, config),
        partition_leader_epoch=leader_epoch,
        log_append_time=now_ms if config.message_timestamp_type == "LogAppendTime" else None,
    )
    if producer is not None:
        builder.producer_id = producer.producer_id
        builder.producer_epoch = producer.producer_epoch
        builder.base_sequence = producer.base_sequence
        builder.transactional = producer.is_transactional
        builder.control = producer.is_control
    return builder


def _rebuild(
    found: Iterable[Record], builder: BatchBuilder, source: Codec, config: LogConfig, now_ms: int
) -> ValidatedRecords:
    try:
        for record in found:
            builder.append(record.timestamp, record.key, record.value, record.headers)
    except ValueError as error:
        raise InvalidTimestampError(str(error)) from None
    if builder.count == 0:
        raise InvalidRecordError("there is no record")
    return _finished(builder, source, config, now_ms)


def _finished(builder: BatchBuilder, source: Codec, config: LogConfig, now_ms: int) -> ValidatedRecords:
    built = builder.build()
    if len(built) > config.max_message_bytes:
        raise RecordTooLargeError(
            f"the rebuilt record batch has {len(built)} bytes, more than the {config.max_message_bytes} "
            "that the topic allows"
        )
    append_time = now_ms if config.message_timestamp_type == "LogAppendTime" else NO_TIMESTAMP
    return ValidatedRecords(memoryview(built), RecordBatch(built), source, append_time, rebuilt=True)


def _level(codec: Codec, config: LogConfig) -> int | None:
    """The topic's level if the topic forces the codec, else the codec's default."""
    if config.compression_type != codec.config_name:
        return None
    match codec:
        case Codec.GZIP:
            return config.compression_gzip_level
        case Codec.LZ4:
            return config.compression_lz4_level
        case Codec.ZSTD:
            return config.compression_zstd_level
    return None


def _legacy_records(
    batches: Sequence[RecordBatch | LegacyBatch], config: LogConfig, now_ms: int, limit: int
) -> list[Record]:
    """All records of entries in an old format; raises as one what is wrong with any of them."""
    found: list[Record] = []
    errors: list[RecordError | None] = []
    for batch in batches:
        assert isinstance(batch, LegacyBatch)
        for record in batch.iter_records(limit, check_inner=True, record_errors=errors, first_index=len(found)):
            errors.append(check_record(record, len(found), batch.timestamp_type, config, now_ms))
            found.append(record)
    _raise_record_errors(errors)
    return found


@dataclass(slots=True)
class FollowerBatches:
    """What a follower append needs to know about its data: the complete batches and their extremes.

    `valid_bytes` ends at the last complete batch. `shallow_offset_of_max_timestamp` is the last offset of the first
    batch that has `max_timestamp`.
    """

    batches: list[RecordBatch | LegacyBatch]
    valid_bytes: int
    first_offset: int
    last_offset: int
    max_timestamp: int
    shallow_offset_of_max_timestamp: int
    offsets_increase: bool
    source_codec: int


def check_for_follower(records: Buffer) -> FollowerBatches:
    """Checks replicated data: sizes and checksums. Raises CorruptRecordError.

    `first_offset` is the base offset of the first batch; for an old format, whose wrappers carry their last offset
    only, it is the last offset of the first batch. With no complete batch all offsets are -1.
    """
    batches: list[RecordBatch | LegacyBatch] = []
    last_offset = first_offset = -1
    max_timestamp, offset_of_max = NO_TIMESTAMP, -1
    increase, codec, position = True, 0, 0
    for batch in iter_entries(records):
        batch.ensure_valid()
        batch_last = batch.last_offset
        if not batches:
            first_offset = batch.base_offset if batch.magic >= 2 else batch_last
        elif batch_last <= last_offset:
            increase = False
        last_offset = batch_last
        if batch.max_timestamp > max_timestamp:
            max_timestamp, offset_of_max = batch.max_timestamp, batch_last
        codec = batch.codec or codec
        position = batch.position + batch.size_in_bytes
        batches.append(batch)
    return FollowerBatches(batches, position, first_offset, last_offset, max_timestamp, offset_of_max, increase, codec)
