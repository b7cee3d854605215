"""The values that hold on one listener: `listener.name.<listener>[.<mechanism>].<key>` goes before `<key>`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.config.broker_keys import BROKER_KEYS
from broker.config.keys import parse_value

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig


class ListenerValues:
    """Typed values by the names of broker keys, read anew at each question: dynamic changes show."""

    def __init__(self, config: KafkaConfig, listener: str) -> None:
        self._config = config
        self._prefix = f"listener.name.{listener.lower()}."

    def __getitem__(self, key: str) -> Any:
        return self.of_mechanism(None, key)

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
