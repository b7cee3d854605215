"""Topic configuration: a topic's overrides on top of the broker's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker.config.broker_keys import SYNONYMS
from broker.config.keys import ConfigError, ForbiddenConfigError, parse_value, to_text
from broker.config.topic_keys import TOPIC_KEYS

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig


def topic_defaults(config: KafkaConfig) -> dict[str, str]:
    """The text value of every topic key that this broker gives to a topic without overrides."""
    defaults: dict[str, str] = {}
    for name, key in TOPIC_KEYS.items():
        value: Any = None
        if key.broker_key is None:
            value = parse_value(key, key.default)
        elif key.broker_key in SYNONYMS:
            value = config.synonym_ms(key.broker_key)
        else:
            value = config[key.broker_key]
        defaults[name] = to_text(value, key.type)
    return defaults


def validate_topic_overrides(overrides: Mapping[str, str], config: KafkaConfig) -> None:
    """Check a topic's overrides. Raises `ConfigError` for an unknown name, a bad value or values that contradict."""
    values: dict[str, Any] = {
        name: parse_value(TOPIC_KEYS[name], text) for name, text in topic_defaults(config).items()
    }
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            raise ForbiddenConfigError(f"Unknown topic config name: {name}")
        values[name] = parse_value(key, text)
    low, high = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if low > high:
        raise ForbiddenConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )
    if values["remote.storage.enable"]:
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if values["remote.log.copy.disable"] or values["remote.log.delete.on.disable"]:
        raise ForbiddenConfigError(
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode."
        )
