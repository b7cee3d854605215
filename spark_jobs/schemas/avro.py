"""Avro payloads by fastavro, with the reader schema resolved against each writer's as Avro's specification says.

Types are those of Spark's own ``from_avro``: a union with null is its other branch, int with long is bigint, float
with double is double, and every other union a struct of ``member0``, ``member1`` and so on, all but one of them null.
Logical types without a type in Spark (times, durations, uuids) come as what they are stored as.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_jobs.schemas.avro_hazards import endless, has_items_without_bytes
from spark_jobs.schemas.decoders import RecordError, UnsupportedSchemaError, missing, remembered
from spark_jobs.schemas.registry import Schema

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_NUMBERS = {frozenset({"int", "long"}): pa.int64(), frozenset({"float", "double"}): pa.float64()}


class AvroDecoder:
    """For one reader schema. Writers' schemas are parsed once each."""

    def __init__(self, reader: Schema) -> None:
        try:
            import fastavro
        except ImportError:
            raise missing("fastavro") from None
        self._read = fastavro.schemaless_reader
        self._validate = fastavro.validation.validate
        self._reader, self._named = _parse(reader)
        self._text = (reader.text, reader.references)
        self._unions = False
        self.arrow_type = self._type(self._reader)
        self._writers: dict[int, tuple[Any, Any]] = {}

    def read(self, writer: Schema, payload: bytes) -> Any:
        """The value as Python objects. Bytes that a field lacks which the reader passes over are not missed."""
        schema, reader = remembered(self._writers, writer, self._pair)
        stream = io.BytesIO(payload)
        try:
            value = self._read(stream, schema, reader)
        except Exception as error:  # whatever garbage leads to
            raise RecordError(f"schema {writer.id}: {type(error).__name__} {error}".rstrip()) from None
        left = len(payload) - stream.tell()
        if left:
            raise RecordError(f"schema {writer.id}: {left} bytes are left over")
        return value

    def to_arrow(self, values: Sequence[Any]) -> pa.Array:
        """One array of the reader's type."""
        if self._unions:
            values = [self._placed(self._reader, value) for value in values]
        return pa.array(values, self.arrow_type)

    def _pair(self, writer: Schema) -> tuple[Any, Any]:
        """The parsed schema, and the reader's where it is another: resolving costs a fifth of the time."""
        schema, _ = _parse(writer)
        return schema, None if (writer.text, writer.references) == self._text else self._reader

    def _type(self, schema: Any) -> pa.DataType:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return _PRIMITIVES[schema] if schema in _PRIMITIVES else self._type(self._named[schema])
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self._type(kind)
        if kind in ("record", "error"):
            return pa.struct([pa.field(each["name"], self._type(each["type"])) for each in schema["fields"]])
        if kind == "array":
            return pa.list_(self._type(schema["items"]))
        if kind == "map":
            return pa.map_(pa.string(), self._type(schema["values"]))
        logical = schema.get("logicalType")
        if logical == "decimal":
            return pa.decimal128(schema["precision"], schema.get("scale", 0))
        if logical in _LOGICAL:
            return _LOGICAL[logical]
        return self._type(kind)

    def _union(self, branches: list[Any]) -> pa.DataType:
        others = [each for each in branches if each != "null"]
        if len(others) == 1:
            return self._type(others[0])
        number = _NUMBERS.get(frozenset(each for each in others if isinstance(each, str)))
        if number is not None and len(others) == 2:
            return number
        self._unions = True
        return pa.struct([pa.field(f"member{n}", self._type(each)) for n, each in enumerate(others)])

    def _placed(self, schema: Any, value: Any) -> Any:
        """The value with each union's at the member that it is of."""
        if value is None:
            return None
        if isinstance(schema, str):
            named = self._named.get(schema)
            return value if named is None else self._placed(named, value)
        if isinstance(schema, list):
            others = [each for each in schema if each != "null"]
            if len(others) == 1:
                return self._placed(others[0], value)
            if frozenset(each for each in others if isinstance(each, str)) in _NUMBERS and len(others) == 2:
                return value
            for number, each in enumerate(others):
                if self._validate(value, self._with_names(each), raise_errors=False):
                    return {f"member{number}": self._placed(each, value)}
            raise RecordError("a value is of no branch of its union")
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self._placed(kind, value)
        if kind in ("record", "error"):
            return {each["name"]: self._placed(each["type"], value[each["name"]]) for each in schema["fields"]}
        if kind == "array":
            return [self._placed(schema["items"], each) for each in value]
        if kind == "map":
            return {key: self._placed(schema["values"], each) for key, each in value.items()}
        return value

    def _with_names(self, schema: Any) -> Any:
        return self._named.get(schema, schema) if isinstance(schema, str) else schema


def _parse(schema: Schema) -> tuple[Any, dict[str, Any]]:
    """A schema as fastavro wants it, and all named types of it. Raises UnsupportedSchemaError."""
    from fastavro import parse_schema

    named: dict[str, Any] = {}
    try:
        for _, text in schema.references:
            parse_schema(_stored(json.loads(text)), named_schemas=named)
        parsed = parse_schema(_stored(json.loads(schema.text)), named_schemas=named)
    except Exception as error:
        raise UnsupportedSchemaError(f"schema {schema.id} is no Avro schema: {error}") from None
    name = endless(parsed, named)
    if name is not None:
        raise UnsupportedSchemaError(f"schema {schema.id}: {name} contains itself, which no type of Spark can")
    if has_items_without_bytes(parsed, named):
        raise UnsupportedSchemaError(f"schema {schema.id}: an array of items that take no bytes has no bound")
    return parsed, named


def _stored(schema: Any) -> Any:
    """The schema without the logical types that Spark has no type for."""
    if isinstance(schema, list):
        return [_stored(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {
        name: _stored(each) if name in ("type", "items", "values", "fields") else each for name, each in schema.items()
    }
    logical = found.get("logicalType")
    if logical is not None and logical not in _LOGICAL and (logical != "decimal" or found.get("precision", 0) > 38):
        del found["logicalType"]
    return found
