"""Groups with a session timeout and a heartbeat interval of their own."""

from __future__ import annotations

import pytest

from broker.config.group_keys import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from broker.groups.consumer.config import ConsumerGroupConfig
from broker.groups.consumer.overrides import GroupOverrides
from controller.zk import paths


def both(overrides: GroupOverrides, group: str = "g") -> tuple[int, int]:
    return overrides.session_timeout_ms(group), overrides.heartbeat_interval_ms(group)


def test_overrides_are_replaced_as_a_whole() -> None:
    overrides = GroupOverrides(ConsumerGroupConfig())
    assert both(overrides) == (45_000, 5_000)
    overrides.on_change("g", {SESSION_TIMEOUT_MS: "50000", HEARTBEAT_INTERVAL_MS: " 6000 "})
    assert both(overrides) == (50_000, 6_000)
    assert both(overrides, "other") == (45_000, 5_000)
    overrides.on_change("g", {HEARTBEAT_INTERVAL_MS: "7000"})
    assert both(overrides) == (45_000, 7_000)
    overrides.on_change("g", {})
    assert both(overrides) == (45_000, 5_000)


def test_what_cannot_be_read_does_not_apply(caplog: pytest.LogCaptureFixture) -> None:
    overrides = GroupOverrides(ConsumerGroupConfig())
    overrides.on_change("g", {SESSION_TIMEOUT_MS: "soon", HEARTBEAT_INTERVAL_MS: "7000", "other": "1"})
    assert both(overrides) == (45_000, 7_000)
    assert "group g: a stored config is ignored" in caplog.text


@pytest.mark.parametrize("name", ["g", "a/b", ".", "..", "a.b", "50%", "a+b c", "<default>", "é"])
def test_names_in_paths(name: str) -> None:
    entity_type, slash, rest = paths.group_config(name).partition("/")
    assert (entity_type, slash) == ("groups", "/")
    assert "/" not in rest
    assert rest not in (".", "..")
    assert paths.desanitize(rest) == name
