"""What stands between a listener's sockets and its requests, by its security protocol.

Below the framing a transport (`network/server/transport.py`): the socket itself, or TLS. Above it an authenticator
(`network/server/authenticator.py`): none, or SASL. Both are made for each connection by a factory of the listener.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
from typing import TYPE_CHECKING

from broker.config.keys import ConfigError
from broker.config.listener_values import Levels, ListenerValues
from broker.config.listeners import TLS_PROTOCOLS
from broker.security.principal_mapping import NoMatchingRule, PrincipalMapper
from broker.security.sasl.jaas_sources import java_property
from network.server.tls_transport import HandshakeFailed, TlsTransport
from network.server.transport import PlaintextTransport, Transport, TransportFactory
from network.tls.certificates import distinguished_name, not_after, subject
from network.tls.settings import TlsSettings, check_replaceable, is_current, read_settings
from network.tls.stores import TlsConfigError

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig
    from broker.config.listeners import Endpoint
    from broker.security.sasl.listeners import SaslListeners
    from network.server.authenticator import AuthenticatorFactory

logger = logging.getLogger(__name__)

_REVOCATION = "com.sun.net.ssl.checkRevocation"
"""Java's own switch, the only one that Kafka has for certificates that were revoked."""


class ListenerTls:
    """The TLS of one listener: a factory of transports that can be given new keys while it runs."""

    def __init__(self, config: KafkaConfig, listener: str, security_protocol: str) -> None:
        """Raises `ConfigError`."""
        self.listener = listener
        self._values = ListenerValues(config, listener)
        self._security_protocol = security_protocol
        self._settings, self._context = self._read()
        self._mapper = PrincipalMapper(self._values["ssl.principal.mapping.rules"])

    def __call__(self, sock: socket.socket) -> Transport:
        return TlsTransport(sock, self._context, self._principal)

    def reload(self) -> bool:
        """Take new values and files for connections that begin from now on; whether there were any. Raises
        `ConfigError`, and goes on with the old ones."""
        if is_current(self._settings, self._values.__getitem__):
            return False
        settings, context = self._read()
        try:
            check_replaceable(
                self._settings.keys,
                settings.keys,
                allow_dn_changes=self._values["ssl.allow.dn.changes"],
                allow_san_changes=self._values["ssl.allow.san.changes"],
            )
        except TlsConfigError as error:
            raise ConfigError(f"listener {self.listener}: {error}") from None
        self._settings, self._context = settings, context
        return True

    def seconds_left(self, now_s: float) -> float:
        """How long the certificate that clients are shown is still valid."""
        assert self._settings.keys is not None
        return not_after(self._settings.keys.chain[0]).timestamp() - now_s

    def _read(self) -> tuple[TlsSettings, ssl.SSLContext]:
        try:
            settings = read_settings(self._values.__getitem__)
            return settings, settings.server_context(self._client_auth(settings))
        except TlsConfigError as error:
            raise ConfigError(f"listener {self.listener}: {error}") from None

    def _client_auth(self, settings: TlsSettings) -> str:
        """With SASL a certificate is asked for only where that is said for this very listener (KIP-684)."""
        key = "ssl.client.auth"
        if self._security_protocol == "SASL_SSL" and not self._values.is_own(key):
            return "none"
        return str(settings.values[key])

    def _principal(self, certificate: bytes) -> str:
        try:
            return f"User:{self._mapper.name(distinguished_name(subject(certificate)))}"
        except (NoMatchingRule, ValueError) as error:
            raise HandshakeFailed(f"the certificate has no principal: {error}") from None


class ListenerSecurity:
    """Makes the factories of each listener."""

    def __init__(self, config: KafkaConfig, sasl: SaslListeners) -> None:
        self._config = config
        self._sasl = sasl
        self.tls: dict[str, ListenerTls] = {}
        """By the name of the listener."""

    def transport(self, endpoint: Endpoint) -> TransportFactory:
        """Raises `ConfigError`."""
        if endpoint.security_protocol not in TLS_PROTOCOLS:
            return PlaintextTransport
        if java_property(os.environ, _REVOCATION) == "true":
            raise ConfigError(f"KAFKA_OPTS has -D{_REVOCATION}=true, which is not served: take it away")
        made = ListenerTls(self._config, endpoint.listener_name, endpoint.security_protocol)
        self.tls[endpoint.listener_name] = made
        return made

    def authenticator(self, endpoint: Endpoint) -> AuthenticatorFactory | None:
        """None where clients need not authenticate before they ask: they are who the transport says, or ANONYMOUS."""
        return self._sasl.factory(endpoint.listener_name) if endpoint.security_protocol.startswith("SASL_") else None

    def check(self, endpoint: Endpoint, proposed: Levels) -> None:
        """Whether a listener could be secured with these values. Raises `ConfigError`; nothing of it stays."""
        listener = endpoint.listener_name
        if endpoint.security_protocol in TLS_PROTOCOLS:
            own = ListenerValues(proposed, listener)
            try:
                read_settings(own.__getitem__).server_context(str(own["ssl.client.auth"]))
            except TlsConfigError as error:
                raise ConfigError(f"listener {listener}: {error}") from None
            PrincipalMapper(own["ssl.principal.mapping.rules"])
        if endpoint.security_protocol.startswith("SASL_"):
            self._sasl.check(listener, proposed)

    def forget(self, listener: str) -> None:
        """The listener is served no more."""
        self.tls.pop(listener, None)
        self._sasl.forget(listener)

    def reload(self) -> None:
        """Give every listener the keys that its values and files now say. One that cannot be given them keeps its old
        ones, with an error in the log."""
        for listener in list(self.tls.values()):
            try:
                if listener.reload():
                    logger.info("listener %s has new TLS settings", listener.listener)
            except ConfigError as error:
                logger.error("new TLS settings cannot be used, the old ones stay: %s", error)
            except Exception:  # what is wrong with one listener's files is no reason to keep others from theirs
                logger.exception("new TLS settings of listener %s cannot be used, the old ones stay", listener.listener)
