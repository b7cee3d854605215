"""Topic configuration: a topic's overrides on top of the broker's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker.config.broker_keys import SYNONYMS
from broker.config.keys import ConfigError, ConfigType, parse_value
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


def to_text(value: Any, kind: ConfigType) -> str:
    """A typed value as configuration text: what DescribeConfigs shows."""
    if value is None:
        return ""
    if kind is ConfigType.BOOLEAN:
        return "true" if value else "false"
    if kind is ConfigType.LIST:
        return ",".join(value)
    if kind is ConfigType.DOUBLE:
        return java_double(float(value))
    return str(value)


def java_double(value: float) -> str:
    """A float as Java prints it: `0.5`, `1.7976931348623157E308`."""
    text = repr(value)
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"


def validate_topic_overrides(overrides: Mapping[str, str], config: KafkaConfig) -> None:
    """Check a topic's overrides. Raises `ConfigError` for an unknown name, a bad value or values that contradict."""
    values = topic_defaults(config)
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            raise ConfigError(f"Unknown topic config name: {name}")
        parse_value(key, text)
        values[name] = text
    if int(values["min.compaction.lag.ms"]) > int(values["max.compaction.lag.ms"]):
        raise ConfigError("conflict topic config setting min.compaction.lag.ms > max.compaction.lag.ms")
    if values["remote.storage.enable"].lower() == "true":
        raise ConfigError(
            "Invalid value true for configuration remote.storage.enable: Tiered Storage functionality is disabled in "
            "the broker. Topic cannot be configured with remote log storage."
        )
    for name in ("remote.log.copy.disable", "remote.log.delete.on.disable"):
        if values[name].lower() == "true":
            raise ConfigError(f"It is invalid to set `{name}` under Zookeeper's mode.")
