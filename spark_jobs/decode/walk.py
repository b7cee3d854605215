"""The walk over batch headers and records: positions and numbers only, no copies of keys or values.

With llvmlite both loops are compiled; without it the same code runs as plain Python and gives the same arrays, slowly.
"""

# The annotations give what the compiled functions take and return; as plain Python the numbers may be numpy's.
# mypy: disable-error-code="assignment,return-value"

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.compiled import COMPILED, as_buffer, compiled

__all__ = ["COMPILED", "as_buffer", "copy_values", "scan_batches", "total_bytes", "walk_records"]

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

# Columns of the batch table.
POSITION, SIZE, BASE_OFFSET, LAST_OFFSET_DELTA, ATTRIBUTES, BASE_TIMESTAMP, MAX_TIMESTAMP = range(7)
PRODUCER_ID, COUNT, MAGIC = range(7, 10)
BATCH_COLUMNS = 10

# Columns of the record table.
OFFSET, TIMESTAMP, KEY_START, KEY_END, VALUE_START, VALUE_END, HEADERS_FROM = range(7)
RECORD_COLUMNS = 7
# Columns of the header table; an end of -1 is a null value.
HEADER_KEY_START, HEADER_KEY_END, HEADER_VALUE_START, HEADER_VALUE_END = range(4)
HEADER_COLUMNS = 4

HEADER_BYTES = 61
LEGACY_HEADER_BYTES = 17
MIN_RECORD_BYTES = 7
HALF = (1 << 63) - 1


@compiled
def _int64_at(data: Any, at: int) -> int:
    value = np.int64(0)
    for i in range(8):
        value = (value << 8) | np.int64(data[at + i])
    return value


@compiled
def _int32_at(data: Any, at: int) -> int:
    value = np.int64(0)
    for i in range(4):
        value = (value << 8) | np.int64(data[at + i])
    return value - (np.int64(1) << 32) if value >= (np.int64(1) << 31) else value


def scan_batches(data: Any, length: int) -> Int64s:
    """The complete batches of a record set, one row each (columns above).

    Stops before a batch that is cut off, as fetch answers may end in one. A size that no batch can have ends the
    scan with a row whose SIZE is -1 at its position. Of magic 0 and 1 only position, size and magic are filled.
    """
    table = np.zeros((min(length // LEGACY_HEADER_BYTES + 1, 4096), BATCH_COLUMNS), dtype=np.int64)
    at = found = 0
    while True:
        found, at, more = _scan(data, at, length, table, found)
        if not more:
            return table[:found]
        grown = np.zeros((found * 4, BATCH_COLUMNS), dtype=np.int64)
        grown[:found] = table
        table = grown


@compiled
def _scan(data: Any, at: int, length: int, table: Int64s, found: int) -> tuple[int, int, int]:
    """Go on at a position with so many rows found: (rows found, position, 1 when the table is full, else 0)."""
    while at + LEGACY_HEADER_BYTES <= length:
        size = _int32_at(data, at + 8) + 12
        magic = np.int64(data[at + 16])
        broken = size < 12 + 14 or magic > 2 or (magic == 2 and size < HEADER_BYTES)
        if not broken and at + size > length:
            break
        if found == table.shape[0]:
            return found, at, 1
        table[found, POSITION] = at
        if broken:
            table[found, SIZE] = -1
            return found + 1, at, 0
        table[found, SIZE] = size
        table[found, MAGIC] = magic
        table[found, BASE_OFFSET] = _int64_at(data, at)
        if magic == 2:
            table[found, ATTRIBUTES] = np.int64(data[at + 22])
            table[found, LAST_OFFSET_DELTA] = _int32_at(data, at + 23)
            table[found, BASE_TIMESTAMP] = _int64_at(data, at + 27)
            table[found, MAX_TIMESTAMP] = _int64_at(data, at + 35)
            table[found, PRODUCER_ID] = _int64_at(data, at + 43)
            table[found, COUNT] = _int32_at(data, at + 57)
        found += 1
        at += size
    return found, at, 0


@compiled
def walk_records(
    data: Any,
    batches: Int64s,
    starts: Int64s,
    ends: Int64s,
    first_offset: int,
    end_offset: int,
    records: Int64s,
    headers: Int64s,
    with_headers: bool,
) -> tuple[int, int, int]:
    """Walk the records of the batches and fill the tables.

    Records of ``batches[i]`` lie at ``data[starts[i]:ends[i]]``, in ascending order over all batches. Only offsets in
    ``[first_offset, end_offset)`` are kept. A null key or value has an end of -1; HEADERS_FROM is the row's first
    header, or -1 - that for a record without headers. ``records`` must hold all declared records; ``headers`` may be
    too small.

    Returns (records kept, headers found, fault): fault is -1, or the index of the batch whose records do not parse,
    or -2 when ``headers`` was too small (headers found then says how many fit at least: call again with more).
    """
    kept = 0
    header_rows = 0
    for b in range(batches.shape[0]):
        at = starts[b]
        end = ends[b]
        base_offset = batches[b, BASE_OFFSET]
        base_timestamp = batches[b, BASE_TIMESTAMP]
        append_time = (batches[b, ATTRIBUTES] & 8) != 0
        if append_time:
            base_timestamp = batches[b, MAX_TIMESTAMP]
        for _ in range(batches[b, COUNT]):
            length, at = _varlong(data, at, end)
            if at < 0 or length < 6 or at + length > end:
                return kept, header_rows, b
            stop = at + length
            at += 1
            timestamp_delta, at = _varlong(data, at, stop)
            if at < 0:
                return kept, header_rows, b
            offset_delta, at = _varlong(data, at, stop)
            if at < 0:
                return kept, header_rows, b
            key_length, at = _varlong(data, at, stop)
            if at < 0 or (key_length > 0 and at + key_length > stop):
                return kept, header_rows, b
            key_start = at
            key_end = np.int64(-1)
            if key_length >= 0:
                at += key_length
                key_end = at
            value_length, at = _varlong(data, at, stop)
            if at < 0 or (value_length > 0 and at + value_length > stop):
                return kept, header_rows, b
            value_start = at
            value_end = np.int64(-1)
            if value_length >= 0:
                at += value_length
                value_end = at
            offset = base_offset + offset_delta
            if offset >= first_offset and offset < end_offset:
                records[kept, OFFSET] = offset
                records[kept, TIMESTAMP] = base_timestamp if append_time else base_timestamp + timestamp_delta
                records[kept, KEY_START] = key_start
                records[kept, KEY_END] = key_end
                records[kept, VALUE_START] = value_start
                records[kept, VALUE_END] = value_end
                if with_headers:
                    count, at = _varlong(data, at, stop)
                    if at < 0 or count < 0 or count > stop - at:
                        return kept, header_rows, b
                    records[kept, HEADERS_FROM] = header_rows if count > 0 else -1 - header_rows
                    if header_rows + count > headers.shape[0]:
                        return kept, header_rows + count, -2
                    for _h in range(count):
                        name_length, at = _varlong(data, at, stop)
                        if at < 0 or name_length < 0 or at + name_length > stop:
                            return kept, header_rows, b
                        headers[header_rows, HEADER_KEY_START] = at
                        at += name_length
                        headers[header_rows, HEADER_KEY_END] = at
                        content_length, at = _varlong(data, at, stop)
                        if at < 0 or (content_length > 0 and at + content_length > stop):
                            return kept, header_rows, b
                        headers[header_rows, HEADER_VALUE_START] = at
                        headers[header_rows, HEADER_VALUE_END] = -1
                        if content_length >= 0:
                            at += content_length
                            headers[header_rows, HEADER_VALUE_END] = at
                        header_rows += 1
                    if at != stop:
                        return kept, header_rows, b
                kept += 1
            at = stop
        if at != end:
            return kept, header_rows, b
    return kept, header_rows, -1


@compiled
def total_bytes(table: Int64s, start: int, end: int) -> tuple[int, int]:
    """Of the values from one column to the other: (bytes, nulls)."""
    total = 0
    nulls = 0
    for row in range(table.shape[0]):
        if table[row, end] < 0:
            nulls += 1
        else:
            total += table[row, end] - table[row, start]
    return total, nulls


@compiled
def copy_values(data: Any, table: Int64s, start: int, end: int, values: Any, offsets: Int32s) -> None:
    """Copy the values behind each other, and write where each begins and the last ends."""
    at = 0
    for row in range(table.shape[0]):
        offsets[row] = at
        if table[row, end] >= 0:
            length = table[row, end] - table[row, start]
            values[at : at + length] = data[table[row, start] : table[row, end]]
            at += length
    offsets[table.shape[0]] = at


@compiled
def _varlong(data: Any, at: int, end: int) -> tuple[int, int]:
    """Zig-zag varint at a position: (value, next position), next position -1 when it does not end in time."""
    value = 0
    shift = 0
    while at < end and shift < 64:
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return ((value >> 1) & HALF) ^ -(value & 1), at
        shift += 7
    return 0, -1
