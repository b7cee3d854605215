"""The ``odradek`` sink: rows with key, value, headers, topic and partition become records, at least once or
effectively once (:mod:`spark_jobs.effectively_once`).

Columns are those of Spark's Kafka sink; others are ignored, except ``timestamp`` with the option
``includeTimestamp``. Writing is by Arrow batches on the executors; a task that fails is repeated as a whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from network.client.cluster_client import ClusterClient
from network.protocol.errors import ApiError
from spark_jobs import effectively_once as once
from spark_jobs.connection import socket_wrapper
from spark_jobs.effectively_once import Marker, Place, Prepared
from spark_jobs.encode import records as enc
from spark_jobs.encode.encoder import Columns, Headers, RowError, Slices, encode_batches
from spark_jobs.option_table import OptionError
from spark_jobs.producer import Producer
from spark_jobs.transaction import TransactionError
from spark_jobs.worker import task
from spark_jobs.write_options import WriteOptions
from timer.chance import SystemChance
from timer.clock import Clock, SystemClock

Int64s = npt.NDArray[np.int64]

_TEXT_OR_BYTES = (StringType, BinaryType)
# Rows are gathered up to this size before they are spread over partitions, so that batches are worth sending.
GATHER_BYTES = 8 * 1024 * 1024
GATHER_BATCHES = 64


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote, and what the driver has to commit."""

    records: int
    bytes: int
    prepared: Prepared | None = None


def check_schema(schema: StructType, options: WriteOptions) -> None:
    """Raise OptionError, naming column and types, when rows of this schema can't be records."""
    types: dict[str, DataType] = {field.name.lower(): field.dataType for field in schema.fields}
    if options.topic is None and "topic" not in types:
        raise OptionError("a topic is missing: give the option topic or a column 'topic'")
    if "value" not in types:
        raise OptionError(f"the column 'value' is missing; there are {', '.join(schema.names)}")
    _check_type(types, "topic", StringType)
    _check_type(types, "key", *_TEXT_OR_BYTES)
    _check_type(types, "value", *_TEXT_OR_BYTES)
    _check_type(types, "partition", IntegerType)
    if options.include_timestamp:
        if "timestamp" not in types:
            raise OptionError("option includeTimestamp needs a column 'timestamp'")
        _check_type(types, "timestamp", TimestampType)
    if "headers" in types and not _is_headers(types["headers"]):
        raise OptionError(
            f"the column 'headers' has type {types['headers'].simpleString()}; "
            "it must be array<struct<key:string,value:binary>>"
        )


def _check_type(types: Mapping[str, DataType], name: str, *allowed: type[DataType]) -> None:
    found = types.get(name)
    if found is not None and not isinstance(found, allowed):
        wanted = " or ".join(each.typeName() for each in allowed)
        raise OptionError(f"the column {name!r} has type {found.simpleString()}; it must be {wanted}: cast it")


def _is_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    fields: list[StructField] = found.elementType.fields
    return (
        [field.name for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, BinaryType)
    )


class OdradekWriter(DataSourceArrowWriter):
    """Batch writes; only the save mode ``append`` makes sense for a topic."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("a topic can't be overwritten: use mode('append')")
        self._options = WriteOptions.parse(options)
        check_schema(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_batches(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _end(self._options, messages, once.commit)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _end(self._options, messages, once.abort)


class OdradekStreamWriter(DataSourceStreamArrowWriter):
    """Streaming writes: each micro-batch at least once, or effectively once."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = WriteOptions.parse(options)
        check_schema(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_batches(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _end(self._options, messages, once.commit)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _end(self._options, messages, once.abort)


def write_batches(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Runs on executors: encode and send all rows, and wait until they are acknowledged."""
    clock = SystemClock()
    with task(), _client(options, clock) as client:
        if options.effectively_once:
            return write_once(options, client, clock, once.place_of(options, TaskContext.get()), batches)
        producer = Producer(options, client, clock)
        with contextlib.closing(producer):
            _send_all(options, producer, batches, clock, lambda _: None)
    return Written(producer.sent_records, producer.sent_bytes)


def write_once(
    options: WriteOptions, client: ClusterClient, clock: Clock, place: Place, batches: Iterator[pa.RecordBatch]
) -> Written:
    """The rows in a transaction that the driver commits, or nothing if they were committed before."""
    transaction, marker = once.begin(client, clock, options, place)
    rows = once.Rows(options.topic)
    if marker is not None and marker.batch == place.batch:
        for table in _gathered(batches):
            rows.add(table)
        rows.check(marker, place, content=options.compare_rows)
        return Written(0, 0, Prepared(place))
    producer = Producer(options, client, clock, transaction)
    try:
        with contextlib.closing(producer):
            _send_all(options, producer, batches, clock, rows.add)
        if not producer.topics:
            return Written(0, 0, Prepared(place))
        (topic, *_) = producer.topics
        written = Marker(place.batch, topic, rows.records, rows.checksum)
        once.mark(client, transaction, marker, written)
    except BaseException:
        if not transaction.is_empty:
            with contextlib.suppress(TransactionError, ApiError, OSError):
                transaction.end(committed=False)
        raise
    prepared = Prepared(place, transaction.producer_id, transaction.producer_epoch, topic)
    return Written(producer.sent_records, producer.sent_bytes, prepared)


def _send_all(
    options: WriteOptions,
    producer: Producer,
    batches: Iterator[pa.RecordBatch],
    clock: Clock,
    note: Callable[[pa.RecordBatch], None],
) -> None:
    spread = _Spread(options, producer)
    for table in _gathered(batches):
        note(table)
        spread.send(table, clock.wall_ms())
    producer.flush()


def _client(options: WriteOptions, clock: Clock) -> ClusterClient:
    wrap = socket_wrapper(options.security, clock)
    return ClusterClient(options.bootstrap_servers, options.client_id, clock, wrap=wrap)


def _end(
    options: WriteOptions,
    messages: list[WriterCommitMessage | None],
    end: Callable[[ClusterClient, Clock, WriteOptions, Sequence[Prepared]], None],
) -> None:
    """On the driver: what becomes of the tasks' transactions."""
    if options.effectively_once:
        clock = SystemClock()
        prepared = [each.prepared for each in messages if isinstance(each, Written) and each.prepared is not None]
        with _client(options, clock) as client:
            end(client, clock, options, prepared)


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        size += batch.nbytes
        if size >= GATHER_BYTES or len(waiting) >= GATHER_BATCHES:
            yield _joined(waiting)
            waiting, size = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


class _Spread:
    """Gives each row of a table to its topic's partition."""

    def __init__(self, options: WriteOptions, producer: Producer) -> None:
        self._options = options
        self._producer = producer
        self._turn = SystemChance().randrange(1 << 30)

    def send(self, table: pa.RecordBatch, now_ms: int) -> None:
        """Encode and queue all rows. Raises RowError for a row that can't be sent."""
        by_name = {name.lower(): table.column(index) for index, name in enumerate(table.schema.names)}
        columns = self._columns(by_name, table.num_rows, now_ms)
        given = by_name.get("partition")
        for topic, rows in self._topics(by_name.get("topic"), table.num_rows):
            count = self._producer.partition_count(topic)
            targets = self._partitions(columns, rows, given, topic, count)
            order = np.argsort(targets, kind="stable")
            edges = np.searchsorted(targets[order], np.arange(count + 1))
            for partition in range(count):
                mine = rows[order[edges[partition] : edges[partition + 1]]]
                if len(mine):
                    encoded = encode_batches(columns, mine, self._options.batch_bytes, self._options.codec)
                    self._producer.send((topic, partition), encoded)

    def _columns(self, by_name: Mapping[str, Any], count: int, now_ms: int) -> Columns:
        key = by_name.get("key")
        if self._options.include_timestamp:
            stamps = by_name["timestamp"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
            timestamps = stamps.fill_null(now_ms * 1000).to_numpy(zero_copy_only=False) // 1000
            if len(timestamps) and timestamps.min() < 0:
                raise RowError("a timestamp is before 1970, which a record can't have")
        else:
            timestamps = np.full(count, now_ms, np.int64)
        return Columns(
            keys=Slices.nulls(count) if key is None else Slices.of(key),
            values=Slices.of(by_name["value"]),
            headers=Headers.of(by_name.get("headers"), count),
            timestamps=timestamps.astype(np.int64, copy=False),
        )

    def _topics(self, column: Any, count: int) -> Iterator[tuple[str, Int64s]]:
        if self._options.topic is not None:
            yield self._options.topic, np.arange(count)
            return
        if column.null_count:
            raise RowError("null topic present in the data: give every row a topic, or use the option topic")
        encoded = column.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        for code, topic in enumerate(encoded.dictionary.to_pylist()):
            yield topic, np.flatnonzero(codes == code)

    def _partitions(self, columns: Columns, rows: Int64s, given: Any, topic: str, count: int) -> Int64s:
        """By the partition column, else by the key's hash, else in runs that change partition with each batch."""
        edges = columns.keys.edges[rows]
        targets = np.empty(len(rows), np.int64)
        enc.hash_keys(columns.keys.data, edges, targets)
        keyless = targets < 0
        targets %= count
        if keyless.any():
            self._place_keyless(columns, rows, targets, keyless, count)
        if given is not None and given.null_count < len(given):
            wanted = given.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)[rows]
            named = given.is_valid().to_numpy(zero_copy_only=False)[rows]
            wrong = named & ((wanted < 0) | (wanted >= count))
            if wrong.any():
                raise RowError(f"{topic} has partitions 0 to {count - 1}; a row wants {int(wanted[wrong][0])}")
            targets[named] = wanted[named]
        return targets

    def _place_keyless(
        self, columns: Columns, rows: Int64s, targets: Int64s, keyless: npt.NDArray[np.bool_], count: int
    ) -> None:
        where = np.flatnonzero(keyless)
        edges = columns.values.edges[rows[where]]
        size = np.cumsum(np.maximum(edges[:, 1] - edges[:, 0], 0) + enc.RECORD_OVERHEAD)
        run = size // self._options.batch_bytes
        targets[where] = (self._turn + run) % count
        self._turn += int(run[-1]) + 1
