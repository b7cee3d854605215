"""Record batch headers (magic 2), read and changed in place over the caller's buffer.

Layout, all big-endian: base offset (8), length of what follows (4), partition leader epoch (4), magic (1), CRC-32C of
everything behind it (4), attributes (2), last offset delta (4), base timestamp (8), max timestamp (8), producer id (8),
producer epoch (2), base sequence (4), record count (4), then the records or one compressed stream of them.

Base offset, length, leader epoch and magic are outside the checksum, so a leader can assign them without a new one.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

from log.errors import CorruptRecordError, RecordFault
from log.records.checksum import crc32c

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = 61
LOG_OVERHEAD = 12
"""Bytes in front of the counted part: base offset and length."""
MIN_SIZE_FOR_MAGIC = 17
"""Bytes needed to know the size and the magic of an entry of any format."""
MIN_COUNTED_SIZE = 14
"""The smallest valid length field of any format (an empty magic 0 message)."""

MAGIC_OFFSET = 16
CRC_OFFSET = 17
ATTRIBUTES_OFFSET = 21
MAX_TIMESTAMP_OFFSET = 35

CODEC_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40

CREATE_TIME = 0
LOG_APPEND_TIME = 1

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

MAX_INT32 = 2**31 - 1

_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")
_UINT32 = struct.Struct(">I")
_OFFSET_AND_SIZE = struct.Struct(">qi")
_ASSIGNED = struct.Struct(">qii")


def increment_sequence(sequence: int, by: int) -> int:
    """The sequence number `by` steps later; after the largest int32 comes 0."""
    return sequence + by if sequence <= MAX_INT32 - by else by - (MAX_INT32 - sequence) - 1


def decrement_sequence(sequence: int, by: int) -> int:
    """The sequence number `by` steps earlier; before 0 comes the largest int32."""
    return sequence - by if sequence >= by else MAX_INT32 - (by - sequence) + 1


class CodecAttributes:
    """What the attributes of a batch or message say of its compression: the same bits in every format."""

    __slots__ = ()
    attributes: int

    @property
    def codec(self) -> int:
        """The codec number, 0 (none) to 4 (zstd); 5 to 7 are not assigned."""
        return self.attributes & CODEC_MASK

    @property
    def is_compressed(self) -> bool:
        return self.attributes & CODEC_MASK != 0


class RecordBatch(CodecAttributes):
    """The header of one magic 2 batch at `position` of `buffer`, decoded by one unpack; the payload is not touched.

    The setters write through to the buffer, which must then be writable, and keep the decoded fields in step.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "buffer",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    buffer: Buffer
    position: int
    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        self.buffer = buffer
        self.position = position
        try:
            (
                self.base_offset,
                self.batch_length,
                self.partition_leader_epoch,
                self.magic,
                self.crc,
                self.attributes,
                self.last_offset_delta,
                self.base_timestamp,
                self.max_timestamp,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.record_count,
            ) = HEADER.unpack_from(buffer, position)
        except struct.error:
            raise CorruptRecordError(
                f"{len(buffer) - position} bytes are too few for a record batch header of {HEADER_SIZE} bytes"
            ) from None

    def __repr__(self) -> str:
        return (
            f"RecordBatch(offsets={self.base_offset}..{self.last_offset}, size={self.size_in_bytes}, "
            f"leader_epoch={self.partition_leader_epoch}, attributes={self.attributes:#x}, "
            f"count={self.record_count}, producer={self.producer_id}/{self.producer_epoch}/{self.base_sequence})"
        )

    # What the header says.

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size_in_bytes(self) -> int:
        return self.batch_length + LOG_OVERHEAD

    @property
    def timestamp_type(self) -> int:
        """CREATE_TIME or LOG_APPEND_TIME."""
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_MASK else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_MASK != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_MASK != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers of this batch may go; None when no cleaning has set it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_MASK else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    # The bytes.

    @property
    def view(self) -> memoryview:
        """The whole batch, without a copy."""
        return memoryview(self.buffer)[self.position : self.position + self.size_in_bytes]

    @property
    def payload(self) -> memoryview:
        """The records, or the compressed stream, without a copy."""
        return memoryview(self.buffer)[self.position + HEADER_SIZE : self.position + self.size_in_bytes]

    def compute_crc(self) -> int:
        """CRC-32C from the attributes to the end of the batch."""
        start = self.position
        return crc32c(memoryview(self.buffer)[start + ATTRIBUTES_OFFSET : start + self.size_in_bytes])

    def is_valid(self) -> bool:
        """Whether the batch is complete, large enough, and its checksum is right."""
        size = self.batch_length + LOG_OVERHEAD
        return HEADER_SIZE <= size <= len(self.buffer) - self.position and self.compute_crc() == self.crc

    def ensure_valid(self) -> None:
        """Raises CorruptRecordError when the batch is too small, cut off or its checksum is wrong."""
        size = self.batch_length + LOG_OVERHEAD
        if size < HEADER_SIZE:
            error = CorruptRecordError(f"a record batch of {size} bytes is smaller than its header")
            raise error.counted_as(RecordFault.CHECKSUM)
        if size > len(self.buffer) - self.position:
            raise CorruptRecordError(f"a record batch of {size} bytes is cut off")
        computed = self.compute_crc()
        if computed != self.crc:
            raise CorruptRecordError(
                f"record batch at offset {self.base_offset} has checksum {self.crc} but its bytes give {computed}"
            ).counted_as(RecordFault.CHECKSUM)

    # Changes in place.

    def set_base_offset(self, offset: int) -> None:
        """Assigns the offset of the first record; the checksum stays valid."""
        _INT64.pack_into(self._writable(), self.position, offset)
        self.base_offset = offset

    def set_last_offset(self, offset: int) -> None:
        """Assigns the base offset such that the last record gets `offset`; the checksum stays valid."""
        self.set_base_offset(offset - self.last_offset_delta)

    def assign(self, base_offset: int, leader_epoch: int) -> None:
        """What a leader assigns to every batch; the checksum stays valid. Raises TypeError over read-only bytes."""
        _ASSIGNED.pack_into(self.buffer, self.position, base_offset, self.batch_length, leader_epoch)
        self.base_offset, self.partition_leader_epoch = base_offset, leader_epoch

    def set_partition_leader_epoch(self, epoch: int) -> None:
        """The checksum stays valid."""
        _INT32.pack_into(self._writable(), self.position + LOG_OVERHEAD, epoch)
        self.partition_leader_epoch = epoch

    def set_max_timestamp(self, timestamp_type: int, max_timestamp: int) -> None:
        """Sets the timestamp type and the max timestamp, and the checksum if anything changed.

        Other attribute bits keep their value, except the unused ones, which become 0.
        """
        attributes = (self.attributes & 0x77) | (TIMESTAMP_TYPE_MASK if timestamp_type == LOG_APPEND_TIME else 0)
        if timestamp_type == self.timestamp_type and max_timestamp == self.max_timestamp:
            return
        target = self._writable()
        _INT16.pack_into(target, self.position + ATTRIBUTES_OFFSET, attributes)
        _INT64.pack_into(target, self.position + MAX_TIMESTAMP_OFFSET, max_timestamp)
        self.attributes, self.max_timestamp = attributes, max_timestamp
        self.crc = self.compute_crc()
        _UINT32.pack_into(target, self.position + CRC_OFFSET, self.crc)

    def _writable(self) -> bytearray | memoryview:
        if isinstance(self.buffer, bytes):
            raise TypeError("the batch lies in read-only bytes; hand in a bytearray or a writable memoryview")
        return self.buffer


def write_header(
    target: bytearray | memoryview,
    position: int,
    *,
    base_offset: int,
    size: int,
    partition_leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> None:
    """Writes a header in front of records that already lie behind it, checksum included.

    `size` is the whole batch in bytes, header and length field counted.
    """
    HEADER.pack_into(
        target,
        position,
        base_offset,
        size - LOG_OVERHEAD,
        partition_leader_epoch,
        2,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    crc = crc32c(memoryview(target)[position + ATTRIBUTES_OFFSET : position + size])
    _UINT32.pack_into(target, position + CRC_OFFSET, crc)


def peek(buffer: Buffer, position: int = 0) -> tuple[int, int, int] | None:
    """(base offset, whole size, magic) of the entry at `position`, or None when too few bytes are there to know.

    Raises CorruptRecordError when the size field is impossible.
    """
    if len(buffer) - position < MIN_SIZE_FOR_MAGIC:
        return None
    offset, counted = _OFFSET_AND_SIZE.unpack_from(buffer, position)
    if counted < MIN_COUNTED_SIZE:
        raise CorruptRecordError(f"the size field {counted} is below the smallest possible size {MIN_COUNTED_SIZE}")
    magic = buffer[position + MAGIC_OFFSET]
    return offset, counted + LOG_OVERHEAD, magic if magic < 0x80 else magic - 256
