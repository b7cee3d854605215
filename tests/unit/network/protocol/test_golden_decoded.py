"""Captured frames decode to the values that Kafka's own classes gave for them (records are left out there)."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from network.protocol.api import API
from network.protocol.fields import Field
from network.protocol.header import RequestHeader, decode_request_header, decode_response
from network.protocol.message import Struct
from network.protocol.uuids import to_text
from tests.support.paths import SHARED_GOLDEN, shared_golden

FILES = sorted((SHARED_GOLDEN / "wire").glob("[0-9][0-9]_*.txt"))


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def check(message: Struct, expected: dict[str, Any]) -> None:
    """Every value in `expected` is in the message; a field that is not in there has its default."""
    values = {snake_case(name): value for name, value in expected.items()}
    fields = {field.name: field for field in message.FIELDS}
    assert values.keys() <= fields.keys()
    defaults = type(message)()
    for name, field in fields.items():
        actual = getattr(message, name)
        if name in values:
            if field.kind != "records":
                check_value(field, actual, values[name])
        else:
            assert actual == getattr(defaults, name), name


def check_value(field: Field, actual: Any, expected: Any) -> None:
    if expected is None or actual is None:
        assert actual is expected
    elif isinstance(actual, Struct):
        check(actual, expected)
    elif isinstance(actual, list):
        assert field.element is not None
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            check_value(field.element, one, other)
    elif field.kind == "uuid":
        assert to_text(actual) == expected
    elif field.kind == "bytes":
        assert actual == base64.b64decode(expected)
    else:
        assert actual == expected


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_values_are_those_that_kafka_decodes(path: Path) -> None:
    decoded = [json.loads(line) for line in (path.parent / "decoded" / f"{path.stem}.jsonl").read_text().splitlines()]
    frames = [line.split(" ") for line in path.read_text().splitlines() if not line.startswith("#")]
    key = int(path.name[:2])
    assert len(frames) == len(decoded)
    for (version, correlation_id, direction, text, *_), expected in zip(frames, decoded, strict=True):
        number, frame = int(version), bytes.fromhex(text)[4:]
        assert (number, int(correlation_id)) == (expected["version"], expected["correlation"])
        if direction == ">":
            _, start = decode_request_header(frame)
            check(API[key].request.decode(frame, number, start), expected["message"])
        else:
            check(decode_response(RequestHeader(key, number, int(correlation_id)), frame), expected["message"])


def test_the_captures_are_there() -> None:
    shared_golden()
    assert len(FILES) > 50
