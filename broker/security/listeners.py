"""What stands between a listener's sockets and its requests, by its security protocol.

Below the framing a transport (`network/server/transport.py`): the socket itself, or TLS. Above it an authenticator
(`network/server/authenticator.py`): none, or SASL. Both are made for each connection by a factory of the listener.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from network.server.transport import PlaintextTransport, TransportFactory

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig
    from broker.config.listeners import Endpoint
    from broker.security.sasl.listeners import SaslListeners
    from network.server.authenticator import AuthenticatorFactory


class ListenerSecurity:
    """Makes the factories of each listener."""

    def __init__(self, config: KafkaConfig, sasl: SaslListeners) -> None:
        self._config = config
        self._sasl = sasl

    def transport(self, endpoint: Endpoint) -> TransportFactory:
        return PlaintextTransport

    def authenticator(self, endpoint: Endpoint) -> AuthenticatorFactory | None:
        """None where clients need not authenticate before they ask: they are who the transport says, or ANONYMOUS."""
        return self._sasl.factory(endpoint.listener_name) if endpoint.security_protocol.startswith("SASL_") else None
