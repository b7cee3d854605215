"""A connection whose authentication ends: it is renewed in time, and never while an answer is awaited."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from network.client.connection import AuthenticationFailed, Connection, ConnectionFailed, Secured
from network.client.security import chain
from network.protocol.messages.api_versions import ApiVersionsRequest
from network.sasl import login
from network.sasl.login import SaslSession
from network.sasl.mechanism import ClientMechanism
from tests.support.sockets import EchoBroker, Servers, produce
from timer.clock import ManualClock, SystemClock

CLOCK = SystemClock()


class Renewals:
    """A session that is due when it is told so."""

    def __init__(self) -> None:
        self.due = False
        self.count = 0
        self.error: OSError | None = None

    def is_due(self) -> bool:
        return self.due

    def renew(self, sock: socket.socket) -> None:
        assert sock.gettimeout() == 7.0
        if self.error is not None:
            raise self.error
        self.due = False
        self.count += 1


@pytest.fixture
def session() -> Renewals:
    return Renewals()


@pytest.fixture
def connection(servers: Servers, session: Renewals) -> Iterator[Connection]:
    """The one that secures is followed by one that knows nothing of it."""
    server = servers.start(EchoBroker())
    wrap = chain([lambda sock, _: Secured(sock, session), lambda sock, _: sock])
    with Connection(
        "127.0.0.1", server.bound_port("PLAINTEXT"), "me", CLOCK, socket_timeout_ms=7_000, wrap=wrap
    ) as made:
        yield made


def test_it_is_renewed_once_before_the_next_request(connection: Connection, session: Renewals) -> None:
    connection.call(ApiVersionsRequest(), 0)
    assert session.count == 0
    session.due = True
    connection.call(ApiVersionsRequest(), 0)
    connection.call(ApiVersionsRequest(), 0)
    assert session.count == 1


def test_not_while_an_answer_is_awaited(connection: Connection, session: Renewals) -> None:
    connection.send_request(produce(1), 9)
    session.due = True
    connection.send_request(produce(2), 9)
    assert session.count == 0
    connection.receive_response()
    connection.receive_response()
    connection.call(ApiVersionsRequest(), 0)
    assert session.count == 1


@pytest.mark.parametrize("error", [AuthenticationFailed("no longer"), ConnectionResetError("gone")])
def test_one_that_fails_ends_the_connection(connection: Connection, session: Renewals, error: OSError) -> None:
    session.due, session.error = True, error
    with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:\d+: (no longer|gone)") as caught:
        connection.call(ApiVersionsRequest(), 0)
    assert isinstance(caught.value, AuthenticationFailed) is isinstance(error, AuthenticationFailed)
    assert connection.closed


@pytest.mark.parametrize(
    ("lifetime_ms", "earliest", "latest"), [(100_000, 85_000, 95_000), (2_000, 1_700, 1_900), (500, 1_000, 1_000)]
)
def test_when_it_is_due(monkeypatch: pytest.MonkeyPatch, lifetime_ms: int, earliest: int, latest: int) -> None:
    lifetimes = [lifetime_ms, 0]
    monkeypatch.setattr(login, "log_in", lambda *_: lifetimes.pop(0))

    def mechanism() -> ClientMechanism:
        raise AssertionError("nobody asks")

    clock = ManualClock()
    session = SaslSession(mechanism, "me", clock)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        session.renew(sock)
        assert not session.is_due()
        clock.advance(earliest - 1)
        assert not session.is_due()
        clock.advance(latest - earliest + 1)
        assert session.is_due()
        session.renew(sock)
        clock.advance(10 * lifetime_ms)
        assert not session.is_due()
