"""Arrow columns from positions in a buffer.

Binary values are copied once, into memory of just their size. Without the compiler of loops Arrow gathers them: one
array is laid over the raw buffer, whose odd slots are the values and whose even slots are the bytes between them, and
``take`` copies the odd ones, into memory that grows meanwhile. That needs positions in ascending order, which the walk
gives. Both need buffers below 2 GiB, which the decoder guarantees.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.decode import walk
from spark_jobs.decode.walk import COMPILED, Int64s

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE = pa.list_(HEADER_TYPE)
TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")

BASE_FIELDS = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", TIMESTAMP_TYPE),
    pa.field("timestampType", pa.int32()),
)
HEADERS_FIELD = pa.field("headers", HEADERS_TYPE)


def arrow_schema(columns: tuple[str, ...]) -> pa.Schema:
    """Schema of the named columns in their given order."""
    known = {field.name: field for field in (*BASE_FIELDS, HEADERS_FIELD)}
    return pa.schema([known[name] for name in columns])


def gather(data: Any, table: Int64s, start: int, end: int) -> pa.Array:
    """A binary array of ``data[row[start]:row[end]]`` for each row; an end of -1 is null. Starts must ascend."""
    if not COMPILED:
        return _taken(data, table[:, start], table[:, end])
    count = len(table)
    total, nulls = walk.total_bytes(table, start, end)
    if nulls == count:
        return pa.nulls(count, pa.binary())
    offsets = np.empty(count + 1, dtype=np.int32)
    values = np.empty(total, dtype=np.uint8)
    walk.copy_values(data, table, start, end, values, offsets)
    valid = pa.py_buffer(np.packbits(table[:, end] >= 0, bitorder="little")) if nulls else None
    return pa.BinaryArray.from_buffers(pa.binary(), count, [valid, pa.py_buffer(offsets), pa.py_buffer(values)], nulls)


def _taken(data: Any, starts: Int64s, ends: Int64s) -> pa.Array:
    count = len(starts)
    nulls = ends < 0
    has_nulls = bool(nulls.any())
    if has_nulls and bool(nulls.all()):
        return pa.nulls(count, pa.binary())
    offsets = np.empty(2 * count + 1, dtype=np.int32)
    offsets[0] = 0
    offsets[1::2] = starts
    offsets[2::2] = np.where(nulls, starts, ends) if has_nulls else ends
    laid = pa.BinaryArray.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    indices = np.arange(1, 2 * count, 2, dtype=np.int32)
    return laid.take(pa.array(indices, mask=nulls) if has_nulls else pa.array(indices))


def headers_column(data: Any, records: Int64s, headers: Int64s) -> pa.Array:
    """``array<struct<key, value>>``; a record without headers is null, as in Spark's connector."""
    marks = records[:, walk.HEADERS_FROM]
    none = marks < 0
    offsets = np.empty(len(records) + 1, dtype=np.int32)
    offsets[:-1] = np.where(none, -1 - marks, marks)
    offsets[-1] = len(headers)
    names = gather(data, headers, walk.HEADER_KEY_START, walk.HEADER_KEY_END)
    values = gather(data, headers, walk.HEADER_VALUE_START, walk.HEADER_VALUE_END)
    pairs = pa.StructArray.from_arrays([_as_text(names), values], fields=list(HEADER_TYPE))
    mask = pa.array(none) if bool(none.any()) else None
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=HEADERS_TYPE, mask=mask)


def _as_text(names: pa.Array) -> pa.Array:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        # Java decodes header names leniently; so does this.
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())


def timestamps(milliseconds: npt.NDArray[np.int64]) -> pa.Array:
    """Microseconds since the epoch in UTC, as Spark keeps them."""
    return pa.array(milliseconds * 1000).view(TIMESTAMP_TYPE)


def constant(value: object, type_: pa.DataType, count: int) -> pa.Array:
    """A column of one value."""
    return pa.repeat(pa.scalar(value, type_), count)
