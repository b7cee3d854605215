"""Requests through a real server: order, threads, responses from elsewhere, disconnects."""

from __future__ import annotations

import threading

import pytest

from network.client.connection import Connection, ConnectionFailed
from network.protocol.messages.produce import ProduceResponse
from network.server.inline import InlineRule, at_most
from network.server.request import Request
from tests.support.sockets import EchoBroker, Servers, produce, produce_frame, wait_until

INLINE = InlineRule({0: None, 18: None})
BOTH = pytest.mark.parametrize("inline", [None, INLINE], ids=["pool", "inline"])


@BOTH
@pytest.mark.parametrize("size", [0, 10, 70_000, 3_000_000, 5_000_000])
def test_request_and_response(servers: Servers, broker: EchoBroker, inline: InlineRule | None, size: int) -> None:
    server = servers.start(broker, inline=inline)
    with Connection("127.0.0.1", server.bound_port("PLAINTEXT"), "me", servers.clock) as connection:
        for _ in range(3):
            response = connection.call(produce(size), 9)
            assert isinstance(response, ProduceResponse)
            assert response.responses[0].partition_responses[0].base_offset == size
    request = broker.requests[0]
    assert request.header.client_id == "me"
    assert request.connection.principal == "User:ANONYMOUS"
    assert request.connection.client_host == "127.0.0.1"
    prefix = (
        "data-plane-kafka-network-thread-0-PLAINTEXT-PLAINTEXT-0" if inline else "data-plane-kafka-request-handler-"
    )
    assert all(name.startswith(prefix) for name in broker.threads)


@BOTH
def test_pipelined_requests_are_answered_in_order(
    servers: Servers, broker: EchoBroker, inline: InlineRule | None
) -> None:
    """Also when one is split at every possible place, and when large and unanswered ones are among them."""
    client = servers.connect(servers.start(broker, inline=inline))
    frames = [produce_frame(0), produce_frame(1, size=100_000), produce_frame(2), produce_frame(3, acks=0)]
    frames += [produce_frame(number) for number in range(4, 200)]
    client.send(*frames)
    assert [client.correlation_id() for _ in range(199)] == [0, 1, 2, *range(4, 200)]
    frame = produce_frame(0)
    for cut in range(1, len(frame)):
        client.send(produce_frame(1), frame[:cut])
        assert client.correlation_id() == 1
        client.send(frame[cut:])
        assert client.correlation_id() == 0


def test_only_one_request_of_a_connection_is_in_flight(servers: Servers, broker: EchoBroker) -> None:
    held: list[Request] = []

    def hold(request: Request) -> bool:
        held.append(request)
        return True

    broker.hook = hold
    server = servers.start(broker, inline=INLINE)
    client, other = servers.connect(server), servers.connect(server)
    client.send(produce_frame(1), produce_frame(2), produce_frame(3))
    wait_until(lambda: len(held) == 1, "the first request is handled")
    broker.hook = None
    other.send(produce_frame(9))
    assert other.correlation_id() == 9  # a held request holds up nobody else
    assert len(broker.requests) == 2
    broker.answer(held[0])  # from this thread, as a purgatory does
    assert [client.correlation_id() for _ in range(3)] == [1, 2, 3]


def test_large_requests_leave_the_processor(servers: Servers, broker: EchoBroker) -> None:
    server = servers.start(broker, inline=InlineRule({0: at_most(1000)}))
    client = servers.connect(server)
    for size in (10, 2000):
        client.send(produce_frame(1, size=size))
        client.correlation_id()
    assert "network-thread" in broker.threads[0]
    assert "request-handler" in broker.threads[1]


@BOTH
def test_disconnect_during_processing(servers: Servers, broker: EchoBroker, inline: InlineRule | None) -> None:
    held: list[Request] = []
    broker.hook = lambda request: held.append(request) is None  # type: ignore[func-returns-value]
    server = servers.start(broker, inline=inline)
    client = servers.connect(server)
    client.send(produce_frame(1))
    wait_until(lambda: len(held) == 1, "handled")
    assert not held[0].is_gone
    client.close()
    wait_until(lambda: held[0].is_gone, "the peer has hung up")
    broker.hook = None
    broker.answer(held[0])
    wait_until(lambda: server.connection_count() == 0, "closed")
    assert held[0].is_gone
    other = servers.connect(server)
    other.send(produce_frame(2))
    assert other.correlation_id() == 2


@BOTH
def test_unanswered_requests_sent_just_before_a_close_are_processed(
    servers: Servers, broker: EchoBroker, inline: InlineRule | None
) -> None:
    client = servers.connect(servers.start(broker, inline=inline))
    client.send(*[produce_frame(number, acks=0) for number in range(50)])
    client.close()
    wait_until(lambda: len(broker.requests) == 50, "all requests are handled")


@BOTH
def test_close_connection_instead_of_a_response(
    servers: Servers, broker: EchoBroker, inline: InlineRule | None
) -> None:
    def close(request: Request) -> bool:
        request.close_connection()
        return True

    broker.hook = close
    client = servers.connect(servers.start(broker, inline=inline))
    client.send(produce_frame(1, acks=0), produce_frame(2))
    assert client.is_closed()
    assert len(broker.requests) == 1


def test_client_is_woken_by_close(servers: Servers, broker: EchoBroker) -> None:
    broker.hook = lambda request: True  # never answers
    server = servers.start(broker)
    connection = Connection("127.0.0.1", server.bound_port("PLAINTEXT"), "me", servers.clock)
    failures: list[BaseException] = []

    def call() -> None:
        try:
            connection.call(produce(), 9)
        except ConnectionFailed as error:
            failures.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    wait_until(lambda: len(broker.requests) == 1, "sent")
    connection.close()
    thread.join(60)
    assert len(failures) == 1
