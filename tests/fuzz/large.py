"""Frames that are large by right: every array of every request once with very many elements, all of them different."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from network.protocol.api import API, ApiKey
from network.protocol.errors import ProtocolError
from network.protocol.fields import Field
from network.protocol.header import RequestHeader, encode_request
from network.protocol.message import Struct
from tests.fuzz.frames import BROKERS_OWN, LOGINS, Frame
from tests.fuzz.values import PATIENCE, message

ELEMENTS = 30_000
"""A frame of one or two megabytes, as an administrator of very many partitions may send."""
_MAKES = {
    ApiKey.CREATE_TOPICS: 50,
    ApiKey.CREATE_ACLS: 2_000,
    ApiKey.CREATE_PARTITIONS: 2_000,
    ApiKey.ALTER_CLIENT_QUOTAS: 500,
}
"""Elements where each of them is carried out, one by one, in ZooKeeper: that takes its time by right."""


def large_frames(seed: int) -> Iterator[Frame]:
    """One for each array of each API, in its newest version."""
    for spec in API.values():
        if spec.key in BROKERS_OWN or spec.key in LOGINS:
            continue
        version = spec.max_version
        for path in _arrays(spec.request, version):
            made = _plain(spec.request, version, random.Random(seed))
            holder = made
            for field in path[:-1]:
                holder = getattr(holder, field.name)[0]
            field = path[-1]
            setattr(holder, field.name, [_element(field, version, n) for n in range(_MAKES.get(spec.key, ELEMENTS))])
            for name in PATIENCE:
                if hasattr(made, name):
                    setattr(made, name, 1)
            header = RequestHeader(spec.key, version, 1, "large")
            try:
                yield Frame(encode_request(header, made), header, f"many {field.name}")
            except ProtocolError:
                continue  # a value that this version has no bytes for


def _arrays(cls: type[Struct], version: int) -> Iterator[tuple[Field, ...]]:
    """The ways to its arrays, those within the elements of others after them."""
    for field in cls.FIELDS:
        if version in field.versions and field.kind == "array":
            yield (field,)
            assert field.element is not None
            if field.element.kind == "struct":
                for rest in _arrays(field.element.struct, version):  # type: ignore[arg-type]
                    yield (field, *rest)


def _plain(cls: type[Struct], version: int, rng: random.Random) -> Any:
    """An instance without oddities: names, small numbers, one element in each array."""
    made = message(cls, version, rng)
    made.unknown_tags = None
    for field in cls.FIELDS:
        if version not in field.versions:
            continue
        if field.kind == "array":
            setattr(made, field.name, [_element(field, version, 0)])
        elif field.kind == "struct":
            setattr(made, field.name, _plain(field.struct, version, rng))  # type: ignore[arg-type]
        elif field.kind == "records":
            setattr(made, field.name, b"")
        else:
            setattr(made, field.name, copy.copy(_simple(field, 0)))
    return made


def _element(field: Field, version: int, number: int) -> Any:
    element = field.element
    assert element is not None
    if element.kind != "struct":
        return _simple(element, number)
    made = element.struct()  # type: ignore[misc]
    for part in made.FIELDS:
        if version not in part.versions:
            continue
        if part.kind == "array":
            setattr(made, part.name, [_element(part, version, 0)])
        elif part.kind == "struct":
            setattr(made, part.name, _plain(part.struct, version, random.Random(number)))  # type: ignore[arg-type]
        else:
            setattr(made, part.name, _simple(part, number))
    return made


def _simple(field: Field, number: int) -> Any:
    match field.kind:
        case "string":
            return f"n{number}"
        case "bytes" | "records":
            return b""
        case "uuid":
            return number.to_bytes(16, "big")
        case "bool":
            return False
        case "float64":
            return 1.0
        case "int8" | "int16" | "uint16":
            return 1
        case _:
            return number
