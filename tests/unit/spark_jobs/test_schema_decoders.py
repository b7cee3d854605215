"""Frames and payloads of all three kinds: what is decoded, what other versions become, and what is no record."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.datasource")

import fastavro
import pyarrow as pa

from spark_jobs.schemas import apply, protobuf
from spark_jobs.schemas.apply import Decode, make_decoder
from spark_jobs.schemas.avro_hazards import endless, has_items_without_bytes
from spark_jobs.schemas.decoders import UnsupportedSchemaError
from spark_jobs.schemas.framing import FrameError, message_path, take_apart
from spark_jobs.schemas.registry import AVRO, JSON, PROTOBUF, FolderRegistry, Schema, UnknownSchemaError


def decode(
    schemas: dict[int, Schema], reader: int, values: list[bytes | None], message: str | None = None
) -> tuple[pa.DataType, list[Any], dict[int, str]]:
    """The type, the values and the errors of a column."""
    registry = FolderRegistry(schemas, {}, repr(schemas))
    work = Decode(registry, schemas[reader], message, "value", "value", apply.NULL, None)
    decoder = make_decoder(registry.place, schemas[reader], message)
    array, errors = work.decode(decoder, pa.array(values, pa.binary()))
    return decoder.arrow_type, array.to_pylist(), errors


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


def test_frames_of_a_slice() -> None:
    column = pa.array(
        [b"x" * 9, framed(7, b"a"), None, b"\0\0\0\0", framed(2**31 + 1, b""), framed(7, b"bc"), b"\1" * 5]
    )
    found = take_apart(column[1:])
    assert {number: rows.tolist() for number, rows in found.groups.items()} == {7: [0, 4], 2**31 + 1: [3]}
    assert found.payloads == [b"a", None, None, b"", b"bc", None]
    assert found.errors == {
        2: "the value has 4 bytes, a frame has 5",
        5: "the value begins with byte 1, a frame with 0",
    }


@pytest.mark.parametrize("column", [[], [None], [b""], [None, b""]])
def test_frames_of_next_to_nothing(column: list[bytes | None]) -> None:
    found = take_apart(pa.array(column, pa.binary()))
    assert found.groups == {}
    assert sorted(found.errors) == [row for row, value in enumerate(column) if value is not None]


@pytest.mark.parametrize(
    ("payload", "expected"),
    [(b"\0x", ((0,), 1)), (b"\2\0x", ((0,), 2)), (b"\4\2\6", ((1, 3), 3)), (b"\2\x80\2", ((128,), 3))],
)
def test_paths_of_messages(payload: bytes, expected: tuple[tuple[int, ...], int]) -> None:
    assert message_path(payload) == expected


@pytest.mark.parametrize("payload", [b"", b"\4\2", b"\x80", b"\x80" * 9, b"\1", b"\xfe\1" + b"\0" * 200])
def test_paths_that_are_none(payload: bytes) -> None:
    with pytest.raises(FrameError):
        message_path(payload)


def record(name: str, *fields: tuple[Any, ...]) -> dict[str, Any]:
    listed = [{"name": f[0], "type": f[1], **({"default": f[2]} if len(f) > 2 else {})} for f in fields]
    return {"type": "record", "name": name, "fields": listed}


def avro(number: int, schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return framed(number, out.getvalue())


OLD = record("C", ("id", "int"), ("dropped", "string"))
NEW = record("C", ("id", "long"), ("name", "string", "?"), ("u", ["null", "int", "string"], None))
AVRO_SCHEMAS = {1: Schema(1, AVRO, json.dumps(OLD)), 2: Schema(2, AVRO, json.dumps(NEW))}


def test_avro_becomes_the_readers_form() -> None:
    old = avro(1, OLD, {"id": 1, "dropped": "d"})
    values = [old, avro(2, NEW, {"id": 2**40, "name": "x", "u": "s"}), avro(2, NEW, {"id": 3, "name": "y", "u": 5})]
    kind, rows, errors = decode(AVRO_SCHEMAS, 2, [*values, values[1][:-1], old + b"x", framed(3, b""), None])
    assert str(kind) == "struct<id: int64, name: string, u: struct<member0: int32, member1: string>>"
    assert rows == [
        {"id": 1, "name": "?", "u": None},
        {"id": 2**40, "name": "x", "u": {"member0": None, "member1": "s"}},
        {"id": 3, "name": "y", "u": {"member0": 5, "member1": None}},
        *[None] * 4,
    ]
    assert sorted(errors) == [3, 4, 5]
    assert "1 bytes are left over" in errors[4]
    assert "no schema 3" in errors[5]


def test_an_older_reader_of_avro() -> None:
    """What was an int is a long now."""
    _, rows, errors = decode(AVRO_SCHEMAS, 1, [avro(2, NEW, {"id": 1, "name": "x", "u": None})])
    assert rows == [None]
    assert "long is not int" in errors[0]


def test_avro_that_nests_without_end() -> None:
    """In a field that the reader passes over: fastavro's compiled reader would end the process."""
    node = record("N", ("v", "int"), ("next", ["null", "N"]))
    writer = record("C", ("id", "int"), ("chain", node))
    schemas = {1: Schema(1, AVRO, json.dumps(writer)), 2: Schema(2, AVRO, json.dumps(record("C", ("id", "int"))))}
    _, rows, errors = decode(schemas, 2, [framed(1, b"\x0e" + b"\x02\x02" * 100_000 + b"\x02\x00"), framed(2, b"\x0e")])
    assert rows == [None, {"id": 7}]
    assert list(errors) == [0]
    assert "schema 1: N contains itself" in errors[0]


@pytest.mark.parametrize(
    "items", ["null", record("E"), record("E", ("n", "null")), {"type": "fixed", "name": "F", "size": 0}]
)
def test_avro_arrays_of_nothing(items: Any) -> None:
    """Five bytes would be a list of a thousand million."""
    schemas = {1: Schema(1, AVRO, json.dumps(record("C", ("many", {"type": "array", "items": items}))))}
    with pytest.raises(UnsupportedSchemaError, match="items that take no bytes"):
        decode(schemas, 1, [framed(1, b"\x80\x94\xeb\xdc\x03\x00")])


def test_hazards_of_avro_are_told_from_what_only_looks_like_them() -> None:
    """A type that is used twice, or many times over, contains itself no more than one that is used once."""
    twice: Any = "int"
    for number in range(40):
        inner = record(f"T{number}", ("a", twice), ("b", f"T{number - 1}" if number else "int"))
        twice = inner
    listed = {"type": "array", "items": ["null", "int"]}
    for schema in (record("C", ("x", twice), ("y", "T3")), record("C", ("x", listed)), "null"):
        named: dict[str, Any] = {}
        parsed = fastavro.parse_schema(schema, named_schemas=named)
        assert endless(parsed, named) is None
        assert not has_items_without_bytes(parsed, named)


def test_types_of_avro() -> None:
    schema = record(
        "T",
        ("b", ["null", "bytes"]),
        ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        ("again", ["null", "E"]),
        ("l", {"type": "array", "items": record("I", ("x", "float"))}),
        ("m", {"type": "map", "values": "double"}),
        ("d", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}),
        ("day", {"type": "int", "logicalType": "date"}),
        ("t", {"type": "int", "logicalType": "time-millis"}),
        ("n", ["int", "long"]),
        ("f", {"type": "fixed", "name": "F", "size": 2}),
    )
    value = {"b": b"1", "e": "B", "again": "A", "l": [{"x": 0.5}], "m": {"k": 1.5}, "d": Decimal("1.25")}
    value |= {"day": datetime(2026, 1, 2).date(), "t": 5, "n": 7, "f": b"ab"}
    stored = json.loads(json.dumps(schema).replace(', "logicalType": "time-millis"', ""))
    kind, rows, errors = decode({1: Schema(1, AVRO, json.dumps(schema))}, 1, [avro(1, stored, value)])
    assert errors == {}
    assert rows == [{**value, "m": [("k", 1.5)]}]
    assert str(kind) == (
        "struct<b: binary, e: string, again: string, l: list<item: struct<x: float>>, m: map<string, double>, "
        "d: decimal128(5, 2), day: date32[day], t: int32, n: int64, f: binary>"
    )


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (AVRO, record("L", ("next", ["null", "L"])), "L contains itself"),
        (AVRO, {"type": "no"}, "no Avro schema"),
        (JSON, {"$ref": "#"}, "contains itself"),
        (JSON, {"properties": {"a": {"$ref": "other.json"}}}, "only references within it"),
        (JSON, {"type": 7}, "no JSON schema"),
        ("XML", {}, "unknown kind"),
    ],
)
def test_schemas_that_are_refused(kind: str, text: Any, said: str) -> None:
    with pytest.raises(UnsupportedSchemaError, match=said):
        make_decoder(said, Schema(1, kind, json.dumps(text)), None)


def test_protobuf_of_other_messages_that_contain_themselves_and_that_are_none() -> None:
    text = 'syntax = "proto3"; message Tree { repeated Tree of = 1; }'
    with pytest.raises(UnsupportedSchemaError, match="Tree contains itself"):
        make_decoder("tree", Schema(1, PROTOBUF, text), None)
    with pytest.raises(UnsupportedSchemaError, match="has no message Bush; it has Tree"):
        make_decoder("tree", Schema(1, PROTOBUF, text), "Bush")
    with pytest.raises(UnsupportedSchemaError, match="no Protobuf file"):
        make_decoder("tree", Schema(1, PROTOBUF, "message {"), None)
    with pytest.raises(UnsupportedSchemaError, match="leads out"):
        make_decoder("tree", Schema(1, PROTOBUF, text, (("../../x.proto", text),)), None)


FIRST = 'syntax = "proto3"; package p; message M { int32 id = 1; string gone = 2; }'
SECOND = """syntax = "proto3"; package p;
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; import "common.proto";
message M {
  int64 id = 1; optional string page = 3; google.protobuf.Timestamp at = 4; google.protobuf.Int32Value n = 5;
  map<string, Part> parts = 6; repeated Part more = 7; Part one = 8; uint64 big = 9; bytes raw = 10; Color color = 11;
}
"""
COMMON = 'syntax = "proto3"; package p; enum Color { RED = 0; BLUE = 1; } message Part { repeated double x = 1; }'
PROTO_SCHEMAS = {1: Schema(1, PROTOBUF, FIRST), 2: Schema(2, PROTOBUF, SECOND, (("common.proto", COMMON),))}


def test_protobuf_becomes_the_readers_form() -> None:
    from google.protobuf import message_factory

    made = [
        message_factory.GetMessageClass(protobuf._compile(PROTO_SCHEMAS[n]).pool.FindMessageTypeByName("p.M"))
        for n in (1, 2)
    ]
    new = made[1](id=5, page="", more=[{"x": [1, 2]}], parts={"k": {"x": [3]}}, big=2**63, raw=b"r", color=1)
    new.at.seconds = 1
    new.n.value = 0
    head = framed(2, b"\0")
    unknown_color = b"\x58\x09"
    values = [framed(1, b"\0" + made[0](id=4, gone="x").SerializeToString()), head + new.SerializeToString()]
    kind, rows, errors = decode(PROTO_SCHEMAS, 2, [*values, head + unknown_color, head + b"\xff", None])
    assert sorted(errors) == [3]
    empty: dict[str, Any] = {
        "id": 0,
        "page": None,
        "at": None,
        "n": None,
        "parts": [],
        "more": [],
        "one": None,
        "big": 0,
    }
    empty |= {"raw": b"", "color": "RED"}
    full: dict[str, Any] = {
        "id": 5,
        "page": "",
        "at": datetime.fromtimestamp(1, UTC),
        "n": 0,
        "parts": [("k", {"x": [3.0]})],
    }
    full |= {"more": [{"x": [1.0, 2.0]}], "one": None, "big": 2**63, "raw": b"r", "color": "BLUE"}
    assert rows == [{**empty, "id": 4}, full, {**empty, "color": "9"}, None, None]
    assert kind.field("big").type == pa.decimal128(20, 0)


CLICK = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["null", "string"]},
        "tags": {"type": "array", "items": {"$ref": "#/definitions/tag"}},
        "sums": {"type": "object", "additionalProperties": {"type": "number"}},
        "any": {},
        "lang": {"type": "string", "default": "en"},
    },
    "definitions": {"tag": {"type": "object", "properties": {"on": {"type": "boolean"}}}},
}


def test_json_is_checked_by_the_writers_schema_and_read_by_the_readers() -> None:
    loose = {"type": "object", "properties": {"id": {"type": ["integer", "string"]}}}
    schemas = {1: Schema(1, JSON, json.dumps(CLICK)), 2: Schema(2, JSON, json.dumps(loose))}
    full = {"id": 1, "name": None, "tags": [{"on": True}], "sums": {"k": 1}, "any": [1, "x"]}
    bodies: list[tuple[int, Any]] = [(1, full), (2, {"id": 2, "more": 1}), (1, {"name": "x"}), (2, {"id": "x"})]
    values: list[bytes | None] = [framed(number, json.dumps(body).encode()) for number, body in bodies]
    _, rows, errors = decode(schemas, 1, [*values, framed(1, b"{"), framed(1, b'{"id": 1e30}'), None])
    none = dict.fromkeys(("name", "tags", "sums", "any"))
    assert rows == [
        {**full, "sums": [("k", 1.0)], "any": '[1, "x"]', "lang": "en"},
        {**none, "id": 2, "lang": "en"},
        *[None] * 5,
    ]
    assert sorted(errors) == [2, 3, 4, 5]
    assert "must contain ['id']" in errors[2]
    assert '"x" is no integer' in errors[3]


def test_a_folder_of_schemas(tmp_path: Path) -> None:
    (tmp_path / "1.avsc").write_text(json.dumps(OLD))
    (tmp_path / "2.avsc").write_text(json.dumps(NEW))
    (tmp_path / "5.proto").write_text(SECOND)
    (tmp_path / "common.proto").write_text(COMMON)
    (tmp_path / "subjects.json").write_text('{"c": [1, 2]}')
    found = FolderRegistry.read(str(tmp_path))
    assert (found.by_subject("c", "latest").id, found.by_subject("c", "1").id) == (2, 1)
    assert str(make_decoder(found.place, found.by_id(5), None).arrow_type).startswith("struct<id: int64, page: string")
    with pytest.raises(UnknownSchemaError):
        found.by_id(9)
    for subject, version in (("c", "3"), ("c", "0"), ("d", "latest")):
        with pytest.raises(UnknownSchemaError):
            found.by_subject(subject, version)
