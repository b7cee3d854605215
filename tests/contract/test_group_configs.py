"""Configs of consumer groups (ConfigResource type GROUP): as Apache Kafka 4.1.0 in KRaft mode."""

from __future__ import annotations

import pytest

from network.client.connection import Connection
from network.protocol.errors import ErrorCode as E
from network.protocol.messages import alter_configs
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.consumer_member import RawMember, describe, new_group, wait_until
from tests.support.consumer_protocol import SESSION_TIMEOUT_MS

GROUP = 32
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
MIN, MAX = "group.consumer.min.", "group.consumer.max."
DEFAULT_SESSION = str(SESSION_TIMEOUT_MS)
SET, DELETE, APPEND, SUBTRACT = range(4)
OVERRIDE, DEFAULT, INT = 8, 5, 3

Change = tuple[str, int, str | None]


@pytest.fixture
def group() -> str:
    return new_group()


def alter(connection: Connection, group: str, *changes: Change, validate_only: bool = False) -> tuple[E, str | None]:
    configs = [AlterableConfig(name=name, config_operation=kind, value=value) for name, kind, value in changes]
    resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = connection.call(request, 1, 20_000).responses
    assert (result.resource_type, result.resource_name) == (GROUP, group)
    return E.of(result.error_code), result.error_message


def replace(connection: Connection, group: str, configs: dict[str, str]) -> tuple[E, str | None]:
    """AlterConfigs."""
    resource = alter_configs.AlterConfigsResource(
        resource_type=GROUP,
        resource_name=group,
        configs=[alter_configs.AlterableConfig(name=name, value=value) for name, value in configs.items()],
    )
    (result,) = connection.call(alter_configs.AlterConfigsRequest(resources=[resource]), 2, 20_000).responses
    return E.of(result.error_code), result.error_message


def shown(connection: Connection, group: str, *keys: str) -> dict[str, tuple[str | None, int]]:
    """Value and source of each config."""
    resource = DescribeConfigsResource(
        resource_type=GROUP, resource_name=group, configuration_keys=list(keys or (SESSION, HEARTBEAT))
    )
    (result,) = connection.call(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4, 20_000).results
    assert result.error_code == 0, result.error_message
    for each in result.configs:
        assert (each.config_type, each.read_only, each.is_sensitive) == (INT, False, False)
        assert [(it.name, it.value, it.source) for it in each.synonyms] == [(each.name, each.value, each.config_source)]
    return {each.name: (each.value, each.config_source) for each in result.configs}


def eventually_shown(connection: Connection, group: str, expected: dict[str, tuple[str, int]]) -> None:
    wait_until(lambda: shown(connection, group) == expected, f"{expected}")


def limit_session(connection: Connection, group: str, session_timeout_ms: str) -> None:
    """Set the session timeout; it applies to who joins when this returns.

    What is described is in force a moment later. A heartbeat tells the interval, which is set with it.
    """
    assert alter(connection, group, (SESSION, SET, session_timeout_ms), (HEARTBEAT, SET, "200")) == (E.NONE, None)
    probe = RawMember(connection, group, ["one"])
    probe.join()
    wait_until(lambda: probe.beat().heartbeat_interval_ms == 200, "the configs of the group")
    probe.leave()


def test_the_interval_applies_at_the_next_heartbeat(connection: Connection, group: str, newcomer: RawMember) -> None:
    assert newcomer.join().heartbeat_interval_ms == 300
    assert alter(connection, group, (HEARTBEAT, SET, "500")) == (E.NONE, None)
    wait_until(lambda: newcomer.beat().heartbeat_interval_ms == 500, "the interval of the group")
    other = RawMember(connection, new_group(), ["one"])
    assert other.join().heartbeat_interval_ms == 300
    assert alter(connection, group, (HEARTBEAT, DELETE, None)) == (E.NONE, None)
    wait_until(lambda: newcomer.beat().heartbeat_interval_ms == 300, "the interval of the broker")


def test_the_session_timeout_applies_from_the_next_heartbeat(
    connection: Connection, group: str, newcomer: RawMember
) -> None:
    """With 60 s the silent member outlives the broker's 12 s; with 4 s it is soon gone."""
    silent, patient = RawMember(connection, group, ["one"]), new_group()
    limit_session(connection, patient, "60000")
    limit_session(connection, group, "4000")
    assert shown(connection, group) == {SESSION: ("4000", OVERRIDE), HEARTBEAT: ("200", OVERRIDE)}
    spared, usual = RawMember(connection, patient, ["one"]), RawMember(connection, new_group(), ["one"])
    for member in (spared, usual, silent, newcomer):
        member.join()

    def is_alone() -> bool:
        newcomer.beat()
        return [member.member_id for member in describe(connection, group).members] == [newcomer.member_id]

    wait_until(is_alone, "the silent member is removed")
    assert len(describe(connection, usual.group).members) == 1, "long before the broker's session timeout"
    wait_until(lambda: not describe(connection, usual.group).members, "the broker's session timeout")
    assert len(describe(connection, patient).members) == 1
    spared.leave()


def test_what_is_described(connection: Connection, group: str) -> None:
    """The group need not exist."""
    defaults = {SESSION: (DEFAULT_SESSION, DEFAULT), HEARTBEAT: ("300", DEFAULT)}
    assert shown(connection, group) == defaults
    assert shown(connection, group, SESSION, "nope") == {SESSION: (DEFAULT_SESSION, DEFAULT)}
    assert alter(connection, group, (SESSION, SET, " 5000 "), (HEARTBEAT, SET, "400")) == (E.NONE, None)
    eventually_shown(connection, group, {SESSION: ("5000", OVERRIDE), HEARTBEAT: ("400", OVERRIDE)})
    assert replace(connection, group, {HEARTBEAT: "700"}) == (E.NONE, None)
    eventually_shown(connection, group, {SESSION: (DEFAULT_SESSION, DEFAULT), HEARTBEAT: ("700", OVERRIDE)})
    assert alter(connection, group, (SESSION, SET, "8000"), validate_only=True) == (E.NONE, None)
    assert alter(connection, group, (HEARTBEAT, DELETE, None), ("nope", DELETE, None)) == (E.NONE, None)
    eventually_shown(connection, group, defaults)


@pytest.mark.parametrize("name", ["a/b c%é", "..", "<default>", "a+b"])
def test_any_name(connection: Connection, name: str) -> None:
    joined = RawMember(connection, name, ["one"])
    joined.join()
    assert alter(connection, name, (HEARTBEAT, SET, "800")) == (E.NONE, None)
    eventually_shown(connection, name, {SESSION: (DEFAULT_SESSION, DEFAULT), HEARTBEAT: ("800", OVERRIDE)})
    wait_until(lambda: joined.beat().heartbeat_interval_ms == 800, "the interval of the group")
    joined.leave()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ((HEARTBEAT, SET, "50"), f"{HEARTBEAT} must be greater than or equal to {MIN}heartbeat.interval.ms"),
        ((HEARTBEAT, SET, "20000"), f"{HEARTBEAT} must be less than or equal to {MAX}heartbeat.interval.ms"),
        ((SESSION, SET, "500"), f"{SESSION} must be greater than or equal to {MIN}session.timeout.ms"),
        ((SESSION, SET, "70000"), f"{SESSION} must be less than or equal to {MAX}session.timeout.ms"),
        ((HEARTBEAT, SET, DEFAULT_SESSION), f"{SESSION} must be greater than {HEARTBEAT}"),
        ((SESSION, SET, "abc"), f"Invalid value abc for configuration {SESSION}: Not a number of type INT"),
        ((SESSION, SET, "0"), f"Invalid value 0 for configuration {SESSION}: Value must be at least 1"),
        (("nope", SET, "1"), "Unknown group config name: nope"),
        ((SESSION, APPEND, "1"), f"Can't APPEND to key {SESSION} because its type is not LIST."),
        (("nope", SUBTRACT, "1"), "Can't SUBTRACT to key nope because its type is not LIST."),
    ],
)
def test_what_is_refused(connection: Connection, group: str, change: Change, text: str) -> None:
    assert alter(connection, group, change) == (E.INVALID_CONFIG, text)
    assert alter(connection, group, change, validate_only=True) == (E.INVALID_CONFIG, text)
    if change[1] == SET:
        assert replace(connection, group, {change[0]: change[2] or ""}) == (E.INVALID_CONFIG, text)
    assert shown(connection, group) == {SESSION: (DEFAULT_SESSION, DEFAULT), HEARTBEAT: ("300", DEFAULT)}


def test_requests_that_are_refused(connection: Connection, group: str) -> None:
    default = "Default group resources are not allowed."
    assert alter(connection, "", (SESSION, SET, "8000")) == (E.INVALID_REQUEST, default)
    assert replace(connection, "", {SESSION: "8000"}) == (E.INVALID_REQUEST, default)
    assert alter(connection, group, (SESSION, SET, None)) == (
        E.INVALID_REQUEST,
        f"Null value not supported for : {SESSION}",
    )
    assert alter(connection, group, (SESSION, SET, "5000"), (SESSION, SET, "6000"))[0] == E.INVALID_REQUEST
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=GROUP, resource_name="")])
    (result,) = connection.call(request, 4, 20_000).results
    assert (result.error_code, result.error_message) == (E.INVALID_REQUEST, "Group name must not be empty")
