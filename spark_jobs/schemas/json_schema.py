"""JSON payloads: checked against the writer's schema by fastjsonschema, and read by the reader's.

Objects with properties are structs, other objects maps of JSON text; integer is bigint, number double; what has no
single type comes as its JSON text. What a record lacks is null, or the reader's default.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from network.json_text import parse_json
from spark_jobs.schemas.decoders import RecordError, UnsupportedSchemaError, missing, remembered
from spark_jobs.schemas.registry import Schema

Reader = Callable[[Any], Any]
_PRIMITIVES = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_MAX_DEPTH = 64


class JsonDecoder:
    """For one reader schema. Writers' schemas are compiled once each."""

    def __init__(self, reader: Schema) -> None:
        self._root = _parse(reader)
        _validator(reader)  # what is wrong with it, or not installed, is told now
        self.arrow_type, self._convert = self._type(self._root, 0)
        self._validators: dict[int, Callable[[Any], Any]] = {}

    def read(self, writer: Schema, payload: bytes) -> Any:
        """The value as Python objects of the reader's form."""
        validate = remembered(self._validators, writer, _validator)
        try:
            value = json.loads(payload)
            validate(value)
            return self._convert(value)
        except (ValueError, RecursionError) as error:  # also what fastjsonschema says
            raise RecordError(f"schema {writer.id}: {error}") from None

    def to_arrow(self, values: Sequence[Any]) -> pa.Array:
        """One array of the reader's type."""
        return pa.array(values, self.arrow_type)

    def _type(self, schema: Any, depth: int) -> tuple[pa.DataType, Reader]:
        """The Arrow type, and how to read a value as it."""
        if depth > _MAX_DEPTH:
            raise UnsupportedSchemaError("the schema contains itself, which no type of Spark can")
        if not isinstance(schema, Mapping):
            return pa.string(), _as_text
        if "$ref" in schema:
            return self._type(self._referred(schema["$ref"]), depth + 1)
        kinds = schema.get("type")
        if kinds is None and "properties" in schema:
            kinds = "object"
        if isinstance(kinds, list):
            kinds = [each for each in kinds if each != "null"]
            kinds = kinds[0] if len(kinds) == 1 else None
        for name in ("oneOf", "anyOf"):
            others = [each for each in schema.get(name) or () if each != {"type": "null"}]
            if kinds is None and len(others) == 1:
                return self._type(others[0], depth + 1)
        if kinds in _PRIMITIVES:
            return _PRIMITIVES[kinds], _of_kind(kinds)
        if kinds == "array" and "items" in schema:
            inner, read = self._type(schema["items"], depth + 1)
            return pa.list_(inner), _array(read)
        if kinds == "object" and schema.get("properties"):
            return self._struct(schema["properties"], depth)
        if kinds == "object":
            inner, read = self._type(schema.get("additionalProperties", True), depth + 1)
            return pa.map_(pa.string(), inner), _map(read)
        return pa.string(), _as_text

    def _struct(self, properties: Mapping[str, Any], depth: int) -> tuple[pa.DataType, Reader]:
        fields = []
        readers: list[tuple[str, Reader, Any]] = []
        for name, schema in properties.items():
            inner, read = self._type(schema, depth + 1)
            fields.append(pa.field(name, inner))
            readers.append((name, read, schema.get("default") if isinstance(schema, Mapping) else None))

        def convert(value: Any) -> Any:
            if value is None:
                return None
            if not isinstance(value, dict):
                raise ValueError(f"{_as_text(value)} is no object")
            return {name: read(value.get(name, default)) for name, read, default in readers}

        return pa.struct(fields), convert

    def _referred(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise UnsupportedSchemaError(f"the schema refers to {reference}: only references within it are served")
        found = self._root
        for part in reference[1:].split("/")[1:]:
            try:
                found = found[part.replace("~1", "/").replace("~0", "~")]
            except (KeyError, TypeError):
                raise UnsupportedSchemaError(f"the schema has no {reference}") from None
        return found


def _parse(schema: Schema) -> Any:
    try:
        return parse_json(schema.text)
    except ValueError as error:
        raise UnsupportedSchemaError(f"schema {schema.id} is no JSON: {error}") from None


def _validator(schema: Schema) -> Callable[[Any], Any]:
    try:
        import fastjsonschema
    except ImportError:
        raise missing("fastjsonschema") from None

    def refuse(uri: str) -> Any:
        raise UnsupportedSchemaError(f"schema {schema.id} refers to {uri}: only references within it are served")

    try:
        found: Callable[[Any], Any] = fastjsonschema.compile(
            _parse(schema), handlers={"": refuse, "http": refuse, "https": refuse}, use_default=False
        )
    except fastjsonschema.JsonSchemaDefinitionException as error:
        raise UnsupportedSchemaError(f"schema {schema.id} is no JSON schema: {error}") from None
    return found


def _as_text(value: Any) -> Any:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _of_kind(kind: str) -> Reader:
    wanted: tuple[type, ...] = {"string": (str,), "integer": (int, float), "number": (int, float), "boolean": (bool,)}[
        kind
    ]

    def read(value: Any) -> Any:
        if value is None:
            return None
        if type(value) not in wanted:
            raise ValueError(f"{_as_text(value)} is no {kind}")
        if kind == "integer":
            if value != int(value):
                raise ValueError(f"{value} is no integer")
            return int(value)
        return float(value) if kind == "number" else value

    return read


def _array(read: Reader) -> Reader:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise ValueError(f"{_as_text(value)} is no array")
        return [read(each) for each in value]

    return convert


def _map(read: Reader) -> Reader:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise ValueError(f"{_as_text(value)} is no object")
        return [(key, read(each)) for key, each in value.items()]

    return convert
