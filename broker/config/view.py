"""Configs as DescribeConfigs shows them: value, where it comes from, and what would apply without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from broker.config import documentation, loggers
from broker.config.broker_keys import BROKER_KEYS, synonyms_of
from broker.config.group_keys import GROUP_KEYS, group_defaults
from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigKey, UpdateMode, shown, to_text
from broker.config.topic_config import topic_defaults
from broker.config.topic_keys import TOPIC_KEYS


class Source(IntEnum):
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One line of an answer. `type` is 0 for a key that this broker does not know."""

    name: str
    value: str | None
    source: Source
    sensitive: bool = False
    read_only: bool = False
    type: int = 0
    synonyms: list[Synonym] = field(default_factory=list)
    documentation: str | None = None


class ConfigView:
    """Describes what applies on this broker. Reads only."""

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config

    def topic_entries(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """Every topic config of a topic with these overrides."""
        defaults = topic_defaults(self._config)
        return [self._topic_entry(key, overrides, defaults[name]) for name, key in TOPIC_KEYS.items()]

    def _topic_entry(self, key: ConfigKey, overrides: Mapping[str, str], default: str) -> ConfigEntry:
        """The topic's own value as it is understood; what brokers were given is shown as it was typed."""
        synonyms = [] if key.broker_key is None else list(self._synonyms(key.broker_key))
        value = default
        if key.name in overrides:
            value = shown(key, overrides[key.name])
            synonyms.insert(0, Synonym(key.name, value, Source.TOPIC))
        source = synonyms[0].source if synonyms else Source.DEFAULT
        return ConfigEntry(
            key.name,
            value,
            source,
            type=int(key.type),
            synonyms=synonyms,
            documentation=documentation.TOPIC[key.name],
        )

    def group_entries(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """Every config of a group; what the broker sets for all groups is shown as the default, as Kafka does."""
        defaults = group_defaults(self._config)
        entries = []
        for name, key in GROUP_KEYS.items():
            source = Source.GROUP if name in overrides else Source.DEFAULT
            value = shown(key, overrides[name]) if name in overrides else str(defaults[name])
            entries.append(
                ConfigEntry(
                    name,
                    value,
                    source,
                    type=int(key.type),
                    synonyms=[Synonym(name, value, source)],
                    documentation=documentation.GROUP[name],
                )
            )
        return entries

    def broker_entries(self) -> list[ConfigEntry]:
        """Every config of this broker; keys that it does not know are shown without their value. Those that a file
        cannot set are shown while they are set, and as read only, as Kafka does."""
        entries = [
            self._broker_entry(key, self._config[name])
            for name, key in BROKER_KEYS.items()
            if not key.internal and (key.mode is not UpdateMode.DYNAMIC_ONLY or self._is_dynamic(name))
        ]
        entries.extend(self._unknown_entries())
        return entries

    def _unknown_entries(self) -> Iterator[ConfigEntry]:
        """What they hold may be a secret."""
        levels = self._set_levels()
        for name in dict.fromkeys(name for _, values in levels for name in values if name not in BROKER_KEYS):
            synonyms = [Synonym(name, None, source) for source, values in levels if name in values]
            yield ConfigEntry(name, None, synonyms[0].source, sensitive=True, read_only=True, synonyms=synonyms)

    def _set_levels(self) -> list[tuple[Source, Mapping[str, str]]]:
        config = self._config
        return [
            (Source.DYNAMIC_BROKER, config.dynamic_broker),
            (Source.DYNAMIC_DEFAULT, config.dynamic_default),
            (Source.STATIC, config.originals),
        ]

    def _is_dynamic(self, name: str) -> bool:
        return name in self._config.dynamic_broker or name in self._config.dynamic_default

    def _broker_entry(self, key: ConfigKey, value: Any) -> ConfigEntry:
        synonyms = list(self._synonyms(key.name))
        source = synonyms[0].source if synonyms else Source.DEFAULT
        text = None if value is None or key.sensitive else to_text(value, key.type)
        if key.mode is UpdateMode.DYNAMIC_ONLY:
            text = synonyms[0].value  # Kafka does not know its type here
        told = documentation.BROKER[key.name]
        return ConfigEntry(key.name, text, source, key.sensitive, _is_read_only(key), int(key.type), synonyms, told)

    def default_broker_entries(self, stored: Mapping[str, str]) -> list[ConfigEntry]:
        """The cluster-wide dynamic defaults only."""
        entries = []
        for name, value in stored.items():
            key = BROKER_KEYS.get(name)
            sensitive = key is None or key.sensitive
            text = None if sensitive else value
            synonym = Synonym(name, text, Source.DYNAMIC_DEFAULT)
            type_ = 0 if key is None else int(key.type)
            read_only = key is None or _is_read_only(key)
            told = documentation.BROKER.get(name)
            entries.append(
                ConfigEntry(name, text, Source.DYNAMIC_DEFAULT, sensitive, read_only, type_, [synonym], told)
            )
        return entries

    def _synonyms(self, name: str) -> Iterator[Synonym]:
        names = synonyms_of(name)
        levels = [*self._set_levels(), (Source.DEFAULT, _defaults(names))]
        started = False
        for source, values in levels:
            for member in names:
                value = values.get(member)
                if value is None:
                    continue
                started = started or member == name
                if started:
                    yield Synonym(member, None if BROKER_KEYS[member].sensitive else value, source)


def _is_read_only(key: ConfigKey) -> bool:
    return key.mode in (UpdateMode.READ_ONLY, UpdateMode.DYNAMIC_ONLY)


def _defaults(names: Iterable[str]) -> dict[str, str]:
    """Defaults by name; keys that a file cannot set have none to show."""
    keys = (BROKER_KEYS[name] for name in names)
    return {
        key.name: key.default for key in keys if key.mode is not UpdateMode.DYNAMIC_ONLY and key.default is not None
    }


def logger_entries() -> list[ConfigEntry]:
    """Loggers of this process with their effective levels."""
    return [ConfigEntry(name, level, Source.LOGGER) for name, level in loggers.levels().items()]


def client_metrics_entries(stored: Mapping[str, str]) -> list[ConfigEntry]:
    """What is set for a subscription; Kafka tells neither types nor defaults."""
    return [ConfigEntry(name, value, Source.CLIENT_METRICS, documentation="") for name, value in sorted(stored.items())]
