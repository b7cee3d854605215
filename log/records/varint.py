"""Variable-length integers of the record format: zig-zag, then groups of seven bits, low group first."""

from __future__ import annotations

from log.errors import InvalidRecordError

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

# The encodings of the small non-negative numbers, which are nearly all lengths and deltas of a batch.
_SMALL = tuple(bytes((n << 1,)) for n in range(64)) + tuple(
    bytes((((n << 1) & 0x7F) | 0x80, n >> 6)) for n in range(64, 8192)
)


def encode_varint(value: int) -> bytes:
    """The bytes of an int32. Raises ValueError when the value does not fit."""
    if 0 <= value < 8192:
        return _SMALL[value]
    if not _INT32_MIN <= value <= _INT32_MAX:
        raise ValueError(f"{value} does not fit a 32-bit varint")
    return _encode((value << 1) ^ (value >> 31))


def encode_varlong(value: int) -> bytes:
    """The bytes of an int64. Raises ValueError when the value does not fit."""
    if 0 <= value < 8192:
        return _SMALL[value]
    if not _INT64_MIN <= value <= _INT64_MAX:
        raise ValueError(f"{value} does not fit a 64-bit varint")
    return _encode((value << 1) ^ (value >> 63))


def _encode(zigzag: int) -> bytes:
    out = bytearray()
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def decode_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """An int32 and the position behind it. Raises InvalidRecordError when it is too long or cut off."""
    value = shift = 0
    try:
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                raise InvalidRecordError("a varint takes more than five bytes")
    except IndexError:
        raise InvalidRecordError("the data ends inside a varint") from None
    value &= 0xFFFFFFFF
    return (value >> 1) ^ -(value & 1), position


def decode_varlong(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """An int64 and the position behind it. Raises InvalidRecordError when it is too long or cut off."""
    value = shift = 0
    try:
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise InvalidRecordError("a varlong takes more than ten bytes")
    except IndexError:
        raise InvalidRecordError("the data ends inside a varlong") from None
    value &= 0xFFFFFFFFFFFFFFFF
    return (value >> 1) ^ -(value & 1), position
