"""The console's clients of the cluster: through which listener, and as whom.

With an authorizer, or where every listener wants a login, a user logs in, and what the page shows is asked as that
user over connections of his own: brokers decide about each request as about any client's. Otherwise one client for all
asks over a plaintext listener.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from broker.config.listener_values import ListenerValues
from broker.config.listeners import TLS_PROTOCOLS, Endpoint
from broker.http.console.access import Problem
from broker.security.peers import PeerTls
from network.client.cluster_client import ClusterClient
from network.client.security import chain
from network.sasl.clients import client_mechanism
from network.sasl.login import login_wrapper
from network.tls.client import tls_wrapper

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig
    from controller.zk.payloads import EndPoint
    from network.client.connection import SocketWrapper
    from timer.clock import Clock

CLIENT_ID = "odradek-console"
REQUEST_TIMEOUT_MS = 8_000
CONNECT_TIMEOUT_MS = 2_000
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
"""Those that a name and a password are enough for, the better first."""
MAX_NAME, MAX_PASSWORD = 256, 1_024


class Clients:
    """Makes them. `endpoints` gives this broker's advertised addresses once its sockets are bound."""

    def __init__(self, config: KafkaConfig, clock: Clock, endpoints: Callable[[], Sequence[EndPoint]]) -> None:
        self._config = config
        self._clock = clock
        self._endpoints = endpoints

    @property
    def needs_login(self) -> bool:
        """Whether nothing is shown without one."""
        return self._has_authorizer or self._listener() is None or self._listener_protocol().startswith("SASL")

    @property
    def _has_authorizer(self) -> bool:
        return bool(self._config["authorizer.class.name"])

    def anonymous(self) -> ClusterClient:
        """A client without a login. Raises `Problem` where one is needed."""
        if self.needs_login:
            raise Problem(HTTPStatus.UNAUTHORIZED, "login", "Log in to see the cluster.")
        return self._client(self._endpoint(), None)

    def of_user(self, name: str, password: str) -> list[ClusterClient]:
        """Clients that log in with a name and a password when they first connect, one for each mechanism that the
        listener has and that does with that, the better first. Raises `Problem` where there is no listener for that,
        or such a name cannot be."""
        if not 0 < len(name) <= MAX_NAME or len(password) > MAX_PASSWORD or "\0" in name + password:
            raise Problem(HTTPStatus.BAD_REQUEST, "credentials", "Give a name and a password.")
        endpoint = self._endpoint()
        mechanisms = self._mechanisms(endpoint.listener_name)
        if not mechanisms or not endpoint.security_protocol.startswith("SASL"):
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "listener", self._why_none())
        tls: list[SocketWrapper] = []
        if endpoint.security_protocol in TLS_PROTOCOLS:
            tls.append(tls_wrapper(PeerTls(self._config, endpoint.listener_name).context))
        found = []
        for mechanism in mechanisms:
            make = client_mechanism(mechanism, {"username": name, "password": password}, self._clock)
            found.append(self._client(endpoint, chain([*tls, login_wrapper(make, CLIENT_ID, self._clock)])))
        return found

    def _client(self, endpoint: EndPoint, wrap: SocketWrapper | None) -> ClusterClient:
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        return ClusterClient(
            f"{host}:{endpoint.port}",
            CLIENT_ID,
            self._clock,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            metadata_max_age_ms=10_000,
            topic_patience_ms=0,
            wrap=wrap,
        )

    def _endpoint(self) -> EndPoint:
        listener = self._listener()
        if listener is None:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "listener", self._why_none())
        for endpoint in self._endpoints():
            if endpoint.listener_name == listener:
                return endpoint
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "starting", "The broker is still starting; try again soon.")

    def _listener(self) -> str | None:
        """The configured one, else the first that the console can use."""
        config = self._config
        named: str | None = config["odradek.console.listener"]
        if named is not None:
            return named.upper()
        usable = [
            endpoint.listener_name
            for endpoint in config.advertised_listeners
            if endpoint.listener_name != config.control_plane_listener_name and self._is_usable(endpoint)
        ]
        return usable[0] if usable else None

    def _is_usable(self, endpoint: Endpoint) -> bool:
        if endpoint.security_protocol.startswith("SASL"):
            return bool(self._mechanisms(endpoint.listener_name))
        return endpoint.security_protocol == "PLAINTEXT" and not self._has_authorizer

    def _listener_protocol(self) -> str:
        listener = self._listener()
        return "" if listener is None else self._config.protocol_map.get(listener, "")

    def _mechanisms(self, listener: str) -> list[str]:
        enabled = ListenerValues(self._config, listener)["sasl.enabled.mechanisms"]
        return [name for name in MECHANISMS if name in enabled]

    def _why_none(self) -> str:
        wanted = "a SASL listener" if self._has_authorizer else "a PLAINTEXT or SASL listener"
        return (
            f"The console needs {wanted} with one of {', '.join(MECHANISMS)} to ask the cluster through; "
            "odradek.console.listener can name it."
        )
