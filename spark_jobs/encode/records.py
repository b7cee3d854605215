"""The loop that writes records into batches, and the partitioner's hash; compiled where llvmlite is."""

# The annotations give what the compiled functions take and return; as plain Python the numbers may be numpy's.
# mypy: disable-error-code="assignment,return-value,arg-type"

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.compiled import compiled

Int64s = npt.NDArray[np.int64]

BATCH_HEADER = 61
# The most that a record takes beside its bytes: length, attributes, deltas, two lengths, header count.
RECORD_OVERHEAD = 5 + 1 + 10 + 5 + 5 + 5 + 5
HEADER_OVERHEAD = 10

# Columns of the batch table: where the records lie (the 61 bytes before are for the header), and what the header says.
START, END, COUNT, BASE_TIMESTAMP, MAX_TIMESTAMP = range(5)
TABLE_COLUMNS = 5


@compiled
def _zigzag_size(value: int) -> int:
    rest = (value << 1) ^ (value >> 63)
    size = 1
    while rest > 127:
        rest >>= 7
        size += 1
    return size


@compiled
def _put(out: Any, at: int, value: int) -> int:
    rest = (value << 1) ^ (value >> 63)
    while rest > 127:
        out[at] = (rest & 127) | 128
        rest >>= 7
        at += 1
    out[at] = rest
    return at + 1


@compiled
def _put_bytes(out: Any, at: int, data: Any, start: int, end: int) -> int:
    """Length and bytes; an end of -1 is null."""
    if end < 0:
        out[at] = 1
        return at + 1
    at = _put(out, at, end - start)
    out[at : at + end - start] = data[start:end]
    return at + end - start


@compiled
def _bytes_size(start: int, end: int) -> int:
    return 1 if end < 0 else _zigzag_size(end - start) + end - start


@compiled
def encode_records(
    rows: Int64s,
    keys: Any,
    key_edges: Int64s,
    values: Any,
    value_edges: Int64s,
    timestamps: Int64s,
    header_edges: Int64s,
    header_keys: Any,
    header_key_edges: Int64s,
    header_values: Any,
    header_value_edges: Int64s,
    limit: int,
    out: Any,
    at: int,
    table: Int64s,
) -> tuple[int, int]:
    """Write the given rows, in order, as batches of at most ``limit`` bytes (a larger record has one of its own).

    Edges are (start, end) by row, an end of -1 being null; ``header_edges`` gives each row's headers. Writing begins
    at ``out[at]``. Returns the number of batches, described in ``table``, and where writing ended.
    """
    batches = 0
    count = 0
    base = np.int64(0)
    for i in range(rows.shape[0]):
        row = rows[i]
        first_header = header_edges[row, 0]
        last_header = header_edges[row, 1]
        fixed = (
            1
            + _bytes_size(key_edges[row, 0], key_edges[row, 1])
            + _bytes_size(value_edges[row, 0], value_edges[row, 1])
            + _zigzag_size(last_header - first_header)
        )
        for h in range(first_header, last_header):
            fixed += _bytes_size(header_key_edges[h, 0], header_key_edges[h, 1])
            fixed += _bytes_size(header_value_edges[h, 0], header_value_edges[h, 1])
        timestamp = timestamps[row]
        body = fixed + _zigzag_size(timestamp - base) + _zigzag_size(count)
        if (
            count == 0
            or at - table[batches - 1, START] + BATCH_HEADER + body + _zigzag_size(body) > limit
            or count == 2147483647
        ):
            at += BATCH_HEADER
            table[batches, START] = at
            table[batches, BASE_TIMESTAMP] = timestamp
            table[batches, MAX_TIMESTAMP] = timestamp
            batches += 1
            count = 0
            base = timestamp
            body = fixed + 2
        at = _put(out, at, body)
        out[at] = 0
        at = _put(out, at + 1, timestamp - base)
        at = _put(out, at, count)
        at = _put_bytes(out, at, keys, key_edges[row, 0], key_edges[row, 1])
        at = _put_bytes(out, at, values, value_edges[row, 0], value_edges[row, 1])
        at = _put(out, at, last_header - first_header)
        for h in range(first_header, last_header):
            at = _put_bytes(out, at, header_keys, header_key_edges[h, 0], header_key_edges[h, 1])
            at = _put_bytes(out, at, header_values, header_value_edges[h, 0], header_value_edges[h, 1])
        count += 1
        table[batches - 1, COUNT] = count
        table[batches - 1, END] = at
        if timestamp > table[batches - 1, MAX_TIMESTAMP]:
            table[batches - 1, MAX_TIMESTAMP] = timestamp
    return batches, at


@compiled
def hash_keys(keys: Any, edges: Int64s, hashes: Int64s) -> None:
    """Murmur2 of every key, as Kafka's own clients place records (positive, 31 bits); a null key gets -1."""
    m = 0x5BD1E995
    for row in range(edges.shape[0]):
        start = edges[row, 0]
        end = edges[row, 1]
        if end < 0:
            hashes[row] = -1
            continue
        length = end - start
        h = (0x9747B28C ^ length) & 0xFFFFFFFF
        at = start
        for _ in range(length // 4):
            k = (
                np.int64(keys[at])
                | (np.int64(keys[at + 1]) << 8)
                | (np.int64(keys[at + 2]) << 16)
                | (np.int64(keys[at + 3]) << 24)
            )
            at += 4
            k = _times(k, m)
            k ^= k >> 24
            k = _times(k, m)
            h = _times(h, m) ^ k
        left = length & 3
        if left == 3:
            h ^= np.int64(keys[at + 2]) << 16
        if left >= 2:
            h ^= np.int64(keys[at + 1]) << 8
        if left >= 1:
            h ^= np.int64(keys[at])
            h = _times(h, m)
        h ^= h >> 13
        h = _times(h, m)
        h ^= h >> 15
        hashes[row] = h & 0x7FFFFFFF


@compiled
def _times(a: int, b: int) -> int:
    """Product modulo 2**32 without overflow of 64 bits."""
    low = (a & 0xFFFF) * b
    high = ((a >> 16) * (b & 0xFFFF)) & 0xFFFF
    return (low + (high << 16)) & 0xFFFFFFFF
