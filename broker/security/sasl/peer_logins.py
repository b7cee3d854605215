"""How this broker logs in to other brokers: `sasl.mechanism.inter.broker.protocol`, with the user that the login module
of that mechanism names for the listener."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.config.broker_keys import BROKER_KEYS
from broker.config.honoured import OF_MECHANISMS
from broker.config.keys import ConfigError
from broker.config.listener_values import ListenerValues
from broker.security.sasl.jaas_sources import JaasSources, own_text
from network.sasl.clients import SERVED, client_mechanism
from network.sasl.jaas import JaasError
from network.sasl.login import login_wrapper

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig
    from network.client.connection import SocketWrapper
    from timer.clock import Clock

KEY = "sasl.mechanism.inter.broker.protocol"


class PeerLogins:
    """Makes what logs in on a connected socket, once for each listener."""

    def __init__(self, config: KafkaConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._jaas = JaasSources(config)
        self._made: dict[str, SocketWrapper] = {}

    def wrapper(self, listener: str) -> SocketWrapper:
        """Raises `ConfigError` for what is missing or not served."""
        if listener not in self._made:
            self._made[listener] = self._make(listener)
        return self._made[listener]

    def _make(self, listener: str) -> SocketWrapper:
        values = ListenerValues(self._config, listener)
        mechanism = values[KEY]
        if mechanism not in SERVED:
            raise ConfigError(f"{KEY}: {mechanism} is not served by this broker, it has {', '.join(SERVED)}")
        if mechanism not in values["sasl.enabled.mechanisms"]:
            raise ConfigError(f"{KEY} must be included in sasl.enabled.mechanisms when SASL is used between brokers")
        try:
            options = self._jaas.options(listener, mechanism)
            make = client_mechanism(mechanism, options, self._clock, lambda key: self._value(listener, mechanism, key))
        except JaasError as error:
            raise ConfigError(f"{KEY}: the listener {listener}: {error}") from None
        return login_wrapper(make, str(self._config.broker_id), self._clock)

    def _value(self, listener: str, mechanism: str, key: str) -> Any:
        """Of a key of clients; one that brokers have not is not set."""
        if key in OF_MECHANISMS:
            return own_text(self._config, listener, mechanism, key)
        return ListenerValues(self._config, listener).of_mechanism(mechanism, key) if key in BROKER_KEYS else None
