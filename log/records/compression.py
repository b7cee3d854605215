"""The four codecs of the record format, with bounds on what a payload may expand to.

Written: gzip one member; snappy in the xerial stream framing; lz4 frames of independent 64 KiB blocks; zstd one frame.
Read: additionally one bare snappy block, lz4 frames of any block size, several gzip members or zstd frames.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Protocol

import cramjam

from log.errors import DecompressionError, RecordTooLargeError, UnknownCompressionError
from log.records.batch import Buffer
from log.records.xxhash32 import xxh32

DECOMPRESSION_LIMIT = 128 * 1024 * 1024
"""What one batch sent by a client may expand to, in bytes."""
STORED_DECOMPRESSION_LIMIT = 1024 * 1024 * 1024
"""What one batch that already lies in a log may expand to, in bytes."""


class Codec(IntEnum):
    """Codec numbers of the batch attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def config_name(self) -> str:
        """The name in `compression.type` and in the dump tool's output."""
        return self.name.lower()


_BY_NUMBER = {codec.value: codec for codec in Codec}
_BY_NAME = {codec.name.lower(): codec for codec in Codec} | {"uncompressed": Codec.NONE}


def codec_for(number: int) -> Codec:
    """Raises UnknownCompressionError for a number that is not assigned."""
    try:
        return _BY_NUMBER[number]
    except KeyError:
        raise UnknownCompressionError(f"unknown compression codec {number}") from None


def codec_named(name: str) -> Codec:
    """The codec of a `compression.type` value other than `producer`. Raises UnknownCompressionError."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise UnknownCompressionError(f"unknown compression type {name!r}") from None


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """The compressed form of `data`; `level` None is the codec's default (gzip -1, lz4 9, zstd 3)."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            deflate = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
            return deflate.compress(data) + deflate.flush()
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            return _compress_lz4(data, 9 if level is None else level)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))
    raise UnknownCompressionError(f"unknown compression codec {codec}")


def decompress(codec: int, data: Buffer, limit: int = DECOMPRESSION_LIMIT, *, check_lz4_header: bool = True) -> bytes:
    """The plain bytes of a payload.

    Raises DecompressionError when the payload is damaged, RecordTooLargeError when it would expand beyond `limit`
    bytes (the work stops there), UnknownCompressionError for a number without a codec. `check_lz4_header` is off for
    magic 0, whose writers computed the lz4 header checksum over the wrong bytes.
    """
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return _decompress_gzip(data, limit)
        case Codec.SNAPPY:
            return _decompress_snappy(data, limit)
        case Codec.LZ4:
            return _decompress_lz4(data, limit, check_lz4_header)
        case Codec.ZSTD:
            return _decompress_zstd(data, limit)
    raise UnknownCompressionError(f"unknown compression codec {codec}")


def _too_large(limit: int) -> RecordTooLargeError:
    return RecordTooLargeError(f"the compressed records expand to more than {limit} bytes")


# gzip


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    parts: list[bytes] = []
    total = 0
    rest: Buffer = data
    while True:
        inflate = zlib.decompressobj(31)
        try:
            part = inflate.decompress(rest, limit - total + 1)
        except zlib.error as e:
            raise DecompressionError(f"gzip: {e}") from None
        total += len(part)
        if total > limit:
            raise _too_large(limit)
        if not inflate.eof:
            raise DecompressionError("gzip: the stream ends early")
        parts.append(part)
        rest = inflate.unused_data
        # Another member may follow; anything else behind a member is ignored, as Java's reader does.
        if rest[:2] != b"\x1f\x8b":
            return parts[0] if len(parts) == 1 else b"".join(parts)


# snappy

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC_INT = 0x82534E41 - 2**32
_XERIAL_BLOCK = 32 * 1024
_XERIAL_MAX_BLOCK = 512 * 1024 * 1024
_INT32 = struct.Struct(">i")


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    if not view:
        raise DecompressionError("snappy: no data")
    if len(view) < len(_XERIAL_HEADER) or view[:8] != _XERIAL_MAGIC:
        return _snappy_block(view, limit)
    parts = []
    total = 0
    position = len(_XERIAL_HEADER)
    while position < len(view):
        if len(view) - position < 4:
            raise DecompressionError("snappy: the stream ends inside a block length")
        (size,) = _INT32.unpack_from(view, position)
        position += 4
        if size == _XERIAL_MAGIC_INT:
            # Streams may be concatenated: the rest of another header follows.
            position += len(_XERIAL_HEADER) - 4
            if position > len(view):
                raise DecompressionError("snappy: the stream ends inside a header")
            continue
        if not 0 <= size <= _XERIAL_MAX_BLOCK or size > len(view) - position:
            raise DecompressionError(f"snappy: impossible block length {size}")
        part = _snappy_block(view[position : position + size], limit - total)
        total += len(part)
        parts.append(part)
        position += size
    return b"".join(parts)


def _snappy_block(block: memoryview, limit: int) -> bytes:
    try:
        announced = cramjam.snappy.decompress_raw_len(block)
        if announced > limit:
            raise _too_large(limit)
        # A block holds at most 64 output bytes for three input bytes, so a larger claim is false.
        if announced > 64 * len(block):
            raise DecompressionError(f"snappy: a block of {len(block)} bytes claims to hold {announced}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as e:
        raise DecompressionError(f"snappy: {e}") from None


# lz4

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCK = 64 * 1024
_LZ4_HEADER = _LZ4_MAGIC + b"\x60\x40\x82"
_LZ4_STORED = 0x80000000
_LZ4_FAST = 9  # Kafka's default level
_LZ4_LEAST = 3  # below it a frame is made by the fast compressor
_LZ4_BLOCK_SIZES = {4: 64 * 1024, 5: 256 * 1024, 6: 1024 * 1024, 7: 4 * 1024 * 1024}
_UINT32_LE = struct.Struct("<I")


def _compress_lz4(data: Buffer, level: int) -> bytes:
    view = memoryview(data)
    parts: list[bytes | memoryview] = [_LZ4_HEADER]
    for start in range(0, len(view), _LZ4_BLOCK):
        raw = view[start : start + _LZ4_BLOCK]
        block = _lz4_block(raw, level)
        if len(block) < len(raw):
            parts += (_UINT32_LE.pack(len(block)), block)
        else:
            parts += (_UINT32_LE.pack(len(raw) | _LZ4_STORED), raw)
    parts.append(_UINT32_LE.pack(0))
    return b"".join(parts)


def _lz4_block(raw: memoryview, level: int) -> bytes | memoryview:
    """As Kafka has it, the default level is the fast compressor, and every other one the slow compressor at that level.

    cramjam makes blocks by the fast one alone, so of the slow one's a frame of one block is made and taken apart.
    Levels below 3 are 3 there, those above 12 are 12.
    """
    if level == _LZ4_FAST:
        return bytes(cramjam.lz4.compress_block(raw, store_size=False))
    frame = memoryview(cramjam.lz4.compress(raw, level=max(level, _LZ4_LEAST)))
    flags = frame[4]
    at = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    (size,) = _UINT32_LE.unpack_from(frame, at)
    return raw if size & _LZ4_STORED else frame[at + 4 : at + 4 + size]


class Room(Protocol):
    """Memory that grows: who expands into it asks for what it needs."""

    def space(self, at: int, size: int) -> memoryview:
        """At least ``size`` writable bytes that begin at position ``at``; what lies before stays."""
        ...


class GrowingRoom:
    """A buffer as room, at least doubled where it grows, to no less than ``least`` bytes."""

    def __init__(self, size: int, least: int = 0, allocate: Callable[[int], Any] = bytearray) -> None:
        self._least = least
        self._allocate = allocate
        self.data = allocate(size)

    def space(self, at: int, size: int) -> memoryview:
        if at + size > len(self.data):
            grown = self._allocate(max(at + size, 2 * len(self.data), self._least))
            grown[:at] = memoryview(self.data)[:at]
            self.data = grown
        return memoryview(self.data)[at:]


_KEPT_BYTES = 4 << 20
_kept: deque[GrowingRoom] = deque(maxlen=4)
"""Rooms that nobody uses; lock-free: pop and append are single steps."""


def _anonymous(size: int) -> mmap.mmap:
    """Memory that is neither cleared nor resident before it is written."""
    return mmap.mmap(-1, size)


def _expanded(expand: Callable[[Room], int]) -> bytes:
    """What `expand` writes from the beginning of a room up to the position that it returns.

    How large a block or frame becomes is often not known before, so the room is larger than most need, and kept: a new
    one of the right size for each batch would be cleared first, and where the guess is short, all is done again.
    """
    try:
        room = _kept.pop()
    except IndexError:
        room = GrowingRoom(_KEPT_BYTES, allocate=_anonymous)
    try:
        end = expand(room)
        return bytes(memoryview(room.data)[:end])
    finally:
        if len(room.data) <= _KEPT_BYTES:
            _kept.append(room)


def decompress_into(codec: int, data: Buffer, room: Room, at: int, limit: int = DECOMPRESSION_LIMIT) -> int:
    """Expand to position ``at`` of a room and return where that ends; lz4 and zstd without a copy on the way.

    Raises as :func:`decompress` does.
    """
    if codec == Codec.LZ4:
        return _lz4_into(data, room, at, limit, True)
    if codec == Codec.ZSTD:
        return _zstd_into(data, room, at, limit)
    plain = data if codec == Codec.NONE else decompress(codec, data, limit)
    room.space(at, len(plain))[: len(plain)] = plain
    return at + len(plain)


def _decompress_lz4(data: Buffer, limit: int, check_header: bool) -> bytes:
    return _expanded(lambda room: _lz4_into(data, room, 0, limit, check_header))


def _lz4_into(data: Buffer, room: Room, at: int, limit: int, check_header: bool) -> int:
    view = memoryview(data)
    position, block_max, block_checksums = _lz4_header(view, check_header)
    end = at
    while True:
        if len(view) - position < 4:
            raise DecompressionError("lz4: the frame ends before its end mark")
        (word,) = _UINT32_LE.unpack_from(view, position)
        position += 4
        if word == 0:
            # Kafka's reader takes a content checksum off the stream without checking it, and looks at nothing behind.
            return end
        size = word & ~_LZ4_STORED
        if size > block_max or size > len(view) - position:
            raise DecompressionError(f"lz4: impossible block length {size}")
        block = view[position : position + size]
        position += size
        if block_checksums:
            if len(view) - position < 4:
                raise DecompressionError("lz4: the frame ends inside a block checksum")
            if _UINT32_LE.unpack_from(view, position)[0] != xxh32(block):
                raise DecompressionError("lz4: wrong block checksum")
            position += 4
        if word & _LZ4_STORED:
            room.space(end, size)[:size] = block
            end += size
        else:
            # A block's size is known only after it is expanded.
            try:
                end += cramjam.lz4.decompress_block_into(block, room.space(end, block_max)[:block_max])
            except cramjam.DecompressionError as e:
                raise DecompressionError(f"lz4: {e}") from None
        if end - at > limit:
            raise _too_large(limit)


def _lz4_header(view: memoryview, check: bool) -> tuple[int, int, bool]:
    """(position of the first block, block size, whether blocks carry checksums)."""
    if len(view) < 7 or view[:4] != _LZ4_MAGIC:
        raise DecompressionError("lz4: no frame starts here")
    flags, descriptor = view[4], view[5]
    if flags >> 6 != 1:
        raise DecompressionError(f"lz4: frame version {flags >> 6} is not supported")
    if not flags & 0x20:
        raise DecompressionError("lz4: frames of dependent blocks are not supported")
    if flags & 0x03 or descriptor & 0x8F:
        raise DecompressionError("lz4: reserved bits are set in the frame header")
    block_max = _LZ4_BLOCK_SIZES.get(descriptor >> 4)
    if block_max is None:
        raise DecompressionError(f"lz4: unknown block size code {descriptor >> 4}")
    end = 14 if flags & 0x08 else 6
    if len(view) <= end:
        raise DecompressionError("lz4: the frame ends inside its header")
    if check and view[end] != (xxh32(view[4:end]) >> 8) & 0xFF:
        raise DecompressionError("lz4: wrong header checksum")
    return end + 1, block_max, bool(flags & 0x10)


# zstd

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def _decompress_zstd(data: Buffer, limit: int) -> bytes:
    return _expanded(lambda room: _zstd_into(data, room, 0, limit))


def _zstd_into(data: Buffer, room: Room, at: int, limit: int) -> int:
    announced = _zstd_content_size(data)
    if announced is not None and announced > limit:
        raise _too_large(limit)
    # Without an announced size the output grows by retrying; each try is bounded by its buffer.
    capacity = min(limit, max(announced or 0, 8 * len(data), 64 * 1024))
    while True:
        # What the room has beyond what is asked for serves too, and spares a try.
        space = room.space(at, capacity)[:limit]
        try:
            return at + int(cramjam.zstd.decompress_into(data, space))
        except cramjam.DecompressionError as e:
            if "whole buffer" not in str(e):
                raise DecompressionError(f"zstd: {e}") from None
            if len(space) >= limit:
                raise _too_large(limit) from None
            capacity = min(limit, max(capacity, len(space)) * 8)


def _zstd_content_size(data: Buffer) -> int | None:
    """The content size that the first frame announces, if it does."""
    view = memoryview(data)
    if len(view) < 6 or view[:4] != _ZSTD_MAGIC:
        return None
    descriptor = view[4]
    size_code, single_segment = descriptor >> 6, descriptor & 0x20
    position = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 0x03]
    width = (1 if single_segment else 0, 2, 4, 8)[size_code]
    if width == 0 or len(view) < position + width:
        return None
    size = int.from_bytes(view[position : position + width], "little")
    return size + 256 if width == 2 else size
