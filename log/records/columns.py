"""Numbers of many records at once: a field's first bytes, second bytes and so on, each as one `bytes`.

A column is cut out of the data, compared, translated and counted by single calls, so a field of a thousand records
costs about what a field of one record costs in plain Python.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from typing import Literal

from log.records.varint import decode_varlong

Columns = Sequence[bytes | bytearray]

CONTINUED = bytes(range(0x80, 0x100))
"""The bytes of a varint behind which another one follows."""

_FEW = 8
_ODD = bytes(range(1, 256, 2))
_CASTS: dict[int, tuple[Literal["B", "H", "I", "Q"], int]] = {
    1: ("B", 1),
    2: ("H", 2),
    3: ("I", 4),
    4: ("I", 4),
    5: ("Q", 8),
    6: ("Q", 8),
    7: ("Q", 8),
    8: ("Q", 8),
}
"""For a width in bytes: the integer type that holds it, and its size."""


def extremes(columns: Columns) -> tuple[int, int] | None:
    """The largest and the smallest of the zig-zag numbers whose bytes stand in `columns`; None if they are too long."""
    first = columns[0]
    width = len(columns)
    if width not in _CASTS:
        return None
    if all(column == column[:1] * len(column) for column in columns):
        only = decode_varlong(bytes(column[0] for column in columns), 0)[0]
        return only, only
    kind, step = _CASTS[width]
    if width == 1:
        seen = _distinct(first)
    else:
        rows = bytearray(step * len(first))
        for place, column in enumerate(columns):
            rows[place::step] = column
        seen = set(memoryview(rows).cast(kind))
    # All rows have the same continuation bits, so as little-endian integers the even ones, which stand for numbers that
    # are not negative, are in the order of these; the odd ones in the opposite order.
    if len(first.translate(None, _ODD)) == len(first):
        if width == 1:
            return max(seen) >> 1, min(seen) >> 1
        ends = [max(seen), min(seen)]
    else:
        parts = ([number for number in seen if number & 1 == sign] for sign in (0, 1))
        ends = [end(part) for part in parts if part for end in (min, max)]
    found = [decode_varlong(each.to_bytes(step, "little"), 0)[0] for each in ends]
    return max(found), min(found)


def _distinct(column: bytes | bytearray) -> set[int]:
    """The bytes that there are in a column."""
    seen: set[int] = set()
    # Times of records that were sent together: few are different, and one by one they cost more than all at once.
    for _ in range(_FEW):
        if not column:
            return seen
        seen.add(column[0])
        column = column.translate(None, bytes(column[:1]))
    return seen | set(column)


# The bytes of the offset deltas 0, 1, 2 and so on, by place and width.
_ONE_BYTE = (bytes(range(0, 0x80, 2)),)
_TWO_BYTES = (bytes((n << 1) & 0x7F | 0x80 for n in range(8192)), bytes(n >> 6 for n in range(8192)))


def count_up(columns: Columns, first: int) -> bool:
    """Whether the numbers whose bytes stand in `columns`, at most four, are `first`, the next one and so on."""
    count = len(columns[0])
    if len(columns) > 2:
        return in_lanes(columns) == lanes(range(first, first + count)) << 1
    tables = _ONE_BYTE if len(columns) == 1 else _TWO_BYTES
    return all(column == table[first : first + count] for column, table in zip(columns, tables, strict=True))


# Lanes: one large integer with 32 bits for each record. Sums, differences and comparisons of such integers are those of
# all records at once. A lane that would be negative borrows from the next, but two sums of lanes are equal only if all
# lanes are, as long as none differs by 2**32.

_SEVEN_BITS = bytes(number & 0x7F for number in range(256))


def lanes(numbers: Collection[int]) -> int:
    """Lanes of numbers below 2**32."""
    return int.from_bytes(struct.pack(f"<{len(numbers)}I", *numbers), "little")


def same_in_lanes(number: int, count: int) -> int:
    """`count` times the same number."""
    return int.from_bytes(b"\1\0\0\0" * count, "little") * number


def in_lanes(columns: Columns) -> int:
    """Lanes of the varints of up to four bytes in `columns`; zig-zag, so twice the number where it is not negative."""
    total = 0
    for place, column in enumerate(columns):
        spread = bytearray(4 * len(column))
        spread[::4] = column.translate(_SEVEN_BITS)
        total += int.from_bytes(spread, "little") << 7 * place
    return total
