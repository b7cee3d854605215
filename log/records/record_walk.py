"""Checks that the records of a batch keep to the format, without building them.

The leader must look at every record of a batch from a client, and in plain Python that costs about a microsecond a
record. Producers mostly send records of equal shape, so after a few records of the same size the walk tries a *run*: it
takes the positions of all length bytes of one record and compares that column of bytes for all following records at
once, by strided slices. If the length prefix is the same in every stride then the strides are the records, by
induction; if the inner lengths are the same too then the records are well-formed like the first. A run ends where a
column differs, and the plain walk goes on from there, so both ways accept exactly the same bytes. Records of differing
sizes are looked at by columns in another way, in `log.records.uneven_walk`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from log.errors import InvalidRecordError
from log.records.columns import CONTINUED, count_up, extremes
from log.records.uneven_walk import MIN_RECORDS, walk_uneven
from log.records.varint import decode_varint, decode_varlong

_MIN_RUN = 8
"""A run shorter than this costs more than walking."""
_BACKOFF = 64
"""How many records are walked after a run that was too short before the next is tried."""
_BACKOFF_UNEVEN = 1024
"""The same after records of differing sizes could not be looked at by columns, which costs more to find out."""


class WalkResult(NamedTuple):
    """What a walk saw. Deltas are relative to the batch's base timestamp; 0 and 0 when there is no record."""

    max_timestamp_delta: int
    min_timestamp_delta: int
    offsets_in_sequence: bool
    null_keys: bool


def walk_records(data: bytes | bytearray, count: int, start: int = 0, end: int | None = None) -> WalkResult:
    """Walks `count` records that must fill `data`, or its part from `start` to `end`, exactly.

    `offsets_in_sequence` tells whether the offset deltas are 0, 1, 2 and so on. Raises InvalidRecordError when a record
    breaks the format, as `log.records.record.iter_records` does.
    """
    try:
        if end is None:
            lone = _walk_lone(data) if count == 1 and type(data) is bytes else None
            return lone or _walk(data, count, start, len(data))
        return _walk(data, count, start, end)
    except IndexError:
        raise InvalidRecordError("the data ends inside a record") from None


@lru_cache(1024)
def _is_lone_without_key(size: int, head: bytes) -> bool:
    """Whether `size` bytes that begin with `head` and end with 0 are a lone record without a key.

    The first eight bytes tell, and they are the same for all such records of one size.
    """
    announced, position = head[0], 1
    if announced >= 0x80:
        announced, position = announced & 0x7F | head[1] << 7, 2
    if announced & 0x4000 or announced != (size - position) << 1 or head[position + 1 : position + 4] != b"\0\0\1":
        return False
    position += 4
    value = head[position]
    if value >= 0x80:
        value = value & 0x7F | head[position + 1] << 7
        position += 1
    return not value & 0x4001 and position + 2 + (value >> 1) == size


_LONE, _LONE_WITHOUT_KEY = WalkResult(0, 0, True, False), WalkResult(0, 0, True, True)


def _walk_lone(data: bytes) -> WalkResult | None:
    """The one record of a batch as nearly every producer writes it: below 8 KB, both deltas 0, no headers.

    None when it is anything else, for `_walk` to look at.
    """
    if not data[-1] and _is_lone_without_key(len(data), data[:8]):
        return _LONE_WITHOUT_KEY
    size, position = data[0], 1
    if size >= 0x80:
        size, position = size & 0x7F | data[1] << 7, 2
    # A zigzag number is twice the length; odd ones are negative.
    if size & 0x4000 or size != (len(data) - position) << 1 or data[position + 1 : position + 3] != b"\0\0":
        return None
    key = data[position + 3]
    if key == 1:
        position += 4
    elif key & 0x81:
        return None
    else:
        position += 4 + (key >> 1)
    value = data[position]
    if value >= 0x80:
        value = value & 0x7F | data[position + 1] << 7
        position += 1
    if value & 0x4001 or data[position + 1 + (value >> 1) :] != b"\0":
        return None
    return _LONE_WITHOUT_KEY if key == 1 else _LONE


def _walk(data: bytes | bytearray, count: int, position: int, end: int) -> WalkResult:
    index = 0
    largest, smallest = -(2**63), 2**63
    in_sequence, null_keys = True, False
    previous_size = same_size = changes = 0
    next_try, next_uneven = 3, 0
    while index < count:
        start = position
        # The two-byte forms cover nearly all fields, so they are spelled out.
        byte = data[position]
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
            position += 1
        elif data[position + 1] < 0x80:
            length = ((byte & 0x7F) >> 1 | data[position + 1] << 6) ^ -(byte & 1)
            position += 2
        else:
            length, position = decode_varint(data, position)
        record_end = position + length
        if length < 0 or record_end > end:
            raise InvalidRecordError(f"record {index} announces {length} bytes, but {end - position} are left")
        position += 1  # attributes, without meaning yet
        byte = data[position]
        if byte < 0x80:
            delta = (byte >> 1) ^ -(byte & 1)
            position += 1
        elif data[position + 1] < 0x80:
            delta = ((byte & 0x7F) >> 1 | data[position + 1] << 6) ^ -(byte & 1)
            position += 2
        else:
            delta, position = decode_varlong(data, position)
        if delta > largest:
            largest = delta
        if delta < smallest:
            smallest = delta
        byte = data[position]
        if byte < 0x80:
            offset_delta = (byte >> 1) ^ -(byte & 1)
            position += 1
        elif data[position + 1] < 0x80:
            offset_delta = ((byte & 0x7F) >> 1 | data[position + 1] << 6) ^ -(byte & 1)
            position += 2
        else:
            offset_delta, position = decode_varint(data, position)
        if offset_delta != index:
            in_sequence = False
        byte = data[position]
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            length, position = decode_varint(data, position)
        if length < 0:
            null_keys = True
        else:
            position += length
        byte = data[position]
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
            position += 1
        elif data[position + 1] < 0x80:
            length = ((byte & 0x7F) >> 1 | data[position + 1] << 6) ^ -(byte & 1)
            position += 2
        else:
            length, position = decode_varint(data, position)
        if length > 0:
            position += length
        if data[position] == 0:
            position += 1
        else:
            position = _skip_headers(data, position, record_end)
        if position != record_end:
            raise InvalidRecordError(f"the fields of record {index} do not take the bytes that it announces")
        index += 1
        size = record_end - start
        if size != previous_size:
            previous_size, same_size = size, 0
            changes += 1
            if changes >= 4 and index >= next_uneven and count - index >= MIN_RECORDS:
                found = walk_uneven(data, position, end, index, count - index)
                if found is None:
                    next_uneven = index + _BACKOFF_UNEVEN
                else:
                    index += found.records
                    position = found.end
                    largest = max(largest, found.max_timestamp_delta)
                    smallest = min(smallest, found.min_timestamp_delta)
                    in_sequence = in_sequence and found.offsets_in_sequence
                    null_keys = null_keys or found.null_keys
                changes = 0
            continue
        same_size += 1
        if same_size >= 2 and index >= next_try and count - index >= _MIN_RUN:
            run = _run(data, start, size, index - 1, min(count - index + 1, (end - start) // size))
            if run is None:
                next_try = index + _BACKOFF
            else:
                length, high, low, sequential = run
                index += length - 1
                position = start + length * size
                largest, smallest = max(largest, high), min(smallest, low)
                in_sequence = in_sequence and sequential
                previous_size = changes = 0
    if position != end:
        raise InvalidRecordError(f"{end - position} bytes are left behind the {count} declared records")
    return WalkResult(largest, smallest, in_sequence, null_keys) if count else WalkResult(0, 0, True, False)


def _skip_headers(data: bytes | bytearray, position: int, end: int) -> int:
    count, position = decode_varint(data, position)
    if not 0 <= count <= end - position:
        raise InvalidRecordError(f"header count {count} is impossible")
    for _ in range(count):
        length, position = decode_varint(data, position)
        if length < 0:
            raise InvalidRecordError("a header has no key")
        length, position = decode_varint(data, position + length)
        if length > 0:
            position += length
        if position > end:
            raise InvalidRecordError("a header does not fit its record")
    return position


def _run(data: bytes | bytearray, start: int, size: int, index: int, limit: int) -> tuple[int, int, int, bool] | None:
    """How many records from `start` on are shaped like the one there, which has been walked.

    (records, largest and smallest timestamp delta, whether offset deltas count up from `index`), or None when the run
    is too short or holds something that only the plain walk handles.
    """
    fixed, timestamps, offsets = _layout(data, start)
    for position in fixed:
        column = data[start + position : start + limit * size : size]
        if column != column[:1] * limit:
            limit = len(column) - len(column.lstrip(column[:1]))
            if limit < _MIN_RUN:
                return None
    if len(offsets) > 4:
        return None  # not a lane's worth: the bits that do not fit would be taken for the next record's
    columns = []
    for field in (timestamps, offsets):
        found = [data[start + position : start + limit * size : size] for position in field]
        # Each number must take as many bytes as the first record's.
        if not found[-1].isascii() or any(column.translate(None, CONTINUED) for column in found[:-1]):
            return _shorter_run(data, start, size, index, field, found)
        columns.append(found)
    high_low = extremes(columns[0])
    if high_low is None:
        return None
    return limit, *high_low, count_up(columns[1], index)


def _shorter_run(
    data: bytes | bytearray, start: int, size: int, index: int, field: range, columns: Sequence[bytes | bytearray]
) -> tuple[int, int, int, bool] | None:
    limit = 0
    for row in zip(*columns, strict=True):
        if row[-1] >= 0x80 or any(byte < 0x80 for byte in row[:-1]):
            break
        limit += 1
    return _run(data, start, size, index, limit) if _MIN_RUN <= limit < len(columns[0]) else None


def _layout(data: bytes | bytearray, start: int) -> tuple[list[int], range, range]:
    """Positions, relative to `start`, of all bytes of lengths and counts; of the timestamp and of the offset delta."""
    position = start
    while data[position] >= 0x80:
        position += 1
    fixed = list(range(position - start + 1))
    position = timestamp = position + 2  # behind the attributes
    while data[position] >= 0x80:
        position += 1
    position = offset = position + 1
    while data[position] >= 0x80:
        position += 1
    position += 1
    timestamps, offsets = range(timestamp - start, offset - start), range(offset - start, position - start)
    for _ in range(2):  # key and value
        position = _skip(data, start, position, fixed)
    if data[position] == 0:  # headers
        fixed.append(position - start)
        return fixed, timestamps, offsets
    count, behind = decode_varint(data, position)
    fixed.extend(range(position - start, behind - start))
    for _ in range(2 * count):
        behind = _skip(data, start, behind, fixed)
    return fixed, timestamps, offsets


def _skip(data: bytes | bytearray, start: int, position: int, fixed: list[int]) -> int:
    """The position behind a length and as many bytes; `fixed` gets the length's, relative to `start`."""
    byte = data[position]
    if byte < 0x80:
        fixed.append(position - start)
        return position + 1 + (byte >> 1) if not byte & 1 else position + 1
    at = position - start
    if data[position + 1] < 0x80 and not byte & 1:
        fixed += at, at + 1
        return position + 2 + ((byte & 0x7F) >> 1 | data[position + 1] << 6)
    length, behind = decode_varint(data, position)
    fixed.extend(range(position - start, behind - start))
    return behind + length if length > 0 else behind
