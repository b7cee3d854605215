"""Rows of Arrow columns to record batches of one partition each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from log.records.batch import MAX_INT32, RecordBatch, write_header
from log.records.compression import Codec, compress
from log.records.record import BatchBuilder, Record, batch_attributes, iter_records
from spark_jobs.compiled import as_buffer, new_buffer
from spark_jobs.encode import records as enc
from spark_jobs.encode.records import Int64s


class RowError(ValueError):
    """A row that can't be a record."""


@dataclass(frozen=True, slots=True)
class Slices:
    """Binary values in a buffer: (start, end) by row, an end of -1 being null."""

    data: Any
    edges: Int64s

    @classmethod
    def of(cls, array: pa.Array) -> Slices:
        """From a string or binary array, without a copy of the bytes."""
        count = len(array)
        if not count or array.null_count == count:
            return cls.nulls(count)
        _, offsets, data = array.buffers()
        wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
        edges = np.frombuffer(offsets, np.int64 if wide else np.int32)[array.offset : array.offset + count + 1]
        found = np.empty((count, 2), np.int64)
        found[:, 0] = edges[:-1]
        found[:, 1] = edges[1:]
        if array.null_count:
            found[~array.is_valid().to_numpy(zero_copy_only=False), 1] = -1
        return cls(as_buffer(data if data is not None else b""), found)

    @classmethod
    def nulls(cls, count: int) -> Slices:
        """All null."""
        return cls(as_buffer(b"\0"), np.tile(np.array([0, -1], np.int64), (count, 1)))

    @property
    def total(self) -> int:
        """Bytes of all values."""
        return int(np.maximum(self.edges[:, 1] - self.edges[:, 0], 0).sum())


@dataclass(frozen=True, slots=True)
class Headers:
    """Each row's range of the flat header keys and values."""

    edges: Int64s
    keys: Slices
    values: Slices

    @classmethod
    def of(cls, array: pa.Array | None, count: int) -> Headers:
        """From ``list<struct<key: string, value: binary>>``; null lists and None are no headers. Raises RowError."""
        if array is None or array.null_count == count:
            return cls(np.zeros((count, 2), np.int64), Slices.nulls(0), Slices.nulls(0))
        offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        edges = np.stack([offsets[:-1], offsets[1:]], axis=1)
        if array.null_count:
            nulls = ~array.is_valid().to_numpy(zero_copy_only=False)
            edges[nulls, 1] = edges[nulls, 0]
        keys, values = array.values.flatten()
        key_slices = Slices.of(keys)
        if keys.null_count and _names_null(edges, key_slices):
            raise RowError("a header has a null key")
        return cls(edges, key_slices, Slices.of(values))


def _names_null(edges: Int64s, keys: Slices) -> bool:
    """Whether a null key lies in the headers of any row (entries of null lists do not count)."""
    nulls = np.concatenate([[0], np.cumsum(keys.edges[:, 1] < 0)])
    return bool((nulls[edges[:, 1]] > nulls[edges[:, 0]]).any())


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of some rows, ready for the loop; timestamps in ms."""

    keys: Slices
    values: Slices
    headers: Headers
    timestamps: Int64s

    @property
    def capacity(self) -> int:
        """The most that the records of all rows take, each with a batch header of its own."""
        count = len(self.timestamps)
        names = len(self.headers.keys.edges)
        content = self.keys.total + self.values.total + self.headers.keys.total + self.headers.values.total
        return content + count * (enc.RECORD_OVERHEAD + enc.BATCH_HEADER) + names * enc.HEADER_OVERHEAD


@dataclass(slots=True)
class Batch:
    """A record batch whose header is written when its producer id and sequence are known."""

    data: memoryview
    count: int
    codec: int
    base_timestamp: int
    max_timestamp: int

    def stamp(self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool = False) -> None:
        """Write the header; may be repeated with another producer id."""
        write_header(
            self.data,
            0,
            base_offset=0,
            size=len(self.data),
            partition_leader_epoch=-1,
            attributes=batch_attributes(self.codec, transactional=transactional, control=False),
            last_offset_delta=self.count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self.count,
        )

    def split(self) -> tuple[Batch, Batch]:
        """Two stamped batches of half the records each, for a broker that takes none of this size.

        This one must be stamped and hold two records at least. The parts take over its producer id and sequences, so
        batches behind it keep theirs.
        """
        whole = RecordBatch(self.data)
        records = list(iter_records(whole))
        middle = len(records) // 2
        return self._part(whole, records[:middle], 0), self._part(whole, records[middle:], middle)

    def _part(self, whole: RecordBatch, records: list[Record], first: int) -> Batch:
        builder = BatchBuilder(codec=self.codec)
        for record in records:
            builder.append(record.timestamp, record.key, record.value, record.headers)
        stamps = [record.timestamp for record in records]
        part = Batch(memoryview(builder.build()), len(records), self.codec, stamps[0], max(stamps))
        sequence = whole.base_sequence
        if sequence >= 0:
            sequence = (sequence + first) & MAX_INT32
        part.stamp(whole.producer_id, whole.producer_epoch, sequence, transactional=whole.is_transactional)
        return part


def encode_batches(columns: Columns, rows: npt.NDArray[np.int64], limit: int, codec: int) -> Iterator[Batch]:
    """The rows, in order, as batches of at most ``limit`` bytes before compression."""
    part = rows if len(rows) < len(columns.timestamps) else None
    out = new_buffer(_capacity(columns, part))
    table = np.empty((len(rows), enc.TABLE_COLUMNS), np.int64)
    headers = columns.headers
    count, _ = enc.encode_records(
        rows,
        columns.keys.data,
        columns.keys.edges,
        columns.values.data,
        columns.values.edges,
        columns.timestamps,
        headers.edges,
        headers.keys.data,
        headers.keys.edges,
        headers.values.data,
        headers.values.edges,
        limit,
        out,
        0,
        table,
    )
    view = memoryview(out)
    for row in table[:count]:
        start, end = int(row[enc.START]), int(row[enc.END])
        if codec == Codec.NONE:
            data = view[start - enc.BATCH_HEADER : end]
        else:
            packed = compress(codec, view[start:end])
            data = memoryview(bytearray(enc.BATCH_HEADER) + packed)
        yield Batch(data, int(row[enc.COUNT]), codec, int(row[enc.BASE_TIMESTAMP]), int(row[enc.MAX_TIMESTAMP]))


def _capacity(columns: Columns, rows: npt.NDArray[np.int64] | None) -> int:
    if rows is None:
        return columns.capacity
    content = sum(int(np.maximum(s.edges[rows, 1] - s.edges[rows, 0], 0).sum()) for s in (columns.keys, columns.values))
    edges = columns.headers.edges[rows]
    names = int((edges[:, 1] - edges[:, 0]).sum())
    if names:
        content += columns.headers.keys.total + columns.headers.values.total
    return content + len(rows) * (enc.RECORD_OVERHEAD + enc.BATCH_HEADER) + names * enc.HEADER_OVERHEAD
