"""Reads Avro's binary encoding by a schema that somebody gives, as the specification of Avro 1.12 describes it.

Values that a schema registry's serializer has written begin with a zero byte and the schema's number: both are passed
over, and the given schema is taken for the right one.

Not fastavro, which Spark's side uses: this runs inside the broker on whatever somebody has written, and fastavro has no
bounds. Five bytes that announce a hundred million nulls take it 2.7 s of CPU and 0.8 GB, and a record that is nested
5,000 deep ends the process (fastavro 1.13.1). Here both are errors, by `MAX_ITEMS` and `MAX_DEPTH`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from network.json_text import parse_json

MAX_DEPTH = 64
MAX_ITEMS = 100_000
"""Items of lists and maps in one value: an item may take no byte at all."""
_REGISTRY_HEAD = 5
_MAX_VARINT_BYTES = 10

Read = Callable[["_Reader", int], Any]


class AvroError(ValueError):
    """The schema is none, or the bytes do not fit it."""


class AvroSchema:
    """A schema, made of its JSON text. Raises `AvroError` for what is no schema."""

    def __init__(self, text: str) -> None:
        try:
            parsed = parse_json(text)
        except ValueError:
            raise AvroError("Avro: the schema is no JSON") from None
        self._names: dict[str, Read] = {}
        try:
            self._read = self._of(parsed, "", 0)
        except (KeyError, TypeError, AttributeError) as error:
            raise AvroError(f"Avro: the schema lacks something, or has it in another form: {error}") from None

    def decode(self, data: bytes) -> Any:
        """The value that all of `data` is, with or without a registry's head. Raises `AvroError`."""
        if len(data) > _REGISTRY_HEAD and data[0] == 0:
            try:
                return self._whole(data, _REGISTRY_HEAD)
            except AvroError:
                pass
        return self._whole(data, 0)

    def _whole(self, data: bytes, start: int) -> Any:
        reader = _Reader(data, start)
        value = self._read(reader, 0)
        if reader.position != len(data):
            raise AvroError(f"Avro: {len(data) - reader.position} bytes are left over")
        return value

    def _of(self, schema: Any, space: str, depth: int) -> Read:
        if depth > MAX_DEPTH:
            raise AvroError("Avro: the schema is nested too deeply")
        if isinstance(schema, list):
            return _union([self._of(each, space, depth + 1) for each in schema])
        if isinstance(schema, str):
            return _PRIMITIVES.get(schema) or self._named(schema, space)
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema, space, depth)
        if kind == "enum":
            return self._define(schema, space, _enum(list(schema["symbols"])))
        if kind == "fixed":
            size = int(schema["size"])
            return self._define(schema, space, lambda reader, _: reader.take(size))
        if kind == "array":
            return _blocks(self._of(schema["items"], space, depth + 1), named=False)
        if kind == "map":
            return _blocks(self._of(schema["values"], space, depth + 1), named=True)
        return self._of(kind, space, depth + 1)

    def _record(self, schema: Any, space: str, depth: int) -> Read:
        fields: list[tuple[str, Read]] = []

        def read(reader: _Reader, level: int) -> Any:
            if level > MAX_DEPTH:
                raise AvroError("Avro: nested too deeply")
            return {name: field(reader, level + 1) for name, field in fields}

        self._define(schema, space, read)
        inner = _full_name(schema, space).rpartition(".")[0]
        for field in schema["fields"]:
            fields.append((str(field["name"]), self._of(field["type"], inner, depth + 1)))
        return read

    def _define(self, schema: Any, space: str, read: Read) -> Read:
        self._names[_full_name(schema, space)] = read
        return read

    def _named(self, name: str, space: str) -> Read:
        found = self._names.get(f"{space}.{name}" if space and "." not in name else name) or self._names.get(name)
        if found is None:
            raise AvroError(f"Avro: the schema names {name!r} and does not define it")
        return found


def _full_name(schema: Any, space: str) -> str:
    name = str(schema["name"])
    space = str(schema.get("namespace", space))
    return name if "." in name or not space else f"{space}.{name}"


class _Reader:
    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self.position = position
        self.items_left = MAX_ITEMS

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self._data):
            raise AvroError("Avro: the data ends inside a value")
        found = self._data[self.position : end]
        self.position = end
        return found

    def long(self) -> int:
        value = shift = 0
        for _ in range(_MAX_VARINT_BYTES):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise AvroError("Avro: a number is too long")

    def bytes(self) -> bytes:
        return self.take(self.long())


def _union(branches: list[Read]) -> Read:
    def read(reader: _Reader, level: int) -> Any:
        place = reader.long()
        if not 0 <= place < len(branches):
            raise AvroError(f"Avro: a union has no branch {place}")
        return branches[place](reader, level)

    return read


def _enum(symbols: list[str]) -> Read:
    def read(reader: _Reader, _level: int) -> Any:
        place = reader.long()
        if not 0 <= place < len(symbols):
            raise AvroError(f"Avro: an enum has no symbol {place}")
        return symbols[place]

    return read


def _blocks(item: Read, *, named: bool) -> Read:
    """A list or a map: blocks of items, the last of none; a negative count has the block's size behind it."""

    def read(reader: _Reader, level: int) -> Any:
        if level > MAX_DEPTH:
            raise AvroError("Avro: nested too deeply")
        entries: list[tuple[str, Any]] = []
        while count := reader.long():
            if count < 0:
                count = -count
                reader.long()
            reader.items_left -= count
            if reader.items_left < 0:
                raise AvroError(f"Avro: more than {MAX_ITEMS} items")
            for _ in range(count):
                key = reader.bytes().decode("utf-8", "replace") if named else ""
                entries.append((key, item(reader, level + 1)))
        return dict(entries) if named else [value for _, value in entries]

    return read


def _boolean(reader: _Reader, _level: int) -> bool:
    (byte,) = reader.take(1)
    if byte > 1:
        raise AvroError("Avro: a boolean is neither 0 nor 1")
    return bool(byte)


_PRIMITIVES: dict[str, Read] = {
    "null": lambda reader, level: None,
    "boolean": _boolean,
    "int": lambda reader, level: reader.long(),
    "long": lambda reader, level: reader.long(),
    "float": lambda reader, level: struct.unpack("<f", reader.take(4))[0],
    "double": lambda reader, level: struct.unpack("<d", reader.take(8))[0],
    "bytes": lambda reader, level: reader.bytes(),
    "string": lambda reader, level: reader.bytes().decode("utf-8", "replace"),
}
