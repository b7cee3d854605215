"""What executors do with each Arrow batch: take frames apart, decode by schema, and see to what can't be decoded."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_jobs.schemas.avro import AvroDecoder
from spark_jobs.schemas.decoders import Decoder, RecordError, UnsupportedSchemaError
from spark_jobs.schemas.framing import take_apart
from spark_jobs.schemas.json_schema import JsonDecoder
from spark_jobs.schemas.protobuf import ProtobufDecoder
from spark_jobs.schemas.registry import AVRO, JSON, PROTOBUF, Registry, Schema, UnknownSchemaError
from spark_jobs.sink import write_batches
from spark_jobs.write_options import WriteOptions

ERROR = "_error"
FAIL, NULL, DEAD_LETTER = "fail", "null", "dead-letter"
MODES = (FAIL, NULL, DEAD_LETTER)
# Records that wait to be written to the dead-letter topic: as many bytes of Arrow.
WAITING_BYTES = 4 * 1024 * 1024
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
# The headers that a dead letter has beside its own.
_WHERE = ("topic", "partition", "offset")


class DecodingError(Exception):
    """A record can't be decoded and the mode is ``fail``."""


@functools.lru_cache(maxsize=32)
def make_decoder(place: str, reader: Schema, message: str | None) -> Decoder:
    """The decoder of a reader schema for records of that registry, made once in a process as it remembers what it
    has made of writers' schemas. Raises UnsupportedSchemaError."""
    if message is not None and reader.kind != PROTOBUF:
        raise UnsupportedSchemaError(f"a message was named, but schema {reader.id} is of {reader.kind}")
    if reader.kind == AVRO:
        return AvroDecoder(reader)
    if reader.kind == PROTOBUF:
        return ProtobufDecoder(reader, message)
    if reader.kind == JSON:
        return JsonDecoder(reader)
    raise UnsupportedSchemaError(f"schema {reader.id} is of the unknown kind {reader.kind}")


@dataclass
class Decode:
    """Given to ``mapInArrow``; everything that executors need travels in it."""

    registry: Registry
    reader: Schema
    message: str | None
    column: str
    into: str
    mode: str
    dead_letters: WriteOptions | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = make_decoder(self.registry.place, self.reader, self.message)
        waiting: list[pa.RecordBatch] = []
        size = 0
        try:
            for batch in batches:
                decoded, errors = self.decode(decoder, batch.column(self.column))
                if errors and self.mode == FAIL:
                    row, text = min(errors.items())
                    raise DecodingError(f"{_place(batch, row)}{text}")
                if errors and self.mode == DEAD_LETTER:
                    letters = _letters(batch, self.column, errors)
                    waiting.append(letters)
                    size += letters.nbytes
                    if size >= WAITING_BYTES:
                        self._bury(waiting)
                        size = 0
                yield self._result(batch, decoded, errors)
        finally:
            self._bury(waiting)

    def decode(self, decoder: Decoder, column: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The decoded column, null where there is an error, and the errors by row."""
        framed = take_apart(column)
        errors = dict(framed.errors)
        values: list[Any] = [None] * len(column)
        for number, rows in framed.groups.items():
            try:
                writer = self._writer(number)
            except (UnknownSchemaError, UnsupportedSchemaError) as error:
                errors |= dict.fromkeys(rows.tolist(), str(error))
                continue
            for row in rows.tolist():
                try:
                    values[row] = decoder.read(writer, framed.payloads[row])
                except (RecordError, UnsupportedSchemaError) as error:
                    errors[row] = str(error)
        try:
            return decoder.to_arrow(values), errors
        except (RecordError, pa.ArrowException, TypeError, ValueError, OverflowError):
            return _one_by_one(decoder, values, errors), errors

    def _writer(self, number: int) -> Schema:
        writer = self.registry.by_id(number)
        if writer.kind != self.reader.kind:
            raise UnsupportedSchemaError(f"schema {number} is of {writer.kind}, the reader's of {self.reader.kind}")
        return writer

    def _result(self, batch: pa.RecordBatch, decoded: pa.Array, errors: dict[int, str]) -> pa.RecordBatch:
        names = [name for name in batch.schema.names if name != self.into]
        columns = [batch.column(name) for name in names]
        told = pa.array([errors.get(row) for row in range(batch.num_rows)], pa.string())
        return pa.RecordBatch.from_arrays([*columns, decoded, told], [*names, self.into, ERROR])

    def _bury(self, waiting: list[pa.RecordBatch]) -> None:
        if waiting and self.dead_letters is not None:
            write_batches(self.dead_letters, iter(waiting))
            waiting.clear()


def _one_by_one(decoder: Decoder, values: list[Any], errors: dict[int, str]) -> pa.Array:
    """Where one value does not fit, the others still do."""
    arrays = []
    for row, value in enumerate(values):
        try:
            arrays.append(decoder.to_arrow([value]))
        except (RecordError, pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            errors[row] = f"the value does not fit the type {decoder.arrow_type}: {error}"
            arrays.append(pa.nulls(1, decoder.arrow_type))
    return pa.concat_arrays(arrays) if arrays else pa.nulls(0, decoder.arrow_type)


def _place(batch: pa.RecordBatch, row: int) -> str:
    if not set(_WHERE) <= set(batch.schema.names):
        return ""
    topic, partition, offset = (batch.column(name)[row].as_py() for name in _WHERE)
    return f"{topic}-{partition} offset {offset}: "


def _letters(batch: pa.RecordBatch, column: str, errors: dict[int, str]) -> pa.RecordBatch:
    """The records of these rows as they were, with what is wrong and where they come from as headers."""
    rows = sorted(errors)
    chosen = batch.take(pa.array(rows, pa.int64()))
    names = chosen.schema.names

    def texts(name: str) -> Sequence[Any]:
        found: Sequence[Any] = chosen.column(name).to_pylist() if name in names else [None] * len(rows)
        return found

    where = [texts(name) for name in _WHERE]
    own = texts("headers")
    headers = []
    for at, row in enumerate(rows):
        mine = [(each["key"], each["value"]) for each in own[at] or ()]
        mine.append(("error", errors[row].encode()))
        mine += [(name, str(v[at]).encode()) for name, v in zip(_WHERE, where, strict=True) if v[at] is not None]
        headers.append([{"key": key, "value": value} for key, value in mine])
    keys = chosen.column("key") if "key" in names else pa.nulls(len(rows), pa.binary())
    return pa.RecordBatch.from_arrays(
        [keys, chosen.column(column), pa.array(headers, _HEADERS)], ["key", "value", "headers"]
    )


@functools.cache
def spark_type(arrow_type: pa.DataType) -> Any:
    """Spark's type of an Arrow type."""
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(arrow_type, prefer_timestamp_ntz=True)
