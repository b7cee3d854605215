"""The values that hold on one listener: `listener.name.<listener>[.<mechanism>].<key>` goes before `<key>`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from broker.config.broker_keys import BROKER_KEYS
from broker.config.keys import parse_value


class Levels(Protocol):
    """Where values stand; `KafkaConfig` is one."""

    originals: dict[str, str]
    dynamic_broker: dict[str, str]
    dynamic_default: dict[str, str]

    def __getitem__(self, name: str) -> Any: ...


class Proposed:
    """A configuration with other dynamic values than it has: those of this broker, and all values that follow."""

    def __init__(self, config: Levels, broker: Mapping[str, str], values: Mapping[str, Any]) -> None:
        self._values = values
        self.originals = config.originals
        self.dynamic_broker = dict(broker)
        self.dynamic_default = config.dynamic_default

    def __getitem__(self, name: str) -> Any:
        return self._values[name]


class ListenerValues:
    """Typed values by the names of broker keys, read anew at each question: dynamic changes show."""

    def __init__(self, config: Levels, listener: str) -> None:
        self._config = config
        self._prefix = f"listener.name.{listener.lower()}."

    def __getitem__(self, key: str) -> Any:
        return self.of_mechanism(None, key)

    def is_own(self, key: str) -> bool:
        """Whether the listener has a value of its own."""
        config, name = self._config, self._prefix + key
        return any(name in level for level in (config.dynamic_broker, config.dynamic_default, config.originals))

    def of_mechanism(self, mechanism: str | None, key: str) -> Any:
        """The value for one SASL mechanism of the listener, else the listener's, else everybody's. `KeyError` for a
        name that is no broker key, `ConfigError` for a value that cannot be read."""
        config = self._config
        names = [self._prefix + key]
        if mechanism is not None:
            names.insert(0, f"{self._prefix}{mechanism.lower()}.{key}")
        for name in names:
            for level in (config.dynamic_broker, config.dynamic_default, config.originals):
                if name in level:
                    return parse_value(BROKER_KEYS[key], level[name])
        return config[key]
