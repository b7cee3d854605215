"""The message formats before record batches: magic 0 and 1.

An entry is an offset (8), a size (4) and a message: CRC-32 (4), magic (1), attributes (1), from magic 1 on a timestamp
(8), then key and value with 4-byte lengths. A compressed entry is a wrapper: its value is a compressed sequence of
entries and its offset is that of the last of them. Nothing here is on the path of current clients.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence

from log.errors import (
    CorruptRecordError,
    InvalidRecordError,
    RecordError,
    RecordFault,
    UnsupportedCompressionTypeError,
)
from log.records.batch import (
    CREATE_TIME,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MIN_SIZE_FOR_MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    Buffer,
    CodecAttributes,
    RecordBatch,
    peek,
)
from log.records.compression import DECOMPRESSION_LIMIT, Codec, compress, decompress
from log.records.record import Record, iter_records

NO_TIMESTAMP_TYPE = -1

_ENTRY_HEAD = struct.Struct(">qiIbb")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_MIN_MESSAGE = {0: 14, 1: 22}
"""The smallest message (behind offset and size) of each magic."""


class WrongMagic(RecordError):
    """A message of another magic than its wrapper."""

    __slots__ = ()


class LegacyBatch(CodecAttributes):
    """One entry of magic 0 or 1 at `position` of `buffer`; it answers like a `RecordBatch` where it has an answer.

    A wrapper's base offset is known only by expanding it; `base_offset` does that.
    """

    __slots__ = ("attributes", "buffer", "crc", "last_offset", "magic", "max_timestamp", "position", "size_in_bytes")

    producer_id = NO_PRODUCER_ID
    producer_epoch = NO_PRODUCER_EPOCH
    base_sequence = last_sequence = NO_SEQUENCE
    partition_leader_epoch = NO_LEADER_EPOCH
    is_transactional = is_control = has_producer_id = False
    delete_horizon_ms = None

    buffer: Buffer
    position: int
    last_offset: int
    size_in_bytes: int
    crc: int
    magic: int
    attributes: int
    max_timestamp: int

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        self.buffer = buffer
        self.position = position
        try:
            self.last_offset, size, self.crc, self.magic, self.attributes = _ENTRY_HEAD.unpack_from(buffer, position)
            self.max_timestamp = NO_TIMESTAMP
            if self.magic == 1 and size >= _MIN_MESSAGE[1]:
                (self.max_timestamp,) = _INT64.unpack_from(buffer, position + 18)
        except struct.error:
            raise CorruptRecordError("the data ends inside a message header") from None
        self.size_in_bytes = size + LOG_OVERHEAD

    def __repr__(self) -> str:
        return f"LegacyBatch(magic={self.magic}, last_offset={self.last_offset}, size={self.size_in_bytes})"

    @property
    def timestamp_type(self) -> int:
        """NO_TIMESTAMP_TYPE in magic 0."""
        if self.magic == 0:
            return NO_TIMESTAMP_TYPE
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_MASK else CREATE_TIME

    @property
    def base_offset(self) -> int:
        """Of a wrapper: the first inner offset, for which it is expanded."""
        if not self.is_compressed:
            return self.last_offset
        return next(self.iter_records()).offset

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def record_count(self) -> int | None:
        """1, or None for a wrapper, which does not say."""
        return None if self.is_compressed else 1

    @property
    def base_timestamp(self) -> int:
        return self.max_timestamp

    @property
    def view(self) -> memoryview:
        """The whole entry, without a copy."""
        return memoryview(self.buffer)[self.position : self.position + self.size_in_bytes]

    def compute_crc(self) -> int:
        """CRC-32 from the magic to the end."""
        return zlib.crc32(self.view[MAGIC_OFFSET:])

    def is_valid(self) -> bool:
        """Whether the entry is complete, large enough, and its checksum is right."""
        size = self.size_in_bytes
        large_enough = size - LOG_OVERHEAD >= _MIN_MESSAGE.get(self.magic, 14)
        return large_enough and size <= len(self.buffer) - self.position and self.compute_crc() == self.crc

    def ensure_valid(self) -> None:
        """Raises CorruptRecordError when the entry is too small, cut off or its checksum is wrong."""
        if not self.is_valid():
            raise CorruptRecordError(
                f"message of magic {self.magic} at offset {self.last_offset} is too small, cut off, or has a wrong "
                "checksum"
            ).counted_as(RecordFault.CHECKSUM)

    def iter_records(
        self,
        limit: int = DECOMPRESSION_LIMIT,
        *,
        check_inner: bool = False,
        record_errors: list[RecordError | None] | None = None,
        first_index: int = 0,
    ) -> Iterator[Record]:
        """The records, with absolute offsets.

        With `check_inner` the checksum of each inner message is checked (CorruptRecordError), and inner messages of
        another magic or compressed ones are noted in `record_errors` and left out. Otherwise raises InvalidRecordError
        for those, and DecompressionError or RecordTooLargeError from the codec.
        """
        for index, (offset, timestamp, entry) in enumerate(self.inner_entries(limit)):
            if entry is not self and (entry.is_compressed or entry.magic != self.magic):
                message = f"inner message {index} is compressed or of another magic than its wrapper"
                if record_errors is None:
                    raise InvalidRecordError(message)
                error = WrongMagic if entry.magic != self.magic else RecordError
                record_errors.append(error(first_index + index, message))
                continue
            if check_inner and entry is not self:
                entry.ensure_valid()
            key, value = entry.key_and_value()
            yield Record(offset, timestamp, key, value)

    def inner_entries(self, limit: int = DECOMPRESSION_LIMIT) -> Iterator[tuple[int, int, LegacyBatch]]:
        """(absolute offset, timestamp, entry) of each message in a wrapper, or of the entry itself.

        Raises InvalidRecordError, and what `decompress` raises.
        """
        if not self.is_compressed:
            yield self.last_offset, self.max_timestamp, self
            return
        _, value = self.key_and_value()
        if self.codec >= Codec.ZSTD:
            raise InvalidRecordError(f"codec {self.codec} does not exist in messages of magic {self.magic}")
        if value is None:
            raise InvalidRecordError("a compressed message has no value")
        plain = decompress(self.codec, value, limit, check_lz4_header=self.magic > 0)
        inner = list(_strict_entries(plain))
        if not inner:
            raise InvalidRecordError("a compressed message has no inner message")
        # From magic 1 on inner offsets count from 0, and the wrapper has the offset of the last one. A producer that
        # has not assigned offsets leaves the wrapper at 0.
        relative = self.magic > 0 and self.last_offset != 0
        shift = self.last_offset - inner[-1].last_offset if relative else 0
        append_time = self.max_timestamp if self.timestamp_type == LOG_APPEND_TIME else None
        for entry in inner:
            yield entry.last_offset + shift, entry.max_timestamp if append_time is None else append_time, entry

    def key_and_value(self) -> tuple[bytes | None, bytes | None]:
        """Key and value of the message itself. Raises InvalidRecordError when they do not fit it."""
        position = self.position + (18 if self.magic == 0 else 26)
        end = self.position + self.size_in_bytes
        key, position = self._field(position, end)
        value, position = self._field(position, end)
        if position != end:
            raise InvalidRecordError("key and value do not take the bytes that the message announces")
        return key, value

    def _field(self, position: int, end: int) -> tuple[bytes | None, int]:
        if position + 4 > end:
            raise InvalidRecordError("a message ends inside a length")
        (length,) = _INT32.unpack_from(self.buffer, position)
        position += 4
        if length < 0:
            return None, position
        if position + length > end:
            raise InvalidRecordError(f"a field of {length} bytes does not fit its message")
        return bytes(memoryview(self.buffer)[position : position + length]), position + length


def _strict_entries(data: bytes) -> Iterator[LegacyBatch]:
    position = 0
    while position < len(data):
        head = peek(data, position)
        if head is None or position + head[1] > len(data):
            raise InvalidRecordError("an inner message is cut off")
        yield LegacyBatch(data, position)
        position += head[1]


def iter_entries(
    buffer: Buffer, position: int = 0, end: int | None = None, *, strict_magic: bool = False
) -> Iterator[RecordBatch | LegacyBatch]:
    """The complete batches of any format; an incomplete last one ends the iteration silently.

    Raises CorruptRecordError on an impossible size and, with `strict_magic` (data from a request), on a magic outside
    0 to 2. In a file a magic above 2 is read like 2.
    """
    if end is None:
        end = len(buffer)
    while end - position >= MIN_SIZE_FOR_MAGIC:
        head = peek(buffer, position)
        assert head is not None
        _, size, magic = head
        if strict_magic and not 0 <= magic <= 2:
            raise CorruptRecordError(f"unknown record format: magic {magic}")
        if position + size > end:
            return
        if magic < 2:
            yield LegacyBatch(buffer, position)
        else:
            if size < HEADER_SIZE:
                raise CorruptRecordError(f"a record batch of {size} bytes is smaller than its header")
            yield RecordBatch(buffer, position)
        position += size


# Writing


def encode_message(
    magic: int,
    offset: int,
    timestamp: int,
    key: Buffer | None,
    value: Buffer | None,
    *,
    codec: int = Codec.NONE,
    timestamp_type: int = CREATE_TIME,
) -> bytes:
    """One entry of magic 0 or 1. With a codec the value must already be the compressed inner sequence."""
    attributes = codec | (TIMESTAMP_TYPE_MASK if magic == 1 and timestamp_type == LOG_APPEND_TIME else 0)
    parts: list[Buffer] = [bytes((magic, attributes))]
    if magic == 1:
        parts.append(_INT64.pack(timestamp))
    for content in (key, value):
        if content is None:
            parts.append(_INT32.pack(-1))
        else:
            parts += (_INT32.pack(len(content)), content)
    message = b"".join(parts)
    return struct.pack(">qiI", offset, len(message) + 4, zlib.crc32(message)) + message


def encode_wrapper(magic: int, found: Sequence[Record], codec: int, *, timestamp_type: int = CREATE_TIME) -> bytes:
    """A compressed entry of magic 0 or 1 that holds the records; inner offsets are relative in magic 1."""
    first, last = found[0].offset, found[-1].offset
    inner = b"".join(
        encode_message(magic, record.offset - (first if magic == 1 else 0), record.timestamp, record.key, record.value)
        for record in found
    )
    packed = compress(codec, inner)
    if codec == Codec.LZ4 and magic == 0:
        packed = _quirky_lz4(packed)
    timestamp = max(record.timestamp for record in found)
    return encode_message(magic, last, timestamp, None, packed, codec=codec, timestamp_type=timestamp_type)


def _quirky_lz4(frame: bytes) -> bytes:
    """Readers of magic 0 expect the header checksum over the frame's magic number too."""
    from log.records.xxhash32 import xxh32

    return frame[:6] + bytes(((xxh32(frame[:6]) >> 8) & 0xFF,)) + frame[7:]


def down_converted(
    batches: Iterable[RecordBatch | LegacyBatch],
    magic: int,
    first_offset: int = 0,
    limit: int = DECOMPRESSION_LIMIT,
) -> Iterator[tuple[bytes, int]]:
    """Batches in the format of an old Fetch version, magic 0 for versions 0 and 1, magic 1 for 2 and 3: what becomes of
    each that is not left out, and how many records were converted for it.

    Control batches are left out, and so are records of magic 2 batches below `first_offset` (uncompressed ones; a
    compressed batch stays whole). Headers are lost. Batches that are already old enough pass unchanged. Raises
    UnsupportedCompressionTypeError for zstd, which old readers do not know.
    """
    for batch in batches:
        if batch.magic <= magic:
            yield bytes(batch.view), 0
            continue
        if batch.is_control:
            continue
        codec = batch.codec
        if codec == Codec.ZSTD:
            raise UnsupportedCompressionTypeError("old Fetch versions cannot carry zstd")
        found = [
            record
            for record in iter_records(batch, limit)
            if codec != Codec.NONE or batch.magic < 2 or record.offset >= first_offset
        ]
        if not found:
            continue
        kind = max(CREATE_TIME, batch.timestamp_type)
        if codec == Codec.NONE:
            plain = (
                encode_message(magic, record.offset, record.timestamp, record.key, record.value, timestamp_type=kind)
                for record in found
            )
            yield b"".join(plain), len(found)
        else:
            yield bytes(encode_wrapper(magic, found, codec, timestamp_type=kind)), len(found)
