"""Bytes of keys, values and headers as texts, in the form that somebody asks for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from broker.http.console.records.avro import AvroError, AvroSchema
from broker.http.console.records.messagepack import MessagePackError, unpack
from network.json_text import parse_json

AUTO, TEXT, JSON_TEXT, HEX, MESSAGE_PACK, AVRO = "auto", "text", "json", "hex", "msgpack", "avro"
FORMATS = (AUTO, TEXT, JSON_TEXT, HEX, MESSAGE_PACK, AVRO)
_BYTES_A_LINE = 16
_CONTROLS = frozenset(map(chr, range(32))) - set("\t\n\r")


class Decoder:
    """Texts of one format. `schema` is what Avro needs."""

    def __init__(self, form: str, schema: AvroSchema | None = None) -> None:
        self._forms: dict[str, Callable[[bytes], tuple[str, str]]] = {
            AUTO: guess,
            TEXT: lambda data: (TEXT, data.decode("utf-8", "replace")),
            JSON_TEXT: _json_text,
            HEX: lambda data: (HEX, hex_lines(data)),
            MESSAGE_PACK: lambda data: (MESSAGE_PACK, as_json(unpack(data))),
            AVRO: lambda data: (AVRO, as_json(schema.decode(data) if schema else _no_schema())),
        }
        self._decode = self._forms[form]
        self.reads_bytes = form in (MESSAGE_PACK, AVRO)
        """Whether a text can be in what is shown without its bytes being in the data."""

    def decode(self, data: bytes) -> tuple[str, str, str | None]:
        """The form that was used, the text, and why it is not the form that was asked for."""
        try:
            form, text = self._decode(data)
        except (AvroError, MessagePackError, ValueError, RecursionError) as error:
            form, text = guess(data)
            return form, text, str(error)
        return form, text, None


def guess(data: bytes) -> tuple[str, str]:
    """JSON where it is an object or a list, text where it can be read, hex otherwise."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return HEX, hex_lines(data)
    if not _CONTROLS.isdisjoint(text):
        return HEX, hex_lines(data)
    if text[:1] in ("{", "["):
        try:
            parse_json(text)
            return JSON_TEXT, text
        except ValueError:
            pass
    return TEXT, text


def hex_lines(data: bytes) -> str:
    """Sixteen bytes a line, with their offset before them and the readable ones behind."""
    lines = []
    for start in range(0, len(data), _BYTES_A_LINE):
        piece = data[start : start + _BYTES_A_LINE]
        readable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        lines.append(f"{start:06x}  {piece.hex(' '):<47}  {readable}")
    return "\n".join(lines)


def as_json(value: Any) -> str:
    """Of what a decoder made; bytes become an object with their hex."""
    return json.dumps(value, ensure_ascii=False, default=_other)


def _other(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytes": bytes(value).hex()}
    return str(value)


def _json_text(data: bytes) -> tuple[str, str]:
    text = data.decode()
    parse_json(text)
    return JSON_TEXT, text


def _no_schema() -> Any:
    raise AvroError("no schema has been given")
