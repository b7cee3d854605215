"""The same messages in kio, an independent implementation generated from Kafka's own schemas: the bytes agree.

kio gives some integers richer types (durations, instants, error codes), which it matches by its field metadata; the
fields of a struct stand in the same order in both.
"""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from io import BytesIO
from typing import Any, Literal, get_args, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from network.protocol.api import API
from network.protocol.fields import Field
from network.protocol.message import Message, Struct
from tests.support.messages import structs

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)


def kio_class(cls: type[Message], version: int) -> Any | None:
    name = api_key_map.get(cls.API_KEY)
    kind: Literal[EntityType.request, EntityType.response] = (
        EntityType.request if cls.__name__.endswith("Request") else EntityType.response
    )
    if name is None or kind not in schema_name_map[name].get(version, {}):
        return None
    class_name = cls.__name__.replace("ListClientMetricsResources", "ListConfigResources")  # its name since Kafka 4.1
    return getattr(load_payload_module(cls.API_KEY, version, kind), class_name)


PAIRS: list[tuple[type[Message], dict[int, Any]]] = []
for _spec in API.values():
    for _cls in (_spec.request, _spec.response):
        _versions = range(_cls.MIN_VERSION, _cls.MAX_VERSION + 1)
        _found = {v: found for v in _versions if (found := kio_class(_cls, v)) is not None}
        if _found:
            PAIRS.append((_cls, _found))


def clamp(value: int, kafka_type: str | None) -> int:
    """The nearest integer that kio's richer type can hold."""
    if kafka_type == "timedelta_i64":
        limit = 10**15
        return max(-limit, min(limit, value))
    if kafka_type == "datetime_i64":
        return max(0, min(253_402_300_799_000, value))
    return value


def prepare(message: Struct, kio_cls: Any, version: int) -> None:
    """Bring a message's values into the ranges that kio can represent, in place."""
    for field, kio_field, hint in paired(message, kio_cls, version):
        value = getattr(message, field.name)
        kafka_type = kio_field.metadata.get("kafka_type")
        if isinstance(value, Struct):
            prepare(value, inner_class(hint), version)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, Struct):
                    prepare(item, inner_class(hint), version)
        elif isinstance(value, int) and not isinstance(value, bool):
            setattr(message, field.name, clamp(value, kafka_type))


def paired(message: Struct, kio_cls: Any, version: int) -> list[tuple[Field, Any, Any]]:
    fields = [field for field in message.FIELDS if version in field.versions]
    kio_fields = dataclasses.fields(kio_cls)
    assert len(fields) == len(kio_fields), (kio_cls, [field.name for field in fields])
    hints = get_type_hints(kio_cls)
    return [(field, each, hints[each.name]) for field, each in zip(fields, kio_fields, strict=True)]


def inner_class(hint: Any) -> Any:
    """The entity class inside `X`, `X | None`, `tuple[X, ...]` or `tuple[X, ...] | None`."""
    for argument in get_args(hint):
        if argument is not type(None) and argument is not Ellipsis:
            return inner_class(argument)
    return hint


def to_kio(message: Struct, kio_cls: Any, version: int) -> Any:
    values = {}
    for field, kio_field, hint in paired(message, kio_cls, version):
        value = getattr(message, field.name)
        values[kio_field.name] = convert(value, kio_field.metadata.get("kafka_type"), hint, version)
    return kio_cls(**values)


def convert(value: Any, kafka_type: str | None, hint: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(convert(item, kafka_type, hint, version) for item in value)
    if isinstance(value, Struct):
        return to_kio(value, inner_class(hint), version)
    if kafka_type == "uuid":
        return uuid.UUID(bytes=value) if any(value) else None
    if kafka_type == "error_code":
        return KioErrorCode(value)
    if kafka_type in ("timedelta_i32", "timedelta_i64"):
        return value * _MILLISECOND
    if kafka_type == "datetime_i64":
        return _EPOCH + value * _MILLISECOND
    return value


@pytest.mark.parametrize(("cls", "versions"), PAIRS, ids=[cls.__name__ for cls, _ in PAIRS])
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_bytes_agree_both_ways(cls: type[Message], versions: dict[int, Any], data: st.DataObject) -> None:
    for version, kio_cls in versions.items():
        compare(cls, kio_cls, version, data.draw(structs(cls, version)))


def compare(cls: type[Message], kio_cls: Any, version: int, message: Any) -> None:
    prepare(message, kio_cls, version)
    ours = message.encode(version)

    entity = to_kio(message, kio_cls, version)
    buffer = BytesIO()
    entity_writer(kio_cls)(buffer, entity)
    theirs = buffer.getvalue()
    assert ours == theirs

    read, size = entity_reader(kio_cls)(ours, 0)
    assert size == len(ours)
    assert read == entity
    assert cls.decode(theirs, version) == message


def test_most_messages_are_compared() -> None:
    assert len(PAIRS) >= 110
    assert sum(len(versions) for _, versions in PAIRS) >= 440
