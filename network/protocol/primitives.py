"""Varints and the other pieces that compiled codecs call when the fast path does not apply.

Unsigned varints (compact lengths, tags) are little-endian base 128, at most 5 bytes. All readers take `(buffer,
position)` and return the value and the position after it.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from network.protocol.errors import ProtocolError
from network.protocol.fields import Buffer

MAX_STRING: Final = 32767
"""Bytes in the longest string that the protocol allows, in every version."""

_UNSIGNED: Final = [bytes([value]) for value in range(128)] + [
    bytes([value & 0x7F | 0x80, value >> 7]) for value in range(128, 16384)
]


def encode_unsigned_varint(value: int) -> bytes:
    """1 to 5 bytes; raises ProtocolError outside 0..2^32-1."""
    if 0 <= value < 16384:
        return _UNSIGNED[value]
    if not 0 <= value <= 0xFFFFFFFF:
        raise ProtocolError(f"{value} is no unsigned varint")
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_unsigned_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Raises ProtocolError when it ends too early or does not fit 32 bits."""
    try:
        byte = data[position]
        if byte < 128:
            return byte, position + 1
        return finish_varint(data, position + 1, byte)
    except IndexError:
        raise ProtocolError("a varint ends too early") from None


def finish_varint(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte (128 or more) has been read."""
    value = first & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 28:
            raise ProtocolError("a varint is longer than 5 bytes")
    if value > 0xFFFFFFFF:
        raise ProtocolError("a varint is larger than 32 bits")
    return value, position


# Made once: a union in a call of `isinstance` is made anew each time, which shows on every fetch.
BYTES = (bytes, bytearray)
BUFFERS = (bytes, bytearray, memoryview)
SEQUENCES = (list, tuple)


def as_buffer(records: Any) -> memoryview:
    """A records field as one memoryview: as it is when it is a buffer, else read and joined; null is empty."""
    if isinstance(records, memoryview):
        return records
    if records is None:
        return memoryview(b"")
    if isinstance(records, BYTES):
        return memoryview(records)
    if isinstance(records, SEQUENCES):
        return memoryview(b"".join(as_buffer(piece) for piece in records))
    return memoryview(records.read())


def records_size(records: Any) -> int:
    """Bytes that a records value will have on the wire."""
    if isinstance(records, BYTES):
        return len(records)
    if isinstance(records, memoryview):
        return records.nbytes
    if isinstance(records, SEQUENCES):
        return sum(map(records_size, records))
    size: int = records.size
    return size


# What compiled decoders call off their fast path.


def compact_length(data: Buffer, position: int, first: int, field: str) -> tuple[int, int]:
    """Length + 1 of something that may not be null, of which `first` was read: refuses null, reads the rest."""
    if first == 0:
        raise ProtocolError(f"{field} is null")
    return finish_varint(data, position, first)


def compact_string_length(data: Buffer, position: int, first: int, field: str) -> tuple[int, int]:
    if first == 0:
        raise ProtocolError(f"{field} is null")
    return finish_string_length(data, position, first)


def finish_string_length(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """Like `finish_varint`, for the length + 1 of a string: refuses one that is longer than a string may be."""
    length, position = finish_varint(data, position, first)
    if length > MAX_STRING + 1:
        raise ProtocolError(f"a string of {length - 1} bytes is too long")
    return length, position


def too_long(field: str, length: int, left: int) -> ProtocolError:
    return ProtocolError(f"{field} has a length of {length}, of which only {max(left, 0)} bytes are there")


def bad_length(field: str, length: int) -> ProtocolError:
    if length == -1:
        return ProtocolError(f"{field} is null")
    return ProtocolError(f"{field} has the length {length}")


def decode_unknown_tags(data: Buffer, position: int, count: int, end: int) -> tuple[dict[int, bytes] | None, int]:
    """A tagged-field section of which the first byte of the count was read, when no tag is known."""
    if count > 127:
        count, position = finish_varint(data, position, count)
    if count == 0:
        return None, position
    tags: dict[int, bytes] = {}
    for _ in range(count):
        tag, position, stop = tag_header(data, position, end)
        tags[tag] = bytes(data[position:stop])
        position = stop
    return tags, position


def tag_header(data: Buffer, position: int, end: int) -> tuple[int, int, int]:
    """Tag, where its content starts, where it ends."""
    tag = data[position]
    position += 1
    if tag > 127:
        tag, position = finish_varint(data, position, tag)
    size = data[position]
    position += 1
    if size > 127:
        size, position = finish_varint(data, position, size)
    stop = position + size
    if stop > end:
        raise too_long(f"tagged field {tag}", size, end - position)
    return tag, position, stop


FEW: Final = 33
"""Arrays of fewer numbers than this have their struct ready."""

NUMBER_READERS: Final = {
    letter: [struct.Struct(f">{count}{letter}").unpack_from for count in range(FEW)] for letter in "bhHiIqd?"
}
"""By struct format and count."""

NUMBER_WRITERS: Final = {
    letter: [struct.Struct(f">{count}{letter}").pack for count in range(FEW)] for letter in "bhHiIqd?"
}


def decode_numbers(data: Buffer, position: int, count: int, letter: str) -> list[Any]:
    """`count` numbers of one struct format; the caller has checked that they are there."""
    return list(struct.unpack_from(f">{count}{letter}", data, position))


def encode_numbers(values: list[Any], letter: str) -> bytes:
    return struct.pack(f">{len(values)}{letter}", *values)


# What compiled encoders call off their fast path.


def long_string(length: int) -> bytes:
    """The compact length prefix of a string, given as its length + 1."""
    if length > MAX_STRING + 1:
        raise ProtocolError(f"a string of {length - 1} bytes is too long")
    return encode_unsigned_varint(length)


def encode_tags(known: list[tuple[int, bytes]], unknown: dict[int, bytes] | None) -> bytes:
    """A tagged-field section in order of tag; raises ProtocolError when a kept tag is one that is known."""
    if unknown:
        tags = dict(known)
        for tag, content in unknown.items():
            if tag in tags:
                raise ProtocolError(f"tag {tag} is both known and unknown")
            tags[tag] = bytes(content)
        known = sorted(tags.items())
    out = [encode_unsigned_varint(len(known))]
    for tag, content in known:
        out += (encode_unsigned_varint(tag), encode_unsigned_varint(len(content)), content)
    return b"".join(out)


def no_such_field(message: str, version: int, field: str, value: Any) -> ProtocolError:
    return ProtocolError(f"{message} v{version} has no {field}, which is set to {value!r}")


def check_uuid(value: bytes) -> bytes:
    if len(value) != 16:
        raise ProtocolError(f"a uuid has 16 bytes, not {len(value)}")
    return value
