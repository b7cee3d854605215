"""What a socket server must know; the broker fills it from its configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from network.server.authenticator import AuthenticatorFactory
from network.server.connection_quotas import UNLIMITED
from network.server.transport import PlaintextTransport, TransportFactory

CONTROL_PLANE_QUEUE = 20
NEW_CONNECTIONS_PER_PROCESSOR = 20


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """One listener. `num_network_threads` of None means the server's. `transport` and `authenticator` make TLS and
    SASL: a transport for each accepted socket, and who must authenticate on it first (None: nobody)."""

    name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"
    num_network_threads: int | None = None
    max_connections: int = UNLIMITED
    max_connection_creation_rate: float = UNLIMITED
    transport: TransportFactory = PlaintextTransport
    authenticator: AuthenticatorFactory | None = None


@dataclass(frozen=True, slots=True)
class SocketServerConfig:
    """Fields carry the names of the keys with `_` for `.`, without `odradek`; buffer sizes of -1 leave the system's
    default."""

    listeners: Sequence[ListenerConfig]
    broker_id: int = 0
    control_plane_listener_name: str | None = None
    inter_broker_listener_name: str | None = None
    num_network_threads: int = 1
    num_io_threads: int = 4
    queued_max_requests: int = 500
    queued_max_request_bytes: int = -1
    socket_request_max_bytes: int = 104857600
    socket_send_buffer_bytes: int = 102400
    socket_receive_buffer_bytes: int = -1
    socket_listen_backlog_size: int = 50
    connections_max_idle_ms: int = 600000
    sasl_login_timeout_ms: int = -1
    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_connection_creation_rate: float = UNLIMITED
    quota_window_num: int = 11
    quota_window_size_seconds: int = 1

    @property
    def privileged_listener_name(self) -> str | None:
        """The listener that brokers and controller use."""
        return self.control_plane_listener_name or self.inter_broker_listener_name
