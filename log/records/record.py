"""Records inside a batch: reading them, building batches, and control records."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol, runtime_checkable

from log.errors import InvalidRecordError
from log.records.batch import (
    CODEC_MASK,
    CONTROL_MASK,
    CREATE_TIME,
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAX_INT32,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    Buffer,
    RecordBatch,
    increment_sequence,
    write_header,
)
from log.records.compression import DECOMPRESSION_LIMIT, Codec, compress, decompress
from log.records.varint import decode_varint, decode_varlong, encode_varint, encode_varlong

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record with its absolute offset and timestamp (milliseconds since the epoch, -1 for none).

    `sequence` is the producer's sequence number, or -1.
    """

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    sequence: int = NO_SEQUENCE


@runtime_checkable
class SupportsRecords(Protocol):
    """A batch of an older format, which iterates its own records."""

    def iter_records(self, limit: int) -> Iterator[Record]: ...


def iter_records(batch: RecordBatch | SupportsRecords, limit: int = DECOMPRESSION_LIMIT) -> Iterator[Record]:
    """The records of a batch, in order, of any codec and format. The checksum is not looked at.

    Raises InvalidRecordError when the records break the format (a declared length that does not fit, bytes left over),
    and what `log.records.compression.decompress` raises. `limit` bounds the decompressed size in bytes.
    """
    if not isinstance(batch, RecordBatch):
        return batch.iter_records(limit)
    return _iter_records_v2(batch, limit)


def record_bytes(batch: RecordBatch, limit: int = DECOMPRESSION_LIMIT) -> bytes:
    """The plain record bytes of a batch. Raises as `log.records.compression.decompress`."""
    if not batch.attributes & CODEC_MASK:
        return bytes(batch.payload)
    return decompress(batch.codec, batch.payload, limit)


def _iter_records_v2(batch: RecordBatch, limit: int) -> Iterator[Record]:
    count = batch.record_count
    if count < 0:
        raise InvalidRecordError(f"record count {count} is negative")
    if count == 0 and len(batch.payload) == 0:
        return
    data = record_bytes(batch, limit)
    base_offset, base_timestamp = batch.base_offset, batch.base_timestamp
    base_sequence = batch.base_sequence
    append_time = batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else None
    end = len(data)
    position = 0
    for _ in range(count):
        length, position = decode_varint(data, position)
        record_end = position + length
        if length < 0 or record_end > end:
            raise InvalidRecordError(f"a record of {length} bytes at {position} does not fit {end} bytes of records")
        # The attributes byte has no meaning yet.
        timestamp_delta, position = decode_varlong(data, position + 1)
        offset_delta, position = decode_varint(data, position)
        key, position = _nullable_bytes(data, position, record_end)
        value, position = _nullable_bytes(data, position, record_end)
        header_count, position = decode_varint(data, position)
        headers: tuple[Header, ...] = ()
        if header_count:
            headers, position = _headers(data, position, record_end, header_count)
        if position != record_end:
            raise InvalidRecordError(f"a record announces {length} bytes but its fields end elsewhere")
        yield Record(
            base_offset + offset_delta,
            base_timestamp + timestamp_delta if append_time is None else append_time,
            key,
            value,
            headers,
            NO_SEQUENCE if base_sequence < 0 else increment_sequence(base_sequence, offset_delta),
        )
    if position != end:
        raise InvalidRecordError(f"{end - position} bytes are left behind the {count} declared records")


def iter_keys(
    batch: RecordBatch | SupportsRecords, limit: int = DECOMPRESSION_LIMIT
) -> Iterator[tuple[int, bytes | None, bool]]:
    """(offset, key, whether there is a value) of each record: what compaction looks at, for less than whole records.

    Raises as `iter_records`, but does not look into values and headers.
    """
    if not isinstance(batch, RecordBatch):
        for record in batch.iter_records(limit):
            yield record.offset, record.key, record.value is not None
        return
    base_offset = batch.base_offset
    data = record_bytes(batch, limit) if batch.record_count or batch.payload else b""
    position, end = 0, len(data)
    try:
        for _ in range(batch.record_count):
            length, position = decode_varint(data, position)
            record_end = position + length
            if length < 0 or record_end > end:
                raise InvalidRecordError(
                    f"a record of {length} bytes at {position} does not fit {end} bytes of records"
                )
            position += 1
            while data[position] >= 0x80:
                position += 1
            byte = data[position + 1]
            if byte < 0x80:
                delta = (byte >> 1) ^ -(byte & 1)
                position += 2
            else:
                delta, position = decode_varint(data, position + 1)
            byte = data[position]
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                length, position = decode_varint(data, position)
            key = None
            if length >= 0:
                key = data[position : position + length]
                position += length
            if position >= record_end:
                raise InvalidRecordError("the key does not fit its record")
            # The sign of the value's length is its lowest bit.
            yield base_offset + delta, key, not data[position] & 1
            position = record_end
    except IndexError:
        raise InvalidRecordError("the data ends inside a record") from None
    if position != end:
        raise InvalidRecordError(f"{end - position} bytes are left behind the declared records")


def _nullable_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = decode_varint(data, position)
    if length < 0:
        return None, position
    stop = position + length
    if stop > end:
        raise InvalidRecordError(f"a field of {length} bytes does not fit its record")
    return data[position:stop], stop


def _headers(data: bytes, position: int, end: int, count: int) -> tuple[tuple[Header, ...], int]:
    if not 0 <= count <= end - position:
        raise InvalidRecordError(f"header count {count} is impossible")
    headers = []
    for _ in range(count):
        key, position = _nullable_bytes(data, position, end)
        if key is None:
            raise InvalidRecordError("a header has no key")
        value, position = _nullable_bytes(data, position, end)
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), position


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[tuple[str, Buffer | None]] = (),
) -> bytes:
    """The bytes of one record, length prefix included."""
    parts: list[Buffer] = [b"\x00", encode_varlong(timestamp_delta), encode_varint(offset_delta)]
    parts += (b"\x01",) if key is None else (encode_varint(len(key)), key)
    parts += (b"\x01",) if value is None else (encode_varint(len(value)), value)
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        encoded = name.encode()
        parts += (encode_varint(len(encoded)), encoded)
        parts += (b"\x01",) if content is None else (encode_varint(len(content)), content)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


class BatchBuilder:
    """Collects records and builds one magic 2 batch of them.

    Offsets start at `base_offset` and count up unless given. The base timestamp is the first record's, or
    `delete_horizon_ms` if that is set. With `log_append_time` the batch is marked LogAppendTime with that time.
    """

    def __init__(
        self,
        *,
        base_offset: int = 0,
        codec: int = Codec.NONE,
        level: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        partition_leader_epoch: int = NO_LEADER_EPOCH,
        log_append_time: int | None = None,
        delete_horizon_ms: int | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.codec = codec
        self.level = level
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.transactional = transactional
        self.control = control
        self.partition_leader_epoch = partition_leader_epoch
        self.log_append_time = log_append_time
        self.delete_horizon_ms = delete_horizon_ms
        self.count = 0
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = -1
        self.last_offset = base_offset - 1
        self._base_timestamp = delete_horizon_ms
        self._parts: list[bytes] = []
        self._records_size = 0

    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[tuple[str, Buffer | None]] = (),
        offset: int | None = None,
    ) -> int:
        """Adds a record and returns its offset.

        Raises ValueError when the offset does not increase, lies too far from the base offset, or the timestamp is
        negative and not -1.
        """
        if offset is None:
            offset = self.last_offset + 1
        if offset <= self.last_offset:
            raise ValueError(f"offset {offset} does not follow {self.last_offset}")
        if offset - self.base_offset > MAX_INT32:
            raise ValueError(f"offset {offset} is too far from base offset {self.base_offset}")
        if timestamp < NO_TIMESTAMP:
            raise ValueError(f"timestamp {timestamp} is negative")
        if self._base_timestamp is None:
            self._base_timestamp = timestamp
        encoded = encode_record(offset - self.base_offset, timestamp - self._base_timestamp, key, value, headers)
        self._parts.append(encoded)
        self._records_size += len(encoded)
        self.count += 1
        self.last_offset = offset
        if timestamp > self.max_timestamp:
            self.max_timestamp, self.offset_of_max_timestamp = timestamp, offset
        return offset

    def append_encoded(self, records: bytes, count: int, base_timestamp: int, max_timestamp: int) -> None:
        """Adds all records of the batch at once: `count` of them, encoded with offset deltas that count up from 0 and
        timestamp deltas from `base_timestamp`."""
        self._parts.append(records)
        self._records_size += len(records)
        self.count += count
        self.last_offset += count
        self._base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp

    @property
    def uncompressed_size(self) -> int:
        """Bytes of the batch so far, had it no codec."""
        return HEADER_SIZE + self._records_size

    def build(self, last_offset: int | None = None) -> bytearray:
        """The finished batch. `last_offset` overrides the offset of the last record (compaction keeps the old one)."""
        if self.count == 0:
            raise ValueError("a batch needs at least one record")
        payload = b"".join(self._parts)
        if self.codec != Codec.NONE:
            payload = compress(self.codec, payload, self.level)
        batch = bytearray(HEADER_SIZE + len(payload))
        batch[HEADER_SIZE:] = payload
        append_time = self.log_append_time
        assert self._base_timestamp is not None
        write_header(
            batch,
            0,
            base_offset=self.base_offset,
            size=len(batch),
            partition_leader_epoch=self.partition_leader_epoch,
            attributes=batch_attributes(
                self.codec,
                CREATE_TIME if append_time is None else LOG_APPEND_TIME,
                transactional=self.transactional,
                control=self.control,
                delete_horizon=self.delete_horizon_ms is not None,
            ),
            last_offset_delta=(self.last_offset if last_offset is None else last_offset) - self.base_offset,
            base_timestamp=self._base_timestamp,
            max_timestamp=self.max_timestamp if append_time is None else append_time,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            record_count=self.count,
        )
        return batch


def batch_attributes(
    codec: int, timestamp_type: int = CREATE_TIME, *, transactional: bool, control: bool, delete_horizon: bool = False
) -> int:
    """The attributes field of a batch header."""
    return (
        codec
        | (TIMESTAMP_TYPE_MASK if timestamp_type == LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_MASK if transactional else 0)
        | (CONTROL_MASK if control else 0)
        | (DELETE_HORIZON_MASK if delete_horizon else 0)
    )


# Control records


class ControlType(IntEnum):
    """Types of control records; the ones above COMMIT are written in KRaft mode only."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTxnMarker(NamedTuple):
    """What a transaction marker says: COMMIT or ABORT, and the coordinator's epoch."""

    control_type: ControlType
    coordinator_epoch: int


_CONTROL_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")


def control_type_of(key: bytes | None) -> ControlType:
    """The type that a control record's key names; UNKNOWN for types of the future. Raises InvalidRecordError."""
    if key is None or len(key) < _CONTROL_KEY.size:
        raise InvalidRecordError("a control record needs a key of at least 4 bytes")
    version, number = _CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordError(f"control record key version {version} is negative")
    return ControlType(number) if 0 <= number <= ControlType.KRAFT_VOTERS else ControlType.UNKNOWN


def parse_end_txn_marker(record: Record) -> EndTxnMarker | None:
    """The marker in a control record, or None when it is a control record of another type.

    Raises InvalidRecordError when key or value are cut off or have a negative version.
    """
    control_type = control_type_of(record.key)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _MARKER_VALUE.size:
        raise InvalidRecordError("a transaction marker needs a value of at least 6 bytes")
    version, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value)
    if version < 0:
        raise InvalidRecordError(f"transaction marker version {version} is negative")
    return EndTxnMarker(control_type, coordinator_epoch)


def build_end_txn_marker(
    producer_id: int,
    producer_epoch: int,
    marker: EndTxnMarker,
    timestamp: int,
    *,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """The control batch of 78 bytes that ends a transaction on a partition."""
    builder = BatchBuilder(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        partition_leader_epoch=partition_leader_epoch,
    )
    builder.append(
        timestamp,
        _CONTROL_KEY.pack(0, marker.control_type),
        _MARKER_VALUE.pack(0, marker.coordinator_epoch),
    )
    return builder.build()
