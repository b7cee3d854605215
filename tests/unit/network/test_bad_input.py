"""Bytes that are no request: the connection ends, everybody else is served."""

from __future__ import annotations

import struct

import pytest

from network.protocol.messages.api_versions import ApiVersionsResponse
from network.server.inline import InlineRule
from tests.support.sockets import EchoBroker, Servers, api_versions_frame, produce_frame, wait_until

INLINE = InlineRule({0: None, 18: None})


@pytest.mark.parametrize("inline", [None, INLINE], ids=["pool", "inline"])
@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", -(2**31)),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 1_000_001),
        struct.pack(">i", 0),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">ihhi", 8, 999, 0, 1),
        struct.pack(">ihhih", 10, 0, 99, 1, 0),
        struct.pack(">ihhih", 10, 3, 9, 1, 500),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["negative", "most-negative", "huge", "over-limit", "empty", "short", "key", "version", "client-id", "http"],
)
def test_closes_without_answer_and_serves_others(
    servers: Servers, broker: EchoBroker, data: bytes, inline: InlineRule | None
) -> None:
    server = servers.start(broker, inline=inline, socket_request_max_bytes=1_000_000)
    other = servers.connect(server)
    other.send(produce_frame(1))
    assert other.correlation_id() == 1
    bad = servers.connect(server)
    bad.send(data)
    assert bad.is_closed()
    other.send(produce_frame(2))
    assert other.correlation_id() == 2
    assert len(broker.requests) == 2
    wait_until(lambda: server.connection_count() == 1, "the bad connection is no longer counted")


def test_size_limit_is_inclusive(servers: Servers, broker: EchoBroker) -> None:
    frame = produce_frame(1, size=5000)
    server = servers.start(broker, socket_request_max_bytes=len(frame) - 4)
    client = servers.connect(server)
    client.send(frame)
    assert client.correlation_id() == 1
    client.send(produce_frame(2, size=5001))
    assert client.is_closed()


def test_unknown_version_of_api_versions_reaches_the_handler_and_is_answered_in_version_0(
    servers: Servers, broker: EchoBroker
) -> None:
    client = servers.connect(servers.start(broker))
    client.send(struct.pack(">ihhi", 12, 18, 99, 7) + b"\xff\xff\xff\xff")
    answer = client.frame()
    assert answer[:4] == struct.pack(">i", 7)
    response = ApiVersionsResponse.decode(answer, 0, 4)
    assert response.error_code == 35
    client.send(api_versions_frame(8))
    assert client.correlation_id() == 8


def test_half_a_request_then_silence_is_closed_as_idle(servers: Servers, broker: EchoBroker) -> None:
    client = servers.connect(servers.start(broker, connections_max_idle_ms=200))
    client.send(produce_frame(1, size=100_000)[:50_000])
    assert client.is_closed()
    assert not broker.requests


def test_peer_that_leaves_within_a_request(servers: Servers, broker: EchoBroker) -> None:
    server = servers.start(broker)
    client = servers.connect(server)
    client.send(produce_frame(1, size=100_000)[:50_000])
    wait_until(lambda: server.connection_count() == 1, "connected")
    client.close()
    wait_until(lambda: server.connection_count() == 0, "closed")
    assert not broker.requests


def test_handler_that_raises_closes_only_its_connection(servers: Servers, broker: EchoBroker) -> None:
    def fail(request: object) -> bool:
        raise RuntimeError("on purpose")

    for inline in (None, INLINE):
        server = servers.start(broker, inline=inline)
        first, second = servers.connect(server), servers.connect(server)
        broker.hook = fail
        first.send(produce_frame(1))
        assert first.is_closed()
        broker.hook = None
        second.send(produce_frame(2))
        assert second.correlation_id() == 2


def test_response_that_cannot_be_encoded_closes_the_connection(servers: Servers, broker: EchoBroker) -> None:
    def answer_badly(request: object) -> bool:
        request.respond(ApiVersionsResponse(error_code=10**9))  # type: ignore[attr-defined]
        return True

    broker.hook = answer_badly
    client = servers.connect(servers.start(broker))
    client.send(api_versions_frame(1))
    assert client.is_closed()
