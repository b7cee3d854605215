"""The embedded server under what is too much: hostile frames, a thousand clients, many znodes and watches."""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper
from controller.zk.embedded import codes
from controller.zk.embedded.jute import boolean_bytes, buffer_bytes, int_bytes, text_bytes, vector_bytes
from tests.support import zookeeper_wire as wire
from tests.support.cluster import CLOCK
from tests.support.zookeeper_wire import WireClient
from tests.zookeeper.conftest import StartServer

CLIENTS = 1_000
ZNODES = 100_000
WATCHES = 10_000
BATCH = 2_000
SEED = 39
LOG = "bounds.log"


@pytest.fixture(scope="module")
def embedded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One of this file's own: what is compared elsewhere counts what was ever created."""
    server = EmbeddedZooKeeper(None, free_ports(1)[0], tmp_path_factory.getbasetemp() / LOG)
    try:
        server.wait_until_ready(CLOCK)
        yield server.connect
    finally:
        server.stop()


def frame(body: bytes) -> bytes:
    return int_bytes(len(body)) + body


def request(kind: int, body: bytes) -> bytes:
    return frame(struct.pack(">ii", 1, kind) + body)


SESSION = frame(struct.pack(">iqiq", 0, 0, 30_000, 0) + buffer_bytes(bytes(16)) + b"\0")
HOSTILE = {
    "a negative length": int_bytes(-1),
    "a length beyond jute.maxbuffer": int_bytes(0x100000) + bytes(100),
    "the largest length": int_bytes(0x7FFFFFFF) + bytes(100),
    "no connect request": frame(b"GET / HTTP/1.1\r\n\r\n"),
    "an empty first frame": frame(b""),
    "a password of two gigabytes": frame(struct.pack(">iqiqi", 0, 0, 30_000, 0, 0x7FFFFFFF)),
    "a state that the server never had": frame(struct.pack(">iqiq", 0, 1 << 60, 30_000, 0) + buffer_bytes(bytes(16))),
    "a second frame without a header": SESSION + frame(b"\0"),
    "a type that does not exist": SESSION + request(12345, b""),
}
# Answered with an error, and the session goes on.
ANSWERED = {
    "a path of two gigabytes": (codes.EXISTS, int_bytes(0x7FFFFFFF)),
    "a list of two thousand million": (codes.SET_WATCHES, struct.pack(">qi", 0, 0x7FFFFFFF)),
    "a multi without an end": (codes.MULTI, wire.multi_bytes([(codes.DELETE, wire.path_version("/a", 0))])[:-9]),
    "a multi of reads as writes": (codes.MULTI, wire.multi_bytes([(codes.GET_DATA, wire.read_bytes("/"))])),
    "a null path": (codes.GET_DATA, buffer_bytes(None) + boolean_bytes(True)),
    "an unknown kind of watch": (codes.ADD_WATCH, text_bytes("/") + int_bytes(77)),
    "half a stat": (codes.CREATE, wire.create_bytes("/half", b"")[:-1]),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_client_is_cut_off_alone(embedded_server: str, what: str) -> None:
    client = WireClient(embedded_server)
    with _connected(embedded_server) as hostile:
        hostile.sendall(HOSTILE[what])
        with contextlib.suppress(ConnectionResetError):
            while hostile.recv(65_536):
                pass
    assert client.call(codes.EXISTS, wire.read_bytes("/"))[1] == codes.OK
    client.close()


def test_who_speaks_tls_is_told_of_in_the_log(embedded_server: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    context = ssl.create_default_context()
    with _connected(embedded_server) as plain, pytest.raises(OSError):
        context.wrap_socket(plain, server_hostname="localhost")
    log = tmp_path_factory.getbasetemp() / LOG
    assert wait_until(lambda: "TLS, which the embedded ZooKeeper does not speak" in log.read_text(), CLOCK, 60_000)


@pytest.mark.parametrize("what", ANSWERED)
def test_what_can_not_be_read_is_an_error(embedded_server: str, what: str) -> None:
    client = WireClient(embedded_server)
    assert client.call(*ANSWERED[what])[1] in (codes.MARSHALLING_ERROR, codes.UNIMPLEMENTED)
    assert client.call(codes.EXISTS, wire.read_bytes("/"))[1] == codes.OK
    client.close()


def test_frames_that_are_bent_at_random_stop_nothing(embedded_server: str) -> None:
    rng = random.Random(SEED)
    client = WireClient(embedded_server)
    whole = [
        request(codes.CREATE2, wire.create_bytes("/bent", b"data")),
        request(codes.MULTI, wire.multi_bytes([(codes.CREATE, wire.create_bytes("/bent/a", b""))] * 3)),
        request(codes.SET_WATCHES2, struct.pack(">q", 0) + int_bytes(0) * 5),
        request(codes.ADD_WATCH, text_bytes("/bent") + int_bytes(1)),
        request(codes.AUTH, int_bytes(0) + text_bytes("digest") + buffer_bytes(b"u:p")),
    ]
    for _ in range(300):
        data = bytearray(rng.choice(whole))
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(8, len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        with _connected(embedded_server) as hostile:
            hostile.sendall(SESSION + bytes(data) + request(codes.CLOSE_SESSION, b""))
            with contextlib.suppress(ConnectionResetError):
                while hostile.recv(65_536):
                    pass
    assert client.call(codes.EXISTS, wire.read_bytes("/"))[1] == codes.OK
    client.close()


def test_a_thousand_clients_hear_of_one_change_and_their_sessions_end(embedded_server: str) -> None:
    owner = WireClient(embedded_server)
    owner.call(codes.CREATE, wire.create_bytes("/crowd", b""))
    clients = [WireClient(embedded_server, 5_000) for _ in range(CLIENTS)]
    for number, client in enumerate(clients):
        assert client.call(codes.CREATE, wire.create_bytes(f"/crowd/{number}", b"", 1))[1] == codes.OK
    for client in clients:
        assert client.call(codes.GET_DATA, wire.read_bytes("/crowd", True))[1] == codes.OK
    assert owner.call(codes.SET_DATA, wire.set_bytes("/crowd", b"now", -1))[1] == codes.OK
    for client in clients:
        client.call(codes.PING, xid=codes.PING_XID)
        assert [event[1:] for event in client.events] == [(codes.NODE_DATA_CHANGED, "/crowd")]
    for client in clients:
        client.close(session=False)

    def count() -> int:
        return len(owner.call(codes.GET_CHILDREN, wire.read_bytes("/crowd"))[2].texts())

    assert count() > 0
    assert wait_until(lambda: count() == 0, CLOCK, 60_000), f"{count()} ephemeral nodes outlive their sessions"
    owner.close()


def test_connections_beyond_the_bound_are_closed(start: StartServer) -> None:
    address = start("--max-connections", "10").connect
    clients = [WireClient(address) for _ in range(10)]
    with _connected(address) as further, contextlib.suppress(ConnectionResetError):
        assert further.recv(1) == b""
    assert clients[0].call(codes.EXISTS, wire.read_bytes("/"))[1] == codes.OK
    clients.pop().close()

    def admitted() -> bool:
        with contextlib.suppress(EOFError, OSError):
            clients.append(WireClient(address))
        return len(clients) == 10

    assert wait_until(admitted, CLOCK, 30_000)
    for client in clients:
        client.close()


def test_a_connection_that_says_nothing_is_closed(start: StartServer) -> None:
    """As in ZooKeeper, which waits for 10 s too."""
    address = start("--sessionless-timeout-ms", "300").connect
    client = WireClient(address)
    with _connected(address) as silent, _connected(address) as slow:
        slow.sendall(b"\0\0")
        assert silent.recv(1) == b""
        assert slow.recv(1) == b""
    assert client.call(codes.EXISTS, wire.read_bytes("/"))[1] == codes.OK
    client.close()


def test_many_znodes_and_watches_come_back_from_the_disk(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    server = EmbeddedZooKeeper(tmp_path / "data", port, tmp_path / "log")
    try:
        server.wait_until_ready(CLOCK)
        client = WireClient(server.connect)
        client.call(codes.CREATE, wire.create_bytes("/many", b""))
        for start in range(0, ZNODES, BATCH):
            ops = [(codes.CREATE, wire.create_bytes(f"/many/{n:07}", b"data")) for n in range(start, start + BATCH)]
            _, code, reader = client.call(codes.MULTI, wire.multi_bytes(ops))
            assert code == codes.OK
            assert len(wire.read_multi(reader)) == BATCH
        paths = [f"/many/{number:07}" for number in range(WATCHES)]
        lists = [vector_bytes(map(text_bytes, paths)), *[vector_bytes([])] * 4]
        assert client.call(codes.SET_WATCHES2, struct.pack(">q", 1 << 40) + b"".join(lists))[1] == codes.OK
        for start in range(0, WATCHES, BATCH):
            sets = [(codes.SET_DATA, wire.set_bytes(path, b"new", 0)) for path in paths[start : start + BATCH]]
            assert client.call(codes.MULTI, wire.multi_bytes(sets))[1] == codes.OK
        assert [(kind, path) for _, kind, path in client.events] == [(codes.NODE_DATA_CHANGED, path) for path in paths]
        server.process.kill()
        server = EmbeddedZooKeeper(tmp_path / "data", port, tmp_path / "log")
        server.wait_until_ready(CLOCK)
        client = WireClient(server.connect, 30_000, (client.session_id, client.password))
        names = client.call(codes.GET_CHILDREN, wire.read_bytes("/many"))[2].texts()
        assert sorted(names) == [f"{number:07}" for number in range(ZNODES)]
        assert client.call(codes.GET_DATA, wire.read_bytes(paths[-1]))[2].buffer() == b"new"
    finally:
        server.stop()


@contextlib.contextmanager
def _connected(address: str) -> Iterator[socket.socket]:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as made:
        made.settimeout(30)
        yield made
