"""The HTTP server over real sockets: well-behaved clients, and others."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus

import pytest

from broker.http import server as module
from broker.http.messages import TEXT, HttpRequest, HttpResponse, text_response
from broker.http.server import MAX_CONNECTIONS, MAX_HEAD_BYTES, HttpServer

TIMEOUT_S = 10


async def hello(request: HttpRequest) -> HttpResponse:
    return text_response(HTTPStatus.OK, f"hello {request.query.get('name', '')}")


async def broken(_request: HttpRequest) -> HttpResponse:
    raise RuntimeError("no")


async def numbers(_request: HttpRequest) -> HttpResponse:
    async def pieces() -> AsyncIterator[bytes]:
        for number in range(1000):
            yield b"%d\n" % number

    return HttpResponse(HTTPStatus.OK, TEXT, pieces())


async def breaks_off(_request: HttpRequest) -> HttpResponse:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        raise RuntimeError("no more")

    return HttpResponse(HTTPStatus.OK, TEXT, pieces())


async def endless(_request: HttpRequest) -> HttpResponse:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield bytes(65536)

    return HttpResponse(HTTPStatus.OK, TEXT, pieces())


@pytest.fixture
def server() -> Iterator[HttpServer]:
    routes = {"/hello": hello, "/broken": broken, "/numbers": numbers, "/breaks-off": breaks_off, "/endless": endless}
    server = HttpServer("127.0.0.1", 0, routes)
    server.start()
    yield server
    server.shutdown()


@pytest.fixture
def client(server: HttpServer) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
    yield connection
    connection.close()


def raw(server: HttpServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_S)


def all_of(sock: socket.socket) -> bytes:
    found = b""
    while piece := sock.recv(65536):
        found += piece
    return found


def get(client: http.client.HTTPConnection, path: str, method: str = "GET") -> tuple[int, bytes]:
    client.request(method, path)
    response = client.getresponse()
    return response.status, response.read()


def test_requests_of_one_connection(client: http.client.HTTPConnection) -> None:
    assert get(client, "/hello?name=you") == (200, b"hello you\n")
    sock = client.sock
    assert get(client, "/numbers") == (200, b"".join(b"%d\n" % number for number in range(1000)))
    assert get(client, "/hello") == (200, b"hello \n")
    assert client.sock is sock


def test_head_has_no_body(client: http.client.HTTPConnection) -> None:
    for path in ("/hello", "/numbers"):
        assert get(client, path, "HEAD") == (200, b"")
    assert get(client, "/hello") == (200, b"hello \n")


def test_unknown_paths_name_the_known_ones(client: http.client.HTTPConnection) -> None:
    status, body = get(client, "/")
    assert status == 404
    assert b"/hello /numbers" in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_refused(client: http.client.HTTPConnection, method: str) -> None:
    client.request(method, "/hello", body=b"x" * 1000)
    response = client.getresponse()
    assert (response.status, response.getheader("allow")) == (405, "GET, HEAD")


def test_a_handler_that_fails_is_an_error_of_its_request_only(client: http.client.HTTPConnection) -> None:
    assert get(client, "/broken")[0] == 500
    assert get(client, "/hello") == (200, b"hello \n")


def test_an_answer_that_breaks_off_is_not_taken_for_whole(client: http.client.HTTPConnection) -> None:
    client.request("GET", "/breaks-off")
    with pytest.raises(http.client.IncompleteRead):
        client.getresponse().read()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        (b"GET /hello HTTP/1.1\r\n\r\n", b"400"),  # no host
        (b"GET /hello HTTP/1.1\r\nhost: a\r\nx: " + b"y" * (MAX_HEAD_BYTES + 1), b"431"),
        (b"GET //[ HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", b"400"),
        (b"GET /hello HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", b"400"),
    ],
)
def test_bad_requests_are_answered_and_closed(server: HttpServer, request_bytes: bytes, status: bytes) -> None:
    with raw(server) as sock:
        sock.sendall(request_bytes)
        assert all_of(sock).split(b" ")[1] == status


def test_connections_are_bounded_and_come_back(server: HttpServer) -> None:
    held = [raw(server) for _ in range(MAX_CONNECTIONS)]
    for sock in held:
        sock.sendall(b"GET /hello HTTP/1.1\r\nhost: a\r\n\r\n")
        assert sock.recv(1000).startswith(b"HTTP/1.1 200 ")
    with raw(server) as one_too_many:
        assert all_of(one_too_many).startswith(b"HTTP/1.1 503 ")
    for sock in held:
        sock.close()
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        # Refused while the server has not seen all of them closed; then the request may meet a closed connection.
        with contextlib.suppress(ConnectionError), raw(server) as sock:
            sock.sendall(b"GET /hello HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            if all_of(sock).startswith(b"HTTP/1.1 200 "):
                return
    raise AssertionError("no connection is taken although all were closed")


def test_a_slow_request_is_given_up(monkeypatch: pytest.MonkeyPatch, server: HttpServer) -> None:
    monkeypatch.setattr(module, "REQUEST_TIMEOUT_S", 0.2)
    with raw(server) as sock:
        sock.sendall(b"GET /hello HTTP/1.1\r\n")
        assert all_of(sock) == b""


def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch, server: HttpServer) -> None:
    monkeypatch.setattr(module, "IDLE_TIMEOUT_S", 0.2)
    with raw(server) as sock:
        sock.sendall(b"GET /hello HTTP/1.1\r\nhost: a\r\n\r\n")
        assert all_of(sock).endswith(b"hello \n")


def test_who_does_not_take_an_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch, server: HttpServer) -> None:
    monkeypatch.setattr(module, "SEND_TIMEOUT_S", 0.2)
    with raw(server) as sock, raw(server) as other:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(b"GET /endless HTTP/1.1\r\nhost: a\r\n\r\n")
        deadline = time.monotonic() + TIMEOUT_S
        while server.connections > 1:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        other.sendall(b"GET /hello HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        assert all_of(other).endswith(b"hello \n")


def test_a_taken_port_is_an_error(server: HttpServer) -> None:
    with pytest.raises(OSError, match="in use"):
        HttpServer("127.0.0.1", server.port, {}).start()


def test_shutdown_closes_connections(server: HttpServer) -> None:
    with raw(server) as sock:
        sock.sendall(b"GET /hello HTTP/1.1\r\nhost: a\r\n\r\n")
        assert sock.recv(1000).startswith(b"HTTP/1.1 200 ")
        server.shutdown()
        assert sock.recv(1000) == b""
    server.shutdown()
    with pytest.raises(OSError):
        raw(server)
