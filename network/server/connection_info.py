"""What handlers may know of the connection that a request came on."""

from __future__ import annotations

import socket

ANONYMOUS = "User:ANONYMOUS"
UNKNOWN_SOFTWARE = "unknown"


def java_host(address: str) -> str:
    """An address as Java writes it: one of IPv6 with all of its eight numbers. The hosts of ACLs are written so."""
    number, percent, scope = address.partition("%")
    if ":" not in number:
        return address
    packed = socket.inet_pton(socket.AF_INET6, number)
    return ":".join(f"{int.from_bytes(packed[at : at + 2]):x}" for at in range(0, 16, 2)) + percent + scope


class ConnectionInfo:
    """What a handler may know of a connection.

    `id` is `localHost:localPort-remoteHost:remotePort-index`, `client_host` the client's address in the form of
    `java_host`. `principal` has the form `Type:name`. `privileged` is
    true on the listener that brokers use among themselves (the control-plane listener where there is one). The
    ApiVersions handler sets the client software's name and version. An authenticator sets `token_authenticated` for who
    came with a delegation token. `api_key` is that of the request being served, where somebody wants to know it (an
    authorizer's log); a connection has one request in flight.
    """

    __slots__ = (
        "api_key",
        "client_host",
        "id",
        "listener_name",
        "principal",
        "privileged",
        "security_protocol",
        "software_name",
        "software_version",
        "token_authenticated",
    )

    def __init__(
        self,
        id: str,
        listener_name: str = "PLAINTEXT",
        security_protocol: str = "PLAINTEXT",
        principal: str = ANONYMOUS,
        client_host: str = "127.0.0.1",
        privileged: bool = True,
    ) -> None:
        self.id = id
        self.api_key = -1
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.principal = principal
        self.client_host = client_host
        self.privileged = privileged
        self.token_authenticated = False
        self.software_name = UNKNOWN_SOFTWARE
        self.software_version = UNKNOWN_SOFTWARE

    @property
    def client_port(self) -> str:
        """The client's port, as a number."""
        return self.id.rpartition("-")[0].rpartition(":")[2]

    def __repr__(self) -> str:
        return f"ConnectionInfo({self.id}, {self.listener_name}, {self.principal})"
