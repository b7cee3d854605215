"""Reading OTLP metrics: the protobuf message `MetricsData` of opentelemetry-proto 1.x, as clients push it.

What KIP-714 has clients send is read, gauges and sums, and histograms with bounds; other kinds are counted. Nothing is
built for what is skipped, and the number of points is bounded, so a hostile message of a megabyte costs no more than
its size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

MAX_POINTS = 10_000
"""Of one message."""
MAX_ATTRIBUTES = 64
"""Of one point together with those of its resource."""
MAX_BUCKETS = 200
"""Of one histogram."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE = struct.Struct("<d")
_INT64 = struct.Struct("<q")
_DELTA = 1  # AggregationTemporality
_NO_VALUE = 1  # bit of DataPointFlags: a mark that the series has ended

Attributes = tuple[tuple[str, str], ...]
# Number, wire type, and the value; of a field with a length where it begins and ends.
_Field = tuple[int, int, int, int]


class OtlpError(ValueError):
    """Bytes that are no such message."""


@dataclass(frozen=True, slots=True)
class Point:
    """One value. A counter only grows; `is_delta`: the value is what was added since the last push. `part` is `bucket`,
    `sum` or `count` for one of the values that a histogram consists of, as Prometheus has them."""

    name: str
    attributes: Attributes
    value: float
    is_counter: bool = False
    is_delta: bool = False
    part: str = ""


@dataclass(slots=True)
class Metrics:
    """`skipped` are points of kinds that are not read, or without a value, and those above the bounds."""

    points: list[Point] = field(default_factory=list)
    skipped: int = 0


def decode(data: bytes) -> Metrics:
    """Raises `OtlpError`."""
    found = Metrics()
    try:
        for number, wire, start, end in _fields(data, 0, len(data)):
            if (number, wire) == (1, _BYTES):
                _resource_metrics(data, start, end, found)
    except (UnicodeDecodeError, struct.error, IndexError) as error:
        raise OtlpError(str(error)) from None
    return found


def _resource_metrics(data: bytes, start: int, end: int, found: Metrics) -> None:
    scopes = []
    shared: Attributes = ()
    for number, wire, first, last in _fields(data, start, end):
        if (number, wire) == (1, _BYTES):  # Resource
            shared = tuple(_attributes(data, _all(data, first, last, 1)))
        elif (number, wire) == (2, _BYTES):
            scopes.append((first, last))
    for first, last in scopes:
        for metric in _all(data, first, last, 2):
            _metric(data, *metric, shared, found)


def _metric(data: bytes, start: int, end: int, shared: Attributes, found: Metrics) -> None:
    name = ""
    kinds = []
    for number, wire, first, last in _fields(data, start, end):
        if wire != _BYTES:
            continue
        if number == 1:
            name = data[first:last].decode()
        elif number >= 5:
            kinds.append((number, first, last))
    for number, first, last in kinds:
        if number == 5:  # Gauge
            _points(data, first, last, name, shared, found, is_counter=False, is_delta=False)
        elif number == 7:  # Sum
            facts = {field: value for field, wire, value, _ in _fields(data, first, last) if wire == _VARINT}
            _points(
                data, first, last, name, shared, found, is_counter=bool(facts.get(3)), is_delta=facts.get(2) == _DELTA
            )
        elif number == 9:  # Histogram
            facts = {field: value for field, wire, value, _ in _fields(data, first, last) if wire == _VARINT}
            for point in _all(data, first, last, 1):
                _histogram(data, *point, name, shared, found, is_delta=facts.get(2) == _DELTA)
        else:
            found.skipped += sum(1 for _ in _all(data, first, last, 1))


def _points(
    data: bytes,
    start: int,
    end: int,
    name: str,
    shared: Attributes,
    found: Metrics,
    *,
    is_counter: bool,
    is_delta: bool,
) -> None:
    for first, last in _all(data, start, end, 1):
        value: float | None = None
        flags = 0
        own = []
        for number, wire, at, to in _fields(data, first, last):
            if (number, wire) == (4, _FIXED64):
                (value,) = _DOUBLE.unpack_from(data, at)
            elif (number, wire) == (6, _FIXED64):
                value = float(_INT64.unpack_from(data, at)[0])
            elif (number, wire) == (7, _BYTES):
                own.append((at, to))
            elif (number, wire) == (8, _VARINT):
                flags = at
        is_bounded = len(found.points) < MAX_POINTS and len(own) + len(shared) <= MAX_ATTRIBUTES
        if value is None or flags & _NO_VALUE or not is_bounded:
            found.skipped += 1
            continue
        found.points.append(Point(name, (*_attributes(data, own), *shared), value, is_counter, is_delta))


def _histogram(
    data: bytes, start: int, end: int, name: str, shared: Attributes, found: Metrics, *, is_delta: bool
) -> None:
    """Buckets as Prometheus has them: each with all that is not above its bound."""
    count, flags, total = 0, 0, 0.0
    counts: tuple[int, ...] = ()
    bounds: tuple[float, ...] = ()
    own = []
    for number, wire, at, to in _fields(data, start, end):
        if (number, wire) == (4, _FIXED64):
            count = int.from_bytes(data[at:to], "little")
        elif (number, wire) == (5, _FIXED64):
            (total,) = _DOUBLE.unpack_from(data, at)
        elif number in (6, 7) and to - at > 8 * MAX_BUCKETS:
            found.skipped += 1
            return
        elif (number, wire) == (6, _BYTES):  # the last one has no bound
            counts = struct.unpack(f"<{(to - at) // 8}Q", data[at:to])
        elif (number, wire) == (7, _BYTES):
            bounds = struct.unpack(f"<{(to - at) // 8}d", data[at:to])
        elif (number, wire) == (9, _BYTES):
            own.append((at, to))
        elif (number, wire) == (10, _VARINT):
            flags = at
    fits = len(found.points) + len(bounds) + 3 <= MAX_POINTS and len(own) + len(shared) < MAX_ATTRIBUTES
    # Without buckets there is neither a bound nor a count; with them one count more, that of what is above all bounds.
    if flags & _NO_VALUE or not fits or len(counts) != (len(bounds) + 1 if counts or bounds else 0):
        found.skipped += 1
        return
    attributes = (*_attributes(data, own), *shared)
    below = 0
    values = []
    for bound, more in zip(bounds, counts, strict=False):
        below += more
        values.append(("bucket", (("le", repr(bound)), *attributes), float(below)))
    values.append(("bucket", (("le", "+Inf"), *attributes), float(count)))
    values += [("sum", attributes, total), ("count", attributes, float(count))]
    found.points += [Point(name, labels, value, True, is_delta, part) for part, labels, value in values]


def _attributes(
    data: bytes, entries: Sequence[tuple[int, int]] | Iterator[tuple[int, int]]
) -> Iterator[tuple[str, str]]:
    """Of `KeyValue` entries those with a single value, as text."""
    for count, (start, end) in enumerate(entries):
        if count == MAX_ATTRIBUTES:
            return
        key, value = "", None
        for number, wire, first, last in _fields(data, start, end):
            if (number, wire) == (1, _BYTES):
                key = data[first:last].decode()
            elif (number, wire) == (2, _BYTES):
                value = _any_value(data, first, last)
        if key and value is not None:
            yield key, value


def _any_value(data: bytes, start: int, end: int) -> str | None:
    found = None
    for number, wire, first, last in _fields(data, start, end):
        if (number, wire) == (1, _BYTES):
            found = data[first:last].decode()
        elif (number, wire) == (2, _VARINT):
            found = "true" if first else "false"
        elif (number, wire) == (3, _VARINT):
            found = str(first - (1 << 64) if first >= 1 << 63 else first)
        elif (number, wire) == (4, _FIXED64):
            found = repr(_DOUBLE.unpack_from(data, first)[0])
    return found


def _all(data: bytes, start: int, end: int, wanted: int) -> Iterator[tuple[int, int]]:
    """Where the messages of one repeated field are."""
    for number, wire, first, last in _fields(data, start, end):
        if (number, wire) == (wanted, _BYTES):
            yield first, last


def _fields(data: bytes, at: int, end: int) -> Iterator[_Field]:
    """The fields of the message between two offsets. Raises `OtlpError` for one that does not end within."""
    while at < end:
        tag, at = _varint(data, at, end)
        wire = tag & 7
        if tag < 8:
            raise OtlpError("a field without a number")
        if wire == _VARINT:
            value, at = _varint(data, at, end)
            yield tag >> 3, wire, value, at
            continue
        if wire == _BYTES:
            size, at = _varint(data, at, end)
        elif wire == _FIXED64:
            size = 8
        elif wire == _FIXED32:
            size = 4
        else:
            raise OtlpError(f"a field of the wire type {wire}")
        if size > end - at:
            raise OtlpError("a field is cut off")
        yield tag >> 3, wire, at, at + size
        at += size


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= end or shift > 63:
            raise OtlpError("a number is cut off or too long")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
