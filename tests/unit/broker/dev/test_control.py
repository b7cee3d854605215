"""The control connection: who is heard, what is answered, what ends it."""

from __future__ import annotations

import json
import selectors
import socket
from collections.abc import Iterator

import pytest

from broker.dev import control
from broker.dev.control import ControlServer

SELECTOR = selectors.DefaultSelector()


@pytest.fixture
def server() -> Iterator[ControlServer]:
    server = ControlServer("secret", SELECTOR)
    yield server
    server.close()


def step(server: ControlServer) -> None:
    server.serve([key for key, _ in SELECTOR.select(5)])


def connect(server: ControlServer, *lines: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port), 5)
    step(server)
    client.sendall(b"".join(line + b"\n" for line in lines))
    step(server)
    return client


def test_requests_are_answered_in_order_and_the_last_client_is_missed(server: ControlServer) -> None:
    with connect(server, b"secret", b'{"n": 1}', b'{"n": 2}') as client:
        assert server.had_client
        assert server.has_client
        server.answer_all(lambda request, leave: {"ok": request["n"]})
        with client.makefile() as answers:
            assert [json.loads(answers.readline()) for _ in range(2)] == [{"ok": 1}, {"ok": 2}]
    step(server)
    assert not server.has_client


def test_who_has_left_is_answered_but_not_counted(server: ControlServer) -> None:
    with connect(server, b"secret", b"{}") as client:
        server.answer_all(lambda request, leave: {"ok": leave()})  # type: ignore[func-returns-value]
        assert client.recv(100) == b'{"ok": null}\n'
        assert not server.has_client


@pytest.mark.parametrize("lines", [[b"wrong"], [b"secret", b"not json"], [b"secret", b"[]"], [b""]])
def test_who_does_not_know_the_token_or_the_language_is_not_heard(server: ControlServer, lines: list[bytes]) -> None:
    with connect(server, *lines) as client:
        assert client.recv(1) == b""
        server.answer_all(lambda request, leave: pytest.fail("answered"))
        assert not server.has_client


def test_a_line_without_end_is_refused(server: ControlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MAX_LINE", 10)
    with connect(server, b"x" * 11) as client:
        assert client.recv(1) == b""


def test_connections_are_bounded(server: ControlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MAX_CONNECTIONS", 1)
    with connect(server, b"secret"), socket.create_connection(("127.0.0.1", server.port), 5) as second:
        step(server)
        assert second.recv(1) == b""
        assert server.has_client
