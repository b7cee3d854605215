"""Configs of a consumer group (KIP-848): a group's overrides on top of the broker's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.config.keys import ConfigError, ConfigKey, ConfigType, Importance, at_least, parse_value

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig

SESSION_TIMEOUT_MS = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL_MS = "consumer.heartbeat.interval.ms"


def _key(name: str, default: str) -> ConfigKey:
    return ConfigKey(
        name, ConfigType.INT, default, Importance.MEDIUM, rule=at_least(1), broker_key=f"group.consumer.{_short(name)}"
    )


def _short(name: str) -> str:
    return name.removeprefix("consumer.")


GROUP_KEYS = {key.name: key for key in (_key(SESSION_TIMEOUT_MS, "45000"), _key(HEARTBEAT_INTERVAL_MS, "5000"))}


def group_defaults(config: KafkaConfig) -> dict[str, int]:
    """What applies to a group without overrides, in ms."""
    return {name: config.get_int(f"group.consumer.{_short(name)}") for name in GROUP_KEYS}


def validate_group_overrides(overrides: Mapping[str, str], config: KafkaConfig) -> None:
    """Check all overrides of a group, in Kafka's order. Raises `ConfigError` for an unknown name, a bad value, one
    that the broker does not allow, or a session that ends before the next heartbeat."""
    values = group_defaults(config)
    for name, text in overrides.items():
        if name not in GROUP_KEYS:
            raise ConfigError(f"Unknown group config name: {name}")
        values[name] = parse_value(GROUP_KEYS[name], text)
    for name in (HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS):
        low, high = f"group.consumer.min.{_short(name)}", f"group.consumer.max.{_short(name)}"
        if values[name] < config.get_int(low):
            raise ConfigError(f"{name} must be greater than or equal to {low}")
        if values[name] > config.get_int(high):
            raise ConfigError(f"{name} must be less than or equal to {high}")
    if values[SESSION_TIMEOUT_MS] <= values[HEARTBEAT_INTERVAL_MS]:
        raise ConfigError(f"{SESSION_TIMEOUT_MS} must be greater than {HEARTBEAT_INTERVAL_MS}")
