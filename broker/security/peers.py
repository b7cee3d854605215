"""How this broker's own connections to other brokers are secured, by the listener they are made to.

A wrapper is applied to the connected socket. With TLS and SASL there are two: first the one that encrypts, then the one
that logs in over what the first made.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from broker.config.keys import ConfigError
from broker.config.listener_values import ListenerValues
from broker.config.listeners import TLS_PROTOCOLS
from broker.security.sasl.peer_logins import PeerLogins
from network.client.security import chain
from network.tls.client import CurrentContext, tls_wrapper
from network.tls.stores import TlsConfigError

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig
    from network.client.connection import SocketWrapper
    from timer.clock import Clock


class PeerTls:
    """The client's side of a listener's TLS, with the keys of the listener itself."""

    def __init__(self, config: KafkaConfig, listener: str) -> None:
        self._listener = listener
        self._current = CurrentContext(ListenerValues(config, listener).__getitem__, listener)

    def context(self) -> ssl.SSLContext:
        """What new connections use. Raises OSError when there is none, and never was one."""
        try:
            return self._current()
        except (TlsConfigError, ConfigError) as error:
            raise OSError(f"no TLS for connections to {self._listener}: {error}") from None


class PeerSecurity:
    """Makes the wrappers of connections to a listener; wrappers read the values that hold when they are called."""

    def __init__(self, config: KafkaConfig, clock: Clock) -> None:
        self._config = config
        self._logins = PeerLogins(config, clock)

    def wrapper(self, listener: str) -> SocketWrapper | None:
        """For connections to that listener of any broker; None where the plain socket is used."""
        wrappers: list[SocketWrapper] = []
        protocol = self._config.protocol_map[listener]
        if protocol in TLS_PROTOCOLS:
            wrappers.append(tls_wrapper(PeerTls(self._config, listener).context))
        if protocol.startswith("SASL_"):
            wrappers.append(self._logins.wrapper(listener))
        return chain(wrappers)

    def reload(self) -> None:
        """Log in by the values that hold now."""
        self._logins.reload()

    @property
    def inter_broker(self) -> SocketWrapper | None:
        """For connections to the listener that brokers use among themselves."""
        return self.wrapper(self._config.inter_broker_listener_name)

    @property
    def to_controller(self) -> SocketWrapper | None:
        """For connections to the controller, and of the controller to brokers."""
        return self.wrapper(self._config.control_plane_listener_name or self._config.inter_broker_listener_name)
