"""Checks records whose sizes differ by columns, where `log.records.record_walk` would look at one after the other.

Only the way from a record to the next has to be gone record by record, and needs nothing but the length in front of
each. All else is in the few bytes behind that length: they are gathered, sorted by how many bytes each number
takes, and then compared by columns. The fields of a record fill it exactly if the lengths of key and value and the
bytes of the numbers add up to the length of the record, and a 0, for no headers, is its last byte.

What is not like that (headers, negative lengths, numbers of more bytes than expected here) is left to the plain walk,
so both ways accept exactly the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, compress
from typing import NamedTuple

from log.records.columns import Columns, extremes, in_lanes, lanes, same_in_lanes

MIN_RECORDS = 16
"""Fewer cost less by the plain walk."""
_BLOCK = 2048
_HEAD_BYTES = 12  # attributes, five bytes of a timestamp, three of an offset, one of a key's length, two of a value's
# Last byte of the record before, the two bytes that a length mostly is, and what is behind them.
_STEP = struct.Struct(f"<BH{_HEAD_BYTES}s").unpack_from
_LENGTH = struct.Struct("2s").unpack_from
_NOT_A_SIZE = 1 << 62  # a step of so many leads behind the end of any data
_WIDE = bytes(0x80) + b"\1" * 0x80
_NARROW = b"\1" * 0x80 + bytes(0x80)
_MASK = bytes(0x80) + b"\xff" * 0x80
_NULL = 1  # the length -1
_IS_NULL = bytes(number == _NULL for number in range(256))
_IS_NO_NULL = bytes(number != _NULL for number in range(256))
_SHORT_LENGTHS = bytes(range(0, 0x80, 2))


class Uneven(NamedTuple):
    """Records that were found to keep to the format."""

    records: int
    end: int
    """Where the next record begins."""
    max_timestamp_delta: int
    min_timestamp_delta: int
    offsets_in_sequence: bool
    null_keys: bool


class _Unlike(Exception):
    """Something that only the plain walk handles."""


class _Group:
    """Some records of a block: their places in it, their first two bytes, and the bytes behind these."""

    __slots__ = ("_joined", "beginnings", "heads", "places")

    def __init__(self, places: Sequence[int], beginnings: Sequence[int], heads: Sequence[bytes]) -> None:
        self.places, self.beginnings, self.heads = places, beginnings, heads
        self._joined = b"".join(heads)

    def column(self, at: int) -> bytes:
        return self._joined[at::_HEAD_BYTES]

    def split(self, column: bytes, these: bytes, others: bytes) -> tuple[_Group | None, _Group | None]:
        """Those whose byte in `column` `these` translates to 1, and those where `others` does; None for nobody."""
        chosen = column.translate(these)
        if 0 not in chosen:
            return self, None
        if 1 not in chosen:
            return None, self
        ones = chosen.count(1)
        if chosen.rfind(1) == ones - 1:
            # As with offsets, which grow: no need to pick one by one.
            return self._part(0, ones), self._part(ones, len(chosen))
        return self._only(chosen), self._only(column.translate(others))

    def _part(self, start: int, stop: int) -> _Group:
        return _Group(self.places[start:stop], self.beginnings[start:stop], self.heads[start:stop])

    def _only(self, chosen: bytes) -> _Group:
        return _Group(
            list(compress(self.places, chosen)),
            list(compress(self.beginnings, chosen)),
            list(compress(self.heads, chosen)),
        )


def walk_uneven(data: bytes | bytearray, start: int, end: int, index: int, limit: int) -> Uneven | None:
    """Look at up to `limit` records from `start` on, of which the first should have the offset delta `index`.

    A record must stand before them. None if too few are of the kind that can be looked at here.
    """
    block, stop = _block(data, start, min(limit, _BLOCK))
    count = len(block.places)
    if count < MIN_RECORDS or stop > end:
        return None
    largest, smallest, in_sequence, null_keys = -(2**63), 2**63, True, False
    # Behind a length of one byte the attributes were the second of the two bytes.
    short, long = block.split(struct.pack(f"<{count}H", *block.beginnings)[::2], _NARROW, _WIDE)
    try:
        for some, at in ((short, 0), (long, 1)):
            for timed, timestamps in _by_width(some, at, 5):
                found = extremes(timestamps)
                assert found is not None, "five bytes are not too long"
                largest, smallest = max(largest, found[0]), min(smallest, found[1])
                for group, offsets in _by_width(timed, at + len(timestamps), 3):
                    expected = lanes(group.places) + same_in_lanes(index, len(group.places))
                    in_sequence = in_sequence and in_lanes(offsets) == expected << 1
                    null_keys |= _check_lengths(data, start, block, group, at + len(timestamps) + len(offsets))
    except (_Unlike, struct.error):
        return None
    return Uneven(count, stop, largest, smallest, in_sequence, null_keys)


def _block(data: bytes | bytearray, start: int, limit: int) -> tuple[_Group, int]:
    """Records without headers, as far as they go, and the end of the last."""
    beginnings: list[int] = []
    heads: list[bytes] = []
    add, add_head, sizes = beginnings.append, heads.append, _sizes()
    before = start - 1
    try:
        _, beginning, head = _STEP(data, before)
        for _ in range(limit):
            behind = before + sizes[beginning]
            last, following, next_head = _STEP(data, behind)
            if last:
                break
            add(beginning)
            add_head(head)
            before, beginning, head = behind, following, next_head
    except struct.error:
        pass
    return _Group(range(len(heads)), beginnings, heads), before + 1


def _by_width(group: _Group | None, at: int, most: int) -> Iterator[tuple[_Group, Columns]]:
    """The group in parts by how many bytes the number at `at` takes, up to `most`, and these bytes."""
    if group is None:
        return
    if not most:
        raise _Unlike
    narrow, wide = group.split(group.column(at), _NARROW, _WIDE)
    if narrow is not None:
        yield narrow, (narrow.column(at),)
    for some, columns in _by_width(wide, at + 1, most - 1):
        yield some, (some.column(at), *columns)


def _check_lengths(data: bytes | bytearray, start: int, block: _Group, group: _Group, at: int) -> bool:
    """Whether there are null keys. Raises `_Unlike` unless each record's lengths add up; those of keys are at `at`."""
    unkeyed, keyed = group.split(group.column(at), _IS_NULL, _IS_NO_NULL)
    fixed = at + 4  # what a head begins with, the length of the key, and the 0 at the end
    if unkeyed is not None:
        _check_sums(unkeyed, fixed, unkeyed.column(at + 1), unkeyed.column(at + 2), 0)
    if keyed is not None:
        keys = keyed.column(at)
        if keys.translate(None, _SHORT_LENGTHS):
            raise _Unlike
        starts = list(accumulate(map(_sizes().__getitem__, block.beginnings), initial=start + fixed - 1))
        values = b"".join(
            [_LENGTH(data, starts[place] + (key >> 1))[0] for place, key in zip(keyed.places, keys, strict=True)]
        )
        _check_sums(keyed, fixed, values[::2], values[1::2], in_lanes((keys,)))
    return unkeyed is not None


def _check_sums(group: _Group, fixed: int, low: bytes, high: bytes, keys: int) -> None:
    """`low` and `high` are the first two bytes of the values' lengths, `keys` lanes with twice the lengths of keys."""
    count = len(low)
    beginnings = struct.pack(f"<{count}H", *group.beginnings)
    lengths, values = beginnings[::2], high
    # The second byte belongs to the length only if the first one says so.
    lengths_high, values_high = _second(lengths, beginnings[1::2]), _second(low, values)
    if not values_high.isascii():
        raise _Unlike
    sizes = in_lanes((lengths, lengths_high)) + (in_lanes((lengths.translate(_WIDE),)) << 1)
    parts = in_lanes((low, values_high)) + (in_lanes((low.translate(_WIDE),)) << 1) + keys
    if sizes - parts != same_in_lanes(2 * fixed, count):
        raise _Unlike


def _second(first: bytes, second: bytes) -> bytes:
    """The second bytes of lengths, 0 where the first byte is the only one."""
    if first.isascii():
        return bytes(len(first))
    mask = int.from_bytes(first.translate(_MASK), "little")
    return (mask & int.from_bytes(second, "little")).to_bytes(len(first), "little")


@cache
def _sizes() -> list[int]:
    """For the first two bytes of a record, as one number: how many bytes it has, its length counted.

    The same for a value, since its length stands in front of it likewise.
    """
    sizes = []
    for number in range(1 << 16):
        low, high = number & 0xFF, number >> 8
        if low & 1 or (low & 0x80 and high & 0x80):
            sizes.append(_NOT_A_SIZE)
        else:
            sizes.append(2 + (low & 0x7F | high << 7) // 2 if low & 0x80 else 1 + low // 2)
    return sizes
