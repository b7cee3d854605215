"""Where TLS and SASL go in: a transport that hides bytes from the socket, and an authenticator that goes first."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from network.protocol.errors import ProtocolError
from network.protocol.header import RequestHeader
from network.server.authenticator import AuthenticationStep, SessionExpired
from network.server.connection_info import ConnectionInfo
from network.server.inline import InlineRule
from network.server.server_config import ListenerConfig
from network.server.transport import PlaintextTransport, Transport
from tests.support.sockets import EchoBroker, RawClient, Servers, api_versions_frame, produce_frame, wait_until

BOTH = pytest.mark.parametrize("inline", [None, InlineRule({0: None, 18: None})], ids=["pool", "inline"])
HELLO = b"hello"


class HidingTransport(PlaintextTransport):
    """Takes a greeting first, then takes all that the socket has and gives it out in small pieces, as TLS may."""

    __slots__ = ("_decrypted", "_received")

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.handshake_done = False
        self.buffers_input = True
        self.supports_sendfile = False
        self._received = b""
        self._decrypted = b""
        self.recv_into = self._give_out

    def handshake(self) -> None:
        self._received += self._socket.recv(3)  # the greeting comes in two parts
        if len(self._received) >= len(HELLO):
            assert self._received[:5] == HELLO
            self._decrypted = self._received[5:]
            self.principal = "User:CN=somebody"
            self.handshake_done = True

    def _give_out(self, buffer: memoryview) -> int:
        if not self._decrypted:
            self._decrypted = self._socket.recv(1 << 20)
        piece = self._decrypted[: min(len(buffer), 50)]
        self._decrypted = self._decrypted[len(piece) :]
        buffer[: len(piece)] = piece
        return len(piece)

    def pending(self) -> bool:
        return bool(self._decrypted)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::a0", "2001:db8:0:0:0:0:0:a0"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_handlers_see_an_address_as_the_host_of_an_acl_is_written(
    servers: Servers, broker: EchoBroker, address: str, host: str
) -> None:
    """Else an ACL that denies an IPv6 address, made by Kafka's tools, would deny nobody."""
    server = servers.start(broker)
    ours, theirs = socket.create_server(("127.0.0.1", 0)), socket.socket()
    theirs.settimeout(30)
    theirs.connect(ours.getsockname())
    accepted, _ = ours.accept()
    accepted.setblocking(False)
    assert server._data.acceptors[0].processors[0].offer(accepted, address)
    theirs.sendall(api_versions_frame(1))
    assert theirs.recv(4)
    assert [request.connection.client_host for request in broker.requests] == [host]
    for each in (ours, theirs):
        each.close()


@BOTH
def test_bytes_that_lie_in_the_transport_are_served(
    servers: Servers, broker: EchoBroker, inline: InlineRule | None
) -> None:
    listener = ListenerConfig("SSL", "127.0.0.1", 0, security_protocol="SSL", transport=HidingTransport)
    client = servers.connect(servers.start(broker, inline=inline, listeners=[listener]), "SSL")
    frames = [produce_frame(number, size=number * 7) for number in range(30)]
    client.send(HELLO, *frames)
    assert [client.correlation_id() for _ in frames] == list(range(30))
    client.send(produce_frame(31, size=100_000))
    assert client.correlation_id() == 31
    assert {each.connection.principal for each in broker.requests} == {"User:CN=somebody"}
    assert {each.connection.security_protocol for each in broker.requests} == {"SSL"}


class PasswordAuthenticator:
    """One frame with the password; the session ends when it is told to."""

    def __init__(self, info: ConnectionInfo, transport: Transport) -> None:
        self.complete = False
        self.reauthenticating = False
        self.principal = ""
        self.max_frame_bytes = 100

    def receive(self, frame: memoryview) -> AuthenticationStep:
        text = bytes(frame)
        if text == b"garbage":
            raise ProtocolError("not a password")
        if text[:2] == b"\0\x11":  # SaslHandshake of a re-authentication
            return AuthenticationStep([struct.pack(">i", 2), b"re"])
        if text != b"secret":
            return AuthenticationStep([struct.pack(">i", 2), b"no"], failed=True, delay_ms=20)
        self.complete = True
        self.principal = "User:alice"
        return AuthenticationStep([struct.pack(">i", 3), b"yes"])

    def admits(self, header: RequestHeader, now_ns: int) -> bool:
        if header.client_id == "late":
            raise SessionExpired
        return header.api_key != 17


def sasl_client(servers: Servers, broker: EchoBroker, **options: Any) -> tuple[RawClient, Callable[[], int]]:
    listener = ListenerConfig(
        "SASL", "127.0.0.1", 0, security_protocol="SASL_PLAINTEXT", authenticator=PasswordAuthenticator
    )
    server = servers.start(broker, listeners=[listener], **options)
    return servers.connect(server, "SASL"), server.connection_count


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@BOTH
def test_authentication_goes_before_requests(servers: Servers, broker: EchoBroker, inline: InlineRule | None) -> None:
    client, _ = sasl_client(servers, broker, inline=inline)
    client.send(framed(b"secret"), produce_frame(1), api_versions_frame(2))
    assert client.frame() == b"yes"
    assert [client.correlation_id(), client.correlation_id()] == [1, 2]
    assert {each.connection.principal for each in broker.requests} == {"User:alice"}
    client.send(framed(struct.pack(">hhih", 17, 1, 3, -1) + b"\0\x01x"))
    assert client.frame() == b"re"
    client.send(produce_frame(4))
    assert client.correlation_id() == 4


def test_failed_authentication_is_answered_and_closed(servers: Servers, broker: EchoBroker) -> None:
    client, connections = sasl_client(servers, broker)
    client.send(framed(b"wrong"), produce_frame(1))
    assert client.frame() == b"no"
    assert client.is_closed()
    assert not broker.requests
    wait_until(lambda: connections() == 0, "closed")
    assert counted(servers) == {"failed-authentication-total": 1}


def test_a_login_that_never_comes_is_closed_where_it_has_a_time(servers: Servers, broker: EchoBroker) -> None:
    """One that is silent, and one that goes on and on; not who has logged in."""
    listener = ListenerConfig("SASL", "127.0.0.1", 0, authenticator=PasswordAuthenticator)
    server = servers.start(broker, listeners=[listener], sasl_login_timeout_ms=1_500)
    entered, silent, half = (servers.connect(server, "SASL") for _ in range(3))
    entered.send(framed(b"secret"))
    half.send(framed(b"secret")[:5])
    assert entered.frame() == b"yes"
    assert silent.is_closed()
    assert half.is_closed()
    entered.send(produce_frame(1))
    assert entered.correlation_id() == 1
    wait_until(lambda: server.connection_count() == 1, "closed")


def counted(servers: Servers) -> dict[str, float]:
    """What the metrics say of authentications, without zeros."""
    kinds = (
        "successful-authentication",
        "failed-authentication",
        "successful-reauthentication",
        "failed-reauthentication",
    )
    found = {f"{kind}-total": servers.metrics.read("socket-server-metrics", f"{kind}-total") for kind in kinds}
    return {name: value for name, value in found.items() if value}


def test_authenticating_again_is_counted_apart(servers: Servers, broker: EchoBroker) -> None:
    class Again(PasswordAuthenticator):
        """Each further handshake begins anew."""

        def admits(self, header: RequestHeader, now_ns: int) -> bool:
            if header.api_key == 17:
                self.complete, self.reauthenticating = False, True
            return header.api_key != 17

    listener = ListenerConfig("SASL", "127.0.0.1", 0, security_protocol="SASL_PLAINTEXT", authenticator=Again)
    client = servers.connect(servers.start(broker, listeners=[listener]), "SASL")
    again = framed(struct.pack(">hhih", 17, 1, 3, -1) + b"\0\x01x")
    client.send(framed(b"secret"), again, framed(b"secret"), again, framed(b"wrong"))
    assert [client.frame() for _ in range(5)] == [b"yes", b"re", b"yes", b"re", b"no"]
    assert client.is_closed()
    assert counted(servers) == {
        "successful-authentication-total": 1,
        "successful-reauthentication-total": 1,
        "failed-reauthentication-total": 1,
    }


def test_garbage_instead_of_authentication(servers: Servers, broker: EchoBroker) -> None:
    client, _ = sasl_client(servers, broker)
    client.send(framed(b"garbage"))
    assert client.is_closed()


@pytest.mark.parametrize("whole", [True, False])
def test_no_large_frame_is_taken_before_authentication(servers: Servers, broker: EchoBroker, whole: bool) -> None:
    client, connections = sasl_client(servers, broker)
    client.send(framed(bytes(101)) if whole else struct.pack(">i", 101))
    assert client.is_closed()
    wait_until(lambda: connections() == 0, "closed")


def test_an_expired_session_is_closed_and_counted(servers: Servers, broker: EchoBroker) -> None:
    client, _ = sasl_client(servers, broker)
    client.send(framed(b"secret"))
    assert client.frame() == b"yes"
    client.send(framed(struct.pack(">hhih", 18, 0, 1, 4) + b"late"))
    assert client.is_closed()
    assert servers.metrics.read("SocketServer", "ExpiredConnectionsKilledCount") == 1


@BOTH
def test_memory_pool_with_authentication(servers: Servers, broker: EchoBroker, inline: InlineRule | None) -> None:
    client, _ = sasl_client(servers, broker, inline=inline, queued_max_request_bytes=10_000)
    client.send(framed(b"secret"), produce_frame(1))
    assert client.frame() == b"yes"
    assert client.correlation_id() == 1
    wait_until(lambda: servers.metrics.read("SocketServer", "MemoryPoolAvailable") == 10_000, "given back")
