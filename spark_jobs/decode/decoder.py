"""Record sets of one partition to Arrow record batches.

A :class:`Decoder` belongs to one read of one partition and range. It is given fetch answers (or pieces of segment
files) in order and gives back Arrow batches of the wanted columns; what isolation and range exclude is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from log.errors import LogError
from log.records.compression import GrowingRoom, decompress_into
from log.records.old_formats import LegacyBatch
from spark_jobs.compiled import new_buffer
from spark_jobs.decode import columns as col
from spark_jobs.decode import walk
from spark_jobs.decode.walk import Int64s

CONTROL = 0x20
TRANSACTIONAL = 0x10
APPEND_TIME = 0x08
CODEC = 0x07

# Data is walked and copied into columns in pieces of about this size: what was walked is still in the processor's
# cache when it is copied, the memory of a piece serves the next one, and memory does not follow the size of answers.
PIECE_BYTES = 1024 * 1024


class CorruptBatchError(Exception):
    """Bytes that no producer wrote: names topic, partition and offset."""


@dataclass(slots=True)
class AbortedTransactions:
    """Aborted transactions of a READ_COMMITTED fetch: which batches to leave out (KIP-98)."""

    by_first_offset: list[tuple[int, int]] = field(default_factory=list)
    open_ids: set[int] = field(default_factory=set)

    def begin(self, entries: Iterable[tuple[int, int]]) -> None:
        """Take the (first offset, producer id) pairs of the next fetch answer.

        Each answer lists every transaction that touches it, also those begun before it, so nothing carries over.
        """
        self.by_first_offset = sorted(entries)
        self.open_ids.clear()

    @property
    def is_empty(self) -> bool:
        """True when no batch can belong to an aborted transaction."""
        return not self.by_first_offset and not self.open_ids

    def excludes(self, row: Any, is_abort_marker: Callable[[], bool]) -> bool:
        """Whether a batch belongs to an aborted transaction; called once a batch, in offset order."""
        last_offset = int(row[walk.BASE_OFFSET] + row[walk.LAST_OFFSET_DELTA])
        while self.by_first_offset and self.by_first_offset[0][0] <= last_offset:
            self.open_ids.add(self.by_first_offset.pop(0)[1])
        producer_id = int(row[walk.PRODUCER_ID])
        if row[walk.ATTRIBUTES] & CONTROL:
            if is_abort_marker():
                self.open_ids.discard(producer_id)
            return True
        return bool(row[walk.ATTRIBUTES] & TRANSACTIONAL) and producer_id in self.open_ids


class Decoder:
    """Decodes one partition's record sets in ascending order.

    ``next_offset`` is where the following fetch begins; it moves over compacted gaps, control batches and aborted
    data even when these give no row.
    """

    def __init__(self, topic: str, partition: int, first_offset: int, end_offset: int, wanted: tuple[str, ...]) -> None:
        self.topic = topic
        self.partition = partition
        self.next_offset = first_offset
        self.end_offset = end_offset
        self.aborted = AbortedTransactions()
        self._columns = wanted
        self._schema = col.arrow_schema(wanted)
        self._with_headers = "headers" in wanted
        # Batches are expanded into it, one piece after the other: columns are copies, so it is free then.
        self._plain = GrowingRoom(0, 2 * PIECE_BYTES, new_buffer)

    def decode(self, data: bytes | bytearray | memoryview, *, read_committed: bool = False) -> Iterator[pa.RecordBatch]:
        """Arrow batches of the complete record batches in ``data``; a cut last batch is left for the next answer.

        Raises CorruptBatchError for bytes that do not parse.
        """
        view = memoryview(data)
        buffer = walk.as_buffer(data)
        table = walk.scan_batches(buffer, len(view))
        if not len(table):
            return
        if table[-1, walk.SIZE] < 0:
            raise self._corrupt(int(table[-1, walk.BASE_OFFSET]), "impossible size or magic")
        first = self.next_offset
        if (table[:, walk.MAGIC] < 2).any():
            yield from self._mixed(view, buffer, table)
        elif read_committed and not self.aborted.is_empty:
            yield from self._batches(view, buffer, table[self._committed(view, table)], first)
        else:
            yield from self._batches(view, buffer, table[(table[:, walk.ATTRIBUTES] & CONTROL) == 0], first)
        self._pass(table)

    def _pass(self, table: Int64s) -> None:
        last_offset = int(table[-1, walk.BASE_OFFSET] + table[-1, walk.LAST_OFFSET_DELTA])
        self.next_offset = max(self.next_offset, last_offset + 1)

    def _committed(self, view: memoryview, table: Int64s) -> list[int]:
        return [
            index
            for index, row in enumerate(table)
            if not self.aborted.excludes(row, lambda row=row: _is_abort(view, row))  # type: ignore[misc]
        ]

    def _mixed(self, view: memoryview, buffer: Any, table: Int64s) -> Iterator[pa.RecordBatch]:
        """A record set with magic 0 or 1 in it: batch by batch, in order."""
        for index in range(len(table)):
            if table[index, walk.MAGIC] < 2:
                yield from self._legacy(view, table[index])
            elif not table[index, walk.ATTRIBUTES] & CONTROL:
                yield from self._batches(view, buffer, table[index : index + 1], self.next_offset)

    def _batches(self, view: memoryview, buffer: Any, rows: Int64s, first: int) -> Iterator[pa.RecordBatch]:
        """Data batches of magic 2; those outside the range or without records are left out."""
        last_offsets = rows[:, walk.BASE_OFFSET] + rows[:, walk.LAST_OFFSET_DELTA]
        inside = (last_offsets >= first) & (rows[:, walk.BASE_OFFSET] < self.end_offset) & (rows[:, walk.COUNT] > 0)
        if not inside.all():
            rows = rows[inside]
        if not len(rows):
            return
        if not (rows[:, walk.ATTRIBUTES] & CODEC).any():
            for begin, end in _pieces(rows[:, walk.SIZE]):
                piece = rows[begin:end]
                starts = piece[:, walk.POSITION] + walk.HEADER_BYTES
                yield from self._rows(buffer, piece, starts, piece[:, walk.POSITION] + piece[:, walk.SIZE], first)
            return
        begin = end = 0
        bounds: list[tuple[int, int]] = []
        for i, (position, size, codec) in enumerate(
            zip(
                rows[:, walk.POSITION].tolist(),
                rows[:, walk.SIZE].tolist(),
                (rows[:, walk.ATTRIBUTES] & CODEC).tolist(),
                strict=True,
            )
        ):
            payload = view[position + walk.HEADER_BYTES : position + size]
            start = end
            try:
                end = decompress_into(codec, payload, self._plain, start)
            except LogError as error:
                raise self._corrupt(int(rows[i, walk.BASE_OFFSET]), str(error)) from error
            bounds.append((start, end))
            if end >= PIECE_BYTES or i == len(rows) - 1:
                edges = np.array(bounds, dtype=np.int64)
                starts, ends = edges[:, 0].copy(), edges[:, 1].copy()
                yield from self._rows(self._plain.data[:end], rows[begin : i + 1], starts, ends, first)
                end, bounds, begin = 0, [], i + 1

    def _rows(self, data: Any, rows: Int64s, starts: Int64s, ends: Int64s, first: int) -> Iterator[pa.RecordBatch]:
        declared = rows[:, walk.COUNT]
        # A record takes seven bytes at least: a larger count is a lie, refused before anything is allocated.
        lies = (declared < 0) | (declared * walk.MIN_RECORD_BYTES > ends - starts)
        if lies.any():
            raise self._corrupt(int(rows[int(lies.argmax()), walk.BASE_OFFSET]), "record count exceeds the batch")
        records = np.empty((int(declared.sum()), walk.RECORD_COLUMNS), dtype=np.int64)
        headers = np.empty((len(records) if self._with_headers else 0, walk.HEADER_COLUMNS), dtype=np.int64)
        while True:
            count, header_count, fault = walk.walk_records(
                data, rows, starts, ends, first, self.end_offset, records, headers, self._with_headers
            )
            if fault != -2:
                break
            headers = np.empty((max(2 * len(headers), int(header_count)), walk.HEADER_COLUMNS), dtype=np.int64)
        if fault >= 0:
            raise self._corrupt(int(rows[fault, walk.BASE_OFFSET]), "records do not parse")
        if count:
            yield self._batch(data, rows, records[:count], headers[:header_count])

    def _batch(self, data: Any, rows: Int64s, records: Int64s, headers: Int64s) -> pa.RecordBatch:
        count = len(records)
        arrays = []
        for name in self._columns:
            if name == "key":
                arrays.append(col.gather(data, records, walk.KEY_START, walk.KEY_END))
            elif name == "value":
                arrays.append(col.gather(data, records, walk.VALUE_START, walk.VALUE_END))
            elif name == "topic":
                arrays.append(col.constant(self.topic, pa.string(), count))
            elif name == "partition":
                arrays.append(col.constant(self.partition, pa.int32(), count))
            elif name == "offset":
                arrays.append(pa.array(records[:, walk.OFFSET]))
            elif name == "timestamp":
                arrays.append(col.timestamps(records[:, walk.TIMESTAMP]))
            elif name == "timestampType":
                arrays.append(_timestamp_types(rows, records))
            else:
                arrays.append(col.headers_column(data, records, headers))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _legacy(self, view: memoryview, row: Any) -> Iterator[pa.RecordBatch]:
        """Magic 0 and 1: rare, so record by record."""
        position = int(row[walk.POSITION])
        entry = LegacyBatch(view[position : position + int(row[walk.SIZE])])
        try:
            found = [record for record in entry.iter_records() if self.next_offset <= record.offset < self.end_offset]
        except LogError as error:
            raise self._corrupt(entry.last_offset, str(error)) from error
        if found:
            self.next_offset = found[-1].offset + 1
            by_name: dict[str, list[object]] = {
                "key": [None if r.key is None else bytes(r.key) for r in found],
                "value": [None if r.value is None else bytes(r.value) for r in found],
                "topic": [self.topic] * len(found),
                "partition": [self.partition] * len(found),
                "offset": [r.offset for r in found],
                "timestamp": [r.timestamp * 1000 for r in found],
                "timestampType": [entry.timestamp_type] * len(found),
                "headers": [None] * len(found),
            }
            arrays = [pa.array(by_name[name], self._schema.field(name).type) for name in self._columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _corrupt(self, offset: int, why: str) -> CorruptBatchError:
        return CorruptBatchError(f"{self.topic}-{self.partition}, batch at offset {offset}: {why}")


def _pieces(sizes: Int64s) -> Iterator[tuple[int, int]]:
    """Runs of batches of about PIECE_BYTES; a larger batch is a run of its own."""
    piece = np.cumsum(sizes) // PIECE_BYTES
    edges = np.flatnonzero(np.diff(piece)) + 1
    begin = 0
    for end in (*edges.tolist(), len(sizes)):
        yield begin, end
        begin = end


def _timestamp_types(rows: Int64s, records: Int64s) -> pa.Array:
    append_time = (rows[:, walk.ATTRIBUTES] & APPEND_TIME) != 0
    if not append_time.any():
        return col.constant(0, pa.int32(), len(records))
    if append_time.all():
        return col.constant(1, pa.int32(), len(records))
    batch_of = np.searchsorted(rows[:, walk.BASE_OFFSET], records[:, walk.OFFSET], side="right") - 1
    return pa.array(append_time[batch_of].astype(np.int32))


def _is_abort(view: memoryview, row: Any) -> bool:
    """Type of a control batch's marker: its one record's key is (int16 version, int16 type), 0 is abort."""
    position = int(row[walk.POSITION])
    data = bytes(view[position + walk.HEADER_BYTES : position + int(row[walk.SIZE])])
    records = np.empty((1, walk.RECORD_COLUMNS), dtype=np.int64)
    one = np.array([row], dtype=np.int64)
    headers = np.empty((0, walk.HEADER_COLUMNS), dtype=np.int64)
    walk.walk_records(
        walk.as_buffer(data),
        one,
        np.zeros(1, np.int64),
        np.full(1, len(data), np.int64),
        -(2**63),
        2**63 - 1,
        records,
        headers,
        False,
    )
    start = int(records[0, walk.KEY_START])
    return data[start + 2 : start + 4] == b"\0\0"


def next_offset_after(records: memoryview) -> int | None:
    """Offset after the last complete batch of a record set, None when it holds none."""
    table = walk.scan_batches(walk.as_buffer(records), len(records))
    if not len(table):
        return None
    return int(table[-1, walk.BASE_OFFSET] + table[-1, walk.LAST_OFFSET_DELTA]) + 1
