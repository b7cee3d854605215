"""Whether a listener could be added to a running broker, before anybody is told that it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.config.keys import ConfigError
from network.server.acceptor import bind
from network.server.server_config import ListenerConfig

if TYPE_CHECKING:
    from broker.config.listener_values import Levels
    from broker.config.listeners import Endpoint
    from broker.security.listeners import ListenerSecurity


class ListenerTrial:
    """Its keys can be read, its logins are there, its port can be had. Nothing of it stays, so the port may be taken by
    somebody else before the listener is added: that is then an error in the log."""

    def __init__(self, security: ListenerSecurity) -> None:
        self._security = security

    def __call__(self, endpoint: Endpoint, proposed: Levels, with_port: bool) -> None:
        """Raises `ConfigError`. Without `with_port` the port is not tried: it may be this broker's still."""
        self._security.check(endpoint, proposed)
        if with_port:
            listener = ListenerConfig(endpoint.listener_name, endpoint.host, endpoint.port, endpoint.security_protocol)
            try:
                bind(listener, backlog=1, receive_buffer_bytes=-1).close()
            except (OSError, UnicodeError) as error:
                raise ConfigError(str(error)) from None
