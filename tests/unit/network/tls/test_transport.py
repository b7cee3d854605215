"""TLS between a real client and the socket server: any sizes, peers that read slowly, and peers that mean no good."""

from __future__ import annotations

import contextlib
import gc
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from network.server import connection_table
from network.server.connection_info import ANONYMOUS
from network.server.inline import InlineRule
from network.server.server_config import ListenerConfig
from network.server.socket_server import SocketServer
from network.server.tls_transport import TlsTransport
from network.tls.certificates import distinguished_name, subject
from network.tls.settings import TlsSettings, read_settings
from tests.support.certificates import Authority, Identity
from tests.support.sockets import EchoBroker, RawClient, Servers, produce_frame, wait_until

BOTH = pytest.mark.parametrize("inline", [None, InlineRule({0: None, 18: None})], ids=["pool", "inline"])


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def identity(authority: Authority) -> Identity:
    return authority.issue()


def settings(identity: Identity, authority: Authority, **others: Any) -> TlsSettings:
    values = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem(),
        "ssl.keystore.certificate.chain": identity.chain_pem,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.pem,
        **others,
    }
    return read_settings(values.get)


def principal_of(certificate: bytes) -> str:
    return f"User:{distinguished_name(subject(certificate))}"


@pytest.fixture
def listener(identity: Identity, authority: Authority) -> ListenerConfig:
    context = settings(identity, authority).server_context("requested")
    return ListenerConfig(
        "SSL", "127.0.0.1", 0, security_protocol="SSL", transport=lambda sock: TlsTransport(sock, context, principal_of)
    )


@pytest.fixture
def server(
    servers: Servers, broker: EchoBroker, listener: ListenerConfig, request: pytest.FixtureRequest
) -> SocketServer:
    return servers.start(broker, listeners=[listener])


def client_context(authority: Authority, identity: Identity | None = None) -> ssl.SSLContext:
    if identity is None:
        values: dict[str, str] = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.pem}
        return read_settings(values.get).client_context()
    return settings(identity, authority).client_context()


def connect(server: SocketServer, context: ssl.SSLContext, buffer: int | None = None) -> ssl.SSLSocket:
    sock = socket.socket()
    if buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.settimeout(20)
    sock.connect(("127.0.0.1", server.bound_port("SSL")))
    return context.wrap_socket(sock, server_hostname="localhost")


def read(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(size - len(data))
        assert piece, "closed"
        data += piece
    return bytes(data)


def answer(sock: socket.socket) -> int:
    (size,) = struct.unpack(">i", read(sock, 4))
    return int.from_bytes(read(sock, size)[:4], "big")


@BOTH
def test_requests_of_all_sizes(
    servers: Servers, broker: EchoBroker, listener: ListenerConfig, authority: Authority, inline: InlineRule | None
) -> None:
    server = servers.start(broker, inline=inline, listeners=[listener])
    with connect(server, client_context(authority)) as sock:
        sizes = [0, 1, 50, 16_000, 16_384, 16_385, 40_000, 65_536, 300_000, 2_000_000]
        for number, size in enumerate(sizes):
            sock.sendall(produce_frame(number, size=size))
            assert answer(sock) == number
        sock.sendall(b"".join(produce_frame(number, size=number * 700) for number in range(40)))
        assert [answer(sock) for _ in range(40)] == list(range(40))
    assert {each.connection.principal for each in broker.requests} == {ANONYMOUS}
    wait_until(lambda: server.connection_count() == 0, "closed")


def test_a_certificate_is_a_principal(server: SocketServer, broker: EchoBroker, authority: Authority) -> None:
    with connect(server, client_context(authority, authority.issue("alice"))) as sock:
        sock.sendall(produce_frame(1))
        assert answer(sock) == 1
    assert {each.connection.principal for each in broker.requests} == {"User:CN=alice,O=Odradek\\, tests,C=CZ"}


def test_a_certificate_of_another_authority_is_refused(
    server: SocketServer, servers: Servers, broker: EchoBroker, authority: Authority
) -> None:
    stranger = Authority("Other").issue("mallory")
    try:
        with connect(server, settings(stranger, authority).client_context()) as sock:
            sock.sendall(produce_frame(1))
            assert sock.recv(1) == b""
    except OSError:
        pass  # an alert, or a reset that overtook it
    wait_until(lambda: server.connection_count() == 0, "closed")
    assert not broker.requests


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", produce_frame(1), bytes(100), b"\x16\x03\x01\xff\xff"])
def test_garbage_instead_of_a_handshake(
    server: SocketServer, servers: Servers, broker: EchoBroker, authority: Authority, garbage: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", server.bound_port("SSL")), 20) as sock:
        sock.sendall(garbage)
        sock.shutdown(socket.SHUT_WR)
        assert len(sock.makefile("rb").read()) < 100  # an alert at most
    wait_until(lambda: server.connection_count() == 0, "closed")
    assert not broker.requests
    with connect(server, client_context(authority)) as bystander:
        bystander.sendall(produce_frame(7))
        assert answer(bystander) == 7


def test_handshakes_that_stop_half_way_are_bounded(
    monkeypatch: pytest.MonkeyPatch, server: SocketServer, authority: Authority
) -> None:
    monkeypatch.setattr(connection_table, "HANDSHAKES", 5)
    with connect(server, client_context(authority)) as bystander:
        half = [socket.create_connection(("127.0.0.1", server.bound_port("SSL"))) for _ in range(20)]
        try:
            for sock in half:
                sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            wait_until(lambda: server.connection_count() == 6, "the oldest closed")
            bystander.sendall(produce_frame(1))
            assert answer(bystander) == 1
            with connect(server, client_context(authority)) as another:
                another.sendall(produce_frame(2))
                assert answer(another) == 2
        finally:
            for sock in half:
                sock.close()


def test_a_handshake_has_an_end(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(connection_table, "HANDSHAKE_MS", 1)
    server: SocketServer = request.getfixturevalue("server")
    with socket.create_connection(("127.0.0.1", server.bound_port("SSL")), 20) as sock:
        assert sock.recv(1) == b""


@pytest.fixture
def pair(identity: Identity, authority: Authority) -> Iterator[tuple[TlsTransport, ssl.SSLSocket]]:
    """A transport and its client, shaken hands, with buffers so small that answers do not fit."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
    theirs.settimeout(20)
    context = settings(identity, authority).server_context("none")
    transport = TlsTransport(ours, context, principal_of)
    client = client_context(authority).wrap_socket(theirs, server_hostname="localhost", do_handshake_on_connect=False)
    theirs_to_do = True
    ours.setblocking(False)
    client.settimeout(0)
    while theirs_to_do or not transport.handshake_done:
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
            theirs_to_do = False
        with contextlib.suppress(BlockingIOError):
            transport.handshake()
    client.settimeout(20)
    yield transport, client
    transport.close()
    client.close()


def test_a_slow_reader_gets_every_byte_once(pair: tuple[TlsTransport, ssl.SSLSocket], tmp_path: Path) -> None:
    transport, client = pair
    data = bytes(range(256)) * 8_000
    path = tmp_path / "file"
    path.write_bytes(data)
    received = bytearray()
    with path.open("rb") as file:
        at, ways = 0, 0
        while at < len(data):
            ways += 1
            try:
                if ways % 3 == 0:
                    at += transport.sendfile(file.fileno(), at, 700_000)
                elif ways % 3 == 1:
                    at += transport.send(data[at : at + 300_000])
                else:
                    at += transport.sendmsg([data[at : at + 10], data[at + 10 : at + 90_000]], more=False)
            except BlockingIOError:
                received += client.recv(16_384)
        client.settimeout(0.0)
        while len(received) < len(data):
            received += client.recv(65_536)
    assert received == data


def test_what_is_offered_byte_by_byte_comes_once(pair: tuple[TlsTransport, ssl.SSLSocket]) -> None:
    transport, client = pair
    received = bytearray()
    data = bytes(range(256)) * 20
    at = 0
    while at < len(data):
        try:
            at += transport.send(data[at : at + 1])
        except BlockingIOError:
            received += client.recv(1)
    while len(received) < len(data):
        received += client.recv(1000)
    assert received == data


def test_cut_off_and_orderly_ends(server: SocketServer, authority: Authority) -> None:
    orderly = connect(server, client_context(authority))
    orderly.sendall(produce_frame(1))
    assert answer(orderly) == 1
    orderly.unwrap().close()
    wait_until(lambda: server.connection_count() == 0, "closed")
    cut = connect(server, client_context(authority))
    raw = socket.socket(fileno=cut.detach())
    raw.close()
    wait_until(lambda: server.connection_count() == 0, "closed")


def test_plain_clients_do_not_reach_requests(server: SocketServer, servers: Servers, broker: EchoBroker) -> None:
    client: RawClient = servers.connect(server, "SSL")
    client.send(produce_frame(1))
    wait_until(lambda: server.connection_count() == 0, "closed")
    assert not broker.requests


def test_a_closed_connection_keeps_nothing_of_openssl(server: SocketServer, authority: Authority) -> None:
    """Without waiting for a collection of garbage: in a broker those come late, and many clients may come before."""

    def sessions() -> int:
        return sum(isinstance(each, ssl.SSLObject) for each in gc.get_objects())

    context = client_context(authority)
    gc.collect()
    before = sessions()
    gc.disable()
    try:
        for number in range(20):
            with connect(server, context) as sock:
                sock.sendall(produce_frame(number))
                assert answer(sock) == number
        wait_until(lambda: server.connection_count() == 0 and sessions() <= before, "no session is left")
    finally:
        gc.enable()
