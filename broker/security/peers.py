"""How this broker's own connections to other brokers are secured, by the listener they are made to.

A wrapper is applied to the connected socket. With TLS and SASL there are two: first the one that encrypts, then the one
that logs in over what the first made.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from broker.security.sasl.peer_logins import PeerLogins

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig
    from network.client.connection import SocketWrapper
    from timer.clock import Clock


class PeerSecurity:
    """Makes the wrappers of connections to a listener; wrappers read the values that hold when they are called."""

    def __init__(self, config: KafkaConfig, clock: Clock) -> None:
        self._config = config
        self._logins = PeerLogins(config, clock)

    def wrapper(self, listener: str) -> SocketWrapper | None:
        """For connections to that listener of any broker; None where the plain socket is used."""
        wrappers: list[SocketWrapper] = []
        if self._config.protocol_map[listener].startswith("SASL_"):
            wrappers.append(self._logins.wrapper(listener))
        return chain(wrappers)

    @property
    def inter_broker(self) -> SocketWrapper | None:
        """For connections to the listener that brokers use among themselves."""
        return self.wrapper(self._config.inter_broker_listener_name)

    @property
    def to_controller(self) -> SocketWrapper | None:
        """For connections to the controller, and of the controller to brokers."""
        return self.wrapper(self._config.control_plane_listener_name or self._config.inter_broker_listener_name)


def chain(wrappers: list[SocketWrapper]) -> SocketWrapper | None:
    """One wrapper that applies all, the first first."""
    if not wrappers:
        return None

    def wrap(sock: socket.socket, host: str) -> socket.socket:
        for each in wrappers:
            sock = each(sock, host)
        return sock

    return wrap
