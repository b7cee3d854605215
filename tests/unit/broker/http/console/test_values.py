"""Bytes as texts: MessagePack and Avro against encoders written down from their specifications, and whatever bytes."""

from __future__ import annotations

import contextlib
import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.http.console.records.avro import MAX_ITEMS, AvroError, AvroSchema
from broker.http.console.records.messagepack import MessagePackError, unpack
from broker.http.console.records.values import FORMATS, Decoder, guess, hex_lines


def packed(value: Any) -> bytes:
    """MessagePack in its smallest forms."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return packed_int(value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        data = value.encode()
        return sized(len(data), 0xA0, 31, (0xD9, 0xDA, 0xDB)) + data
    if isinstance(value, bytes):
        return sized(len(value), 0, -1, (0xC4, 0xC5, 0xC6)) + value
    if isinstance(value, list):
        return sized(len(value), 0x90, 15, (None, 0xDC, 0xDD)) + b"".join(map(packed, value))
    return sized(len(value), 0x80, 15, (None, 0xDE, 0xDF)) + b"".join(
        packed(key) + packed(each) for key, each in value.items()
    )


def packed_int(value: int) -> bytes:
    if 0 <= value < 128:
        return bytes([value])
    if -32 <= value < 0:
        return struct.pack("b", value)
    for kind, form in ((0xCC, ">B"), (0xD0, ">b"), (0xCD, ">H"), (0xD1, ">h"), (0xCE, ">I"), (0xD2, ">i")):
        try:
            return bytes([kind]) + struct.pack(form, value)
        except struct.error:
            continue
    return b"\xcf" + struct.pack(">Q", value) if value >= 0 else b"\xd3" + struct.pack(">q", value)


def sized(size: int, small: int, most: int, kinds: tuple[int | None, int, int]) -> bytes:
    if size <= most:
        return bytes([small | size])
    for kind, form, limit in zip(kinds, (">B", ">H", ">I"), (1 << 8, 1 << 16, 1 << 32), strict=True):
        if kind is not None and size < limit:
            return bytes([kind]) + struct.pack(form, size)
    raise AssertionError(size)


PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    PLAIN | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=40), inner, max_size=20),
    max_leaves=40,
)


class TestMessagePack:
    @given(VALUES)
    def test_reads_what_was_written(self, value: Any) -> None:
        assert unpack(packed(value)) == value

    @given(st.binary(max_size=200))
    def test_whatever_bytes_are_a_value_or_refused(self, data: bytes) -> None:
        with contextlib.suppress(MessagePackError):
            unpack(data)

    @given(VALUES.map(packed), st.data())
    def test_a_part_is_refused(self, data: bytes, draw: st.DataObject) -> None:
        with pytest.raises(MessagePackError):
            unpack(data[: draw.draw(st.integers(0, len(data) - 1))])

    def test_extensions_and_timestamps(self) -> None:
        assert unpack(b"\xd6\xff" + struct.pack(">I", 1700000000)) == {"timestamp": 1700000000}
        assert unpack(b"\xd4\x05\x01") == {"extension": 5, "bytes": "01"}
        assert unpack(b"\xc7\x02\x07ab") == {"extension": 7, "bytes": "6162"}

    @pytest.mark.parametrize("data", [b"\xdd\xff\xff\xff\xff", b"\x91" * 500, b"\xc1", b"", b"\x01\x01"])
    def test_claims_that_cannot_be(self, data: bytes) -> None:
        with pytest.raises(MessagePackError):
            unpack(data)


def zigzag(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def text(value: str) -> bytes:
    return zigzag(len(value.encode())) + value.encode()


ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "who", "type": ["null", "string"]},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
            {"name": "then", "type": "State"},
            {"name": "sums", "type": {"type": "array", "items": "double"}},
            {"name": "tags", "type": {"type": "map", "values": "int"}},
            {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 2}},
            {"name": "next", "type": ["null", "Order"]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
)


class TestAvro:
    @given(
        st.integers(-(2**63), 2**63 - 1),
        st.text() | st.none(),
        st.lists(st.floats(allow_nan=False), max_size=5),
        st.dictionaries(st.text(max_size=9), st.integers(-(2**31), 2**31 - 1), max_size=4),
        st.binary(min_size=2, max_size=2),
        st.booleans(),
    )
    def test_reads_a_record(
        self, number: int, who: str | None, sums: list[float], tags: dict[str, int], code: bytes, in_registry: bool
    ) -> None:
        blocks = zigzag(len(sums)) + b"".join(struct.pack("<d", each) for each in sums) if sums else b""
        pairs = b"".join(text(name) + zigzag(each) for name, each in tags.items())
        # A block whose size stands before it, too.
        entries = zigzag(-len(tags)) + zigzag(len(pairs)) + pairs if tags else b""
        data = (
            zigzag(number)
            + (zigzag(0) if who is None else zigzag(1) + text(who))
            + zigzag(1) + zigzag(0)
            + blocks + b"\0" + entries + b"\0" + code + zigzag(0) + zigzag(7)
        )  # fmt: skip
        head = b"\0\0\0\0\x2a" if in_registry else b""
        assert AvroSchema(ORDER).decode(head + data) == {
            "id": number, "who": who, "state": "PAID", "then": "NEW", "sums": sums, "tags": tags, "code": code,
            "next": None, "at": 7,
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("schema", "data", "value"),
        [  # the examples of the specification
            ('"long"', b"\x80\x01", 64),
            ('"long"', b"\x01", -1),
            ('"string"', b"\x06foo", "foo"),
            ('{"type":"array","items":"long"}', b"\x04\x06\x36\x00", [3, 27]),
            ('["null","string"]', b"\x02\x02a", "a"),
            ('"boolean"', b"\x01", True),
            ('"float"', struct.pack("<f", 0.5), 0.5),
            ('"null"', b"", None),
        ],
    )
    def test_examples(self, schema: str, data: bytes, value: Any) -> None:
        assert AvroSchema(schema).decode(data) == value

    @given(st.binary(max_size=200))
    def test_whatever_bytes_are_a_value_or_refused(self, data: bytes) -> None:
        with contextlib.suppress(AvroError):
            AvroSchema(ORDER).decode(data)

    @given(st.text() | VALUES.map(lambda value: json.dumps(value, default=str)))
    def test_whatever_text_is_a_schema_or_refused(self, schema: str) -> None:
        with contextlib.suppress(AvroError):
            AvroSchema(schema)

    def test_items_that_take_no_bytes_have_an_end(self) -> None:
        with pytest.raises(AvroError, match="more than"):
            AvroSchema('{"type":"array","items":"null"}').decode(zigzag(MAX_ITEMS + 1) + b"\0")

    def test_a_record_in_itself_for_ever_is_refused(self) -> None:
        schema = '{"type":"record","name":"A","fields":[{"name":"a","type":"A"}]}'
        with pytest.raises(AvroError, match="too deeply"):
            AvroSchema(schema).decode(b"\0")


class TestDecoder:
    @given(st.sampled_from(FORMATS), st.binary(max_size=300))
    def test_every_form_shows_whatever_bytes(self, form: str, data: bytes) -> None:
        used, shown, problem = Decoder(form, AvroSchema(ORDER)).decode(data)
        assert used in FORMATS
        assert isinstance(shown, str)
        json.dumps([used, shown, problem])
        if problem is None and form != "auto":
            assert used == form

    @pytest.mark.parametrize(
        ("data", "form"),
        [(b'{"a": 1}', "json"), (b"[1]", "json"), (b"{no", "text"), (b"42", "text"), (b"\xff", "hex"), (b"a\0", "hex"),
         ("größer\n".encode(), "text"), (b"[" * 100_000, "text"), (b"", "text")],
    )  # fmt: skip
    def test_guesses(self, data: bytes, form: str) -> None:
        assert guess(data)[0] == form

    @given(st.binary(max_size=100))
    def test_hex_has_every_byte(self, data: bytes) -> None:
        lines = hex_lines(data).split("\n") if data else []
        assert len(lines) == math.ceil(len(data) / 16)
        assert bytes.fromhex(" ".join(line[8:55] for line in lines)) == data

    def test_what_is_not_of_the_form_says_why(self) -> None:
        assert Decoder("json").decode(b"{no")[0] == "text"
        assert Decoder("avro").decode(b"x") == ("text", "x", "no schema has been given")
