"""How this broker logs in to other brokers: `sasl.mechanism.inter.broker.protocol`, with the user that the login module
of that mechanism names for the listener.

Both may change while the broker runs. Connections that are made from then on log in by the new values; those that are
open stay, and authenticate again as they did.
"""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING, Any

from broker.config.broker_keys import BROKER_KEYS
from broker.config.honoured import OF_MECHANISMS, plain_name
from broker.config.keys import ConfigError
from broker.config.listener_values import ListenerValues
from broker.security.sasl.jaas_sources import JaasSources, own_text
from network.sasl.clients import SERVED, client_mechanism
from network.sasl.jaas import JaasError
from network.sasl.login import login_wrapper

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig
    from network.client.connection import Secured, SocketWrapper
    from timer.clock import Clock

logger = logging.getLogger(__name__)

KEY = "sasl.mechanism.inter.broker.protocol"


class PeerLogins:
    """Makes what logs in on a connected socket, once for each listener."""

    def __init__(self, config: KafkaConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._jaas = JaasSources(config)
        self._made: dict[str, SocketWrapper] = {}
        self._by = self._dynamic()

    def wrapper(self, listener: str) -> SocketWrapper:
        """Raises `ConfigError` for what is missing or not served."""
        if listener not in self._made:
            self._made[listener] = self._make(listener)

        def log_in(sock: socket.socket, host: str) -> Secured | socket.socket:
            return self._made[listener](sock, host)

        return log_in

    def reload(self) -> None:
        """Log in by the values that hold now. Where that is not possible the old login stays, with an error in the
        log."""
        by = self._dynamic()
        if by == self._by:
            return
        self._by = by
        for listener in list(self._made):
            try:
                self._made[listener] = self._make(listener)
            except ConfigError as error:
                logger.error("the new login to other brokers cannot be used, the old one stays: %s", error)

    def _dynamic(self) -> dict[str, str]:
        """What was set of SASL while the broker runs, which is all that can change."""
        config = self._config
        levels = {**config.dynamic_default, **config.dynamic_broker}
        return {name: text for name, text in levels.items() if plain_name(name).startswith("sasl.")}

    def _make(self, listener: str) -> SocketWrapper:
        values = ListenerValues(self._config, listener)
        mechanism = self._config[KEY]  # of no single listener, as in Kafka
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
