"""The table of APIs agrees with the message classes, and with the versions that Kafka advertised."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from network.protocol import messages
from network.protocol.api import API, ApiKey
from network.protocol.fields import NEVER
from network.protocol.message import Message, Request, Response, StoredPayload, Struct
from network.protocol.messages.api_versions import ApiVersionsResponse
from tests.support.paths import GOLDEN

MODULES = [
    importlib.import_module(f"{messages.__name__}.{each.name}") for each in pkgutil.iter_modules(messages.__path__)
]
CLASSES = [
    value
    for module in MODULES
    for value in vars(module).values()
    if isinstance(value, type) and issubclass(value, Struct) and value.__module__ == module.__name__
]


@pytest.mark.parametrize("key", sorted(API))
def test_rows_agree_with_their_messages(key: int) -> None:
    spec = API[key]
    assert spec.key == key
    for cls, base in ((spec.request, Request), (spec.response, Response)):
        assert issubclass(cls, base)
        assert key == cls.API_KEY
        assert (spec.min_version, spec.max_version) == (cls.MIN_VERSION, cls.MAX_VERSION)
        assert spec.flexible_version == cls.FLEXIBLE_VERSION


def test_every_message_is_in_the_table() -> None:
    declared = {cls for cls in CLASSES if issubclass(cls, Request | Response)}
    assert declared == {spec.request for spec in API.values()} | {spec.response for spec in API.values()}
    assert {int(key) for key in ApiKey} == set(API) == {*range(52), 56, 57, 58, 60, 61, *range(65, 70), 71, 72, 74}


def test_versions_that_kafka_advertised() -> None:
    """The captured answer of Apache Kafka 3.9.1 to ApiVersions."""
    answers = [line.split(" ") for line in (GOLDEN / "wire" / "18_ApiVersions.txt").read_text().splitlines()]
    frame = next(bytes.fromhex(line[3]) for line in answers if line[0] == "4" and line[2] == "<")
    answer = ApiVersionsResponse.decode(frame, 4, 8)
    assert len(answer.api_keys) > 50
    for row in answer.api_keys:
        if row.api_key not in (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE):
            spec = API[row.api_key]
            assert (row.min_version, row.max_version) == (spec.min_version, spec.max_version), spec.name


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: f"{cls.__module__.rsplit('.', 1)[1]}.{cls.__name__}")
def test_declarations_are_sound(cls: type[Struct]) -> None:
    if issubclass(cls, Message):
        assert cls.MIN_VERSION <= cls.MAX_VERSION
        assert issubclass(cls, Request | Response | StoredPayload)
    names = [field.name for field in cls.FIELDS]
    assert len(set(names)) == len(names)
    tags = [field.tag for field in cls.FIELDS if field.tag is not None]
    assert sorted(set(tags)) == sorted(tags)
    for field in cls.FIELDS:
        assert field.versions
        assert field.default is not None or field.nullable, f"{field.name} has a default that it may not have"
    cls()


def test_stored_payloads_have_no_key() -> None:
    stored = [cls for cls in CLASSES if issubclass(cls, StoredPayload)]
    assert len(stored) == 23
    assert all(cls.API_KEY == -1 for cls in stored)
    assert API[ApiKey.SASL_HANDSHAKE].flexible_version == NEVER
