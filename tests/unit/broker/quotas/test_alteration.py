"""What may be asked of AlterClientQuotas, and what is written."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from broker.quotas.alteration import alter
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.alter_client_quotas import EntityData, OpData

Named = list[tuple[str, str | None]]


class Znodes:
    def __init__(self, **config: str) -> None:
        self.before = config
        self.written: dict[str, dict[str, str]] = {}

    def config(self, entity_path: str) -> dict[str, str]:
        return dict(self.before)

    def change_configs(self, entity_path: str, config: Mapping[str, str]) -> None:
        self.written[entity_path] = dict(config)


def change(znodes: Znodes, entity: Named, *, validate_only: bool = False, **values: float | None) -> None:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    changes = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()]
    alter(znodes, znodes, parts, changes, validate_only=validate_only)


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        ([("user", "al ice")], "users/al%20ice"),
        ([("user", None)], "users/<default>"),
        ([("client-id", "c"), ("user", "u")], "users/u/clients/c"),
        ([("client-id", None)], "clients/<default>"),
    ],
)
def test_where_quotas_are_kept(entity: Named, path: str) -> None:
    znodes = Znodes(other="kept", consumer_byte_rate="5")
    change(znodes, entity, producer_byte_rate=1024.0, request_percentage=12.5, consumer_byte_rate=None)
    assert znodes.written == {path: {"other": "kept", "producer_byte_rate": "1024", "request_percentage": "12.5"}}


@pytest.mark.parametrize(
    ("value", "text"), [(1e8, "1.0E8"), (150.0, "150.0"), (0.0001, "1.0E-4"), (123456789.25, "1.2345678925E8")]
)
def test_doubles_are_written_as_java_does(value: float, text: str) -> None:
    znodes = Znodes()
    change(znodes, [("user", "u")], controller_mutation_rate=value)
    assert znodes.written == {"users/u": {"controller_mutation_rate": text}}


@pytest.mark.parametrize(
    ("entity", "values"),
    [
        ([], {"producer_byte_rate": 1.0}),
        ([("team", "x")], {"producer_byte_rate": 1.0}),
        ([("user", "")], {"producer_byte_rate": 1.0}),
        ([("ip", "127.0.0.1"), ("user", "u")], {"connection_creation_rate": 1.0}),
        ([("ip", "not an address")], {"connection_creation_rate": 1.0}),
        ([("ip", "127.0.0.1")], {"producer_byte_rate": 1.0}),
        ([("user", "u")], {"connection_creation_rate": 1.0}),
        ([("user", "u")], {"producer_byte_rate": 1.5}),
        ([("user", "u")], {"producer_byte_rate": float("nan")}),
    ],
)
def test_what_is_refused(entity: Named, values: dict[str, float | None]) -> None:
    znodes = Znodes()
    with pytest.raises(ApiError) as caught:
        change(znodes, entity, validate_only=False, **values)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert not znodes.written


def test_nothing_is_written_that_is_only_checked() -> None:
    znodes = Znodes()
    change(znodes, [("user", "u")], producer_byte_rate=1.0, validate_only=True)
    assert not znodes.written
