"""The two kinds of connection, against real servers and against peers that misbehave."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.async_connection import AsyncConnection
from network.client.connection import Connection, ConnectionFailed, CorrelationIds, RequestTimedOut
from network.protocol.errors import ProtocolError
from network.protocol.messages.api_versions import ApiVersionsRequest
from network.protocol.messages.produce import ProduceResponse
from tests.support.sockets import EchoBroker, Servers, produce
from timer.clock import SystemClock

CLOCK = SystemClock()
Serve = Callable[[socket.socket], object]


@pytest.fixture
def peer() -> Iterator[Callable[[Serve], int]]:
    """Starts a peer that does what it is told with the first connection; gives its port."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def start(serve: Serve) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            connection, _ = listener.accept()
            with connection:
                serve(connection)

        thread = threading.Thread(target=run)
        threads.append(thread)
        thread.start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listeners:
        listener.close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def answer_with(data: bytes) -> Serve:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(data)
        connection.recv(65536)

    return serve


def connect(port: int, **options: Any) -> Connection:
    return Connection("127.0.0.1", port, "me", CLOCK, **options)


BAD_ANSWERS = {
    "negative size": struct.pack(">i", -1),
    "huge size": struct.pack(">i", 2**31 - 1),
    "no header": struct.pack(">i", 3) + b"abc",
    "another correlation id": struct.pack(">iihi", 10, 77, 0, 0),
    "cut off body": struct.pack(">iih", 6, 0, 0),
}


@pytest.mark.parametrize("data", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_bad_answers_end_the_connection(peer: Callable[[Serve], int], data: bytes) -> None:
    connection = connect(peer(answer_with(data)))
    with pytest.raises(ProtocolError):
        connection.call(ApiVersionsRequest(), 0)
    assert connection.closed


@pytest.mark.parametrize("data", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_bad_answers_end_an_async_connection(peer: Callable[[Serve], int], data: bytes) -> None:
    port = peer(answer_with(data))

    async def run() -> None:
        connection = await AsyncConnection.open("127.0.0.1", port, "me")
        with pytest.raises((ProtocolError, ConnectionFailed)):
            await connection.call(ApiVersionsRequest(), 0)
        await asyncio.sleep(0)
        assert connection.closed
        await connection.close()

    asyncio.run(run())


def test_time_out_closes(peer: Callable[[Serve], int]) -> None:
    def never_answer(connection: socket.socket) -> None:
        while connection.recv(65536):
            pass

    connection = connect(peer(never_answer))
    with pytest.raises(RequestTimedOut):
        connection.call(ApiVersionsRequest(), 0, timeout_ms=30)
    with pytest.raises(ConnectionFailed):
        connection.call(ApiVersionsRequest(), 0)


def test_peer_that_takes_nothing(peer: Callable[[Serve], int]) -> None:
    """Sending has a time limit as well."""
    go_on = threading.Event()
    port = peer(lambda connection: go_on.wait(60) and None)
    connection = connect(port, socket_timeout_ms=200)
    try:
        with pytest.raises(RequestTimedOut):
            connection.send_request(produce(50_000_000), 9)
    finally:
        go_on.set()


class Slow(socket.socket):
    """Stays in a call until `close` of the connection has returned, as a thread may that gets no processor."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock.family, sock.type, sock.proto, sock.detach())
        self.reading, self.closed_by_other, self.events = threading.Event(), threading.Event(), list[str]()

    def recv_into(self, *arguments: Any) -> int:
        self.reading.set()
        assert self.closed_by_other.wait(30)
        try:
            return super().recv_into(*arguments)
        finally:
            self.events.append("read")

    def close(self) -> None:
        self.events.append("closed")
        super().close()


def test_a_descriptor_is_not_given_away_under_a_thread_that_uses_it(peer: Callable[[Serve], int]) -> None:
    """Its number would be that of the next connection: the thread would wait for what is sent there."""
    slow: list[Slow] = []

    def wrap(sock: socket.socket, host: str) -> socket.socket:
        slow.append(Slow(sock))
        return slow[0]

    failed: list[str] = []

    def call() -> None:
        try:
            connection.call(ApiVersionsRequest(), 0)
        except ConnectionFailed as error:
            failed.append(str(error))

    connection = connect(peer(lambda theirs: theirs.recv(65536) and theirs.recv(1)), wrap=wrap)
    caller = threading.Thread(target=call)
    caller.start()
    assert slow[0].reading.wait(30)
    connection.close()
    slow[0].closed_by_other.set()
    caller.join(30)
    assert slow[0].events == ["read", "closed"]
    assert "was closed" in failed[0]


def test_closed_by_the_peer(peer: Callable[[Serve], int]) -> None:
    connection = connect(peer(lambda connection: None))
    with pytest.raises(ConnectionFailed):
        connection.call(ApiVersionsRequest(), 0)


def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionFailed, match="cannot connect"):
            connect(unused.getsockname()[1])


def test_correlation_ids_go_on_after_a_reconnect(servers: Servers, broker: EchoBroker) -> None:
    server = servers.start(broker)
    ids = CorrelationIds()
    for _ in range(2):
        port = server.bound_port("PLAINTEXT")
        with Connection("127.0.0.1", port, "me", CLOCK, correlation_ids=ids) as connection:
            connection.call(produce(), 9)
            connection.call(produce(), 9)
    assert [each.header.correlation_id for each in broker.requests] == [0, 1, 2, 3]


def test_pipelined_calls_of_a_blocking_connection(servers: Servers, broker: EchoBroker) -> None:
    server = servers.start(broker)
    with connect(server.bound_port("PLAINTEXT")) as connection:
        for size in range(5):
            connection.send_request(produce(size), 9)
        connection.send_request(produce(3, acks=0), 9, answered=False)
        with pytest.raises(ValueError, match="in flight"):
            connection.call(produce(), 9)
        for size in range(5):
            response = connection.receive_response()
            assert isinstance(response, ProduceResponse)
            assert response.responses[0].partition_responses[0].base_offset == size
        with pytest.raises(ValueError, match="no request"):
            connection.receive_response()


def test_many_async_calls_at_once(servers: Servers, broker: EchoBroker) -> None:
    server = servers.start(broker)

    async def run() -> None:
        connection = await AsyncConnection.open("127.0.0.1", server.bound_port("PLAINTEXT"), "me")
        answers = await asyncio.gather(*(connection.call(produce(size), 9) for size in range(100)))
        sizes = [each.responses[0].partition_responses[0].base_offset for each in answers]
        assert sizes == list(range(100))
        assert connection.in_flight == 0
        await connection.close()
        with pytest.raises(ConnectionFailed):
            await connection.call(produce(), 9)

    asyncio.run(run())


def test_async_time_out_and_close_fail_every_call(servers: Servers, broker: EchoBroker) -> None:
    broker.hook = lambda request: True  # never answers
    server = servers.start(broker)

    async def run() -> None:
        port = server.bound_port("PLAINTEXT")
        connection = await AsyncConnection.open("127.0.0.1", port, "me")
        other = asyncio.ensure_future(connection.call(produce(), 9))
        with pytest.raises(RequestTimedOut):
            await connection.call(produce(), 9, timeout_ms=30)
        with pytest.raises(ConnectionFailed):
            await other
        connection = await AsyncConnection.open("127.0.0.1", port, "me")
        waiting = asyncio.ensure_future(connection.call(produce(), 9))
        await asyncio.sleep(0.01)
        await connection.close()
        with pytest.raises(ConnectionFailed):
            await waiting

    asyncio.run(run())
