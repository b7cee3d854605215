"""Responses with file ranges: the right bytes, and every range released exactly once on every path."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import network.server.outbox as outbox
from network.protocol.header import RequestHeader, decode_response, encode_request
from network.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from network.server.inline import InlineRule
from network.server.request import Request
from network.server.server_config import ListenerConfig
from network.server.transport import PlaintextTransport
from tests.support.sockets import RawClient, Servers, wait_until

BOTH = pytest.mark.parametrize("inline", [None, InlineRule({1: None})], ids=["pool", "inline"])
HEADER = RequestHeader(1, 11, 5, "test")


class Range:
    """A file range that counts its releases."""

    def __init__(self, fd: int, position: int, size: int) -> None:
        self.fd = fd
        self.position = position
        self.size = size
        self.released = 0

    def read(self) -> bytes:
        return os.pread(self.fd, self.size, self.position)

    def release(self) -> None:
        self.released += 1


class FetchBroker:
    """Answers every Fetch with the given ranges, a partition each."""

    def __init__(self, ranges: list[Range]) -> None:
        self.ranges = ranges
        self.requests: list[Request] = []
        self.hold = False

    def __call__(self, request: Request) -> None:
        self.requests.append(request)
        if not self.hold:
            self.answer(request)

    def answer(self, request: Request) -> None:
        partitions = [PartitionData(partition_index=at, records=each) for at, each in enumerate(self.ranges)]
        topic = FetchableTopicResponse(topic="t", partitions=partitions)
        request.respond(FetchResponse(responses=[topic]))


@pytest.fixture
def data(tmp_path: Path) -> Iterator[tuple[int, bytes]]:
    content = os.urandom(9_000_000)
    path = tmp_path / "segment"
    path.write_bytes(content)
    fd = os.open(path, os.O_RDONLY)
    yield fd, content
    os.close(fd)


def fetch_frame() -> bytes:
    request = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=0)])])
    return encode_request(HEADER, request)


def fetched(client: RawClient) -> list[bytes]:
    response = decode_response(HEADER, client.frame())
    return [bytes(each.records) for each in response.responses[0].partitions]  # type: ignore[attr-defined]


def released(ranges: list[Range]) -> list[int]:
    return [each.released for each in ranges]


@BOTH
def test_ranges_are_sent_and_released(servers: Servers, data: tuple[int, bytes], inline: InlineRule | None) -> None:
    fd, content = data
    spans = [(0, 10), (5, 0), (1000, 3_000_000), (7, 70_000)]
    ranges = [Range(fd, *span) for span in spans]
    client = servers.connect(servers.start(FetchBroker(ranges), inline=inline))
    for round_ in (1, 2):
        client.send(fetch_frame())
        assert fetched(client) == [content[at : at + size] for at, size in spans]
        wait_until(lambda round_=round_: released(ranges) == [round_] * 4, "released")  # type: ignore[misc]


@BOTH
def test_a_slow_reader_costs_no_memory_and_holds_up_nobody(
    servers: Servers, data: tuple[int, bytes], inline: InlineRule | None
) -> None:
    fd, content = data
    ranges = [Range(fd, 0, len(content))]
    broker = FetchBroker(ranges)
    server = servers.start(broker, inline=inline)
    slow, other = servers.connect(server), servers.connect(server)
    slow.send(fetch_frame(), fetch_frame())
    wait_until(lambda: len(broker.requests) == 1, "the first is being answered")
    other.send(fetch_frame())
    assert fetched(other) == [content]
    assert len(broker.requests) == 2  # the second request of the slow reader is not begun before it has its answer
    assert fetched(slow) == [content]
    assert fetched(slow) == [content]
    wait_until(lambda: released(ranges) == [3], "released")


@BOTH
def test_peer_that_leaves_while_it_is_sent_to(
    servers: Servers, data: tuple[int, bytes], inline: InlineRule | None
) -> None:
    fd, content = data
    ranges = [Range(fd, 0, len(content)), Range(fd, 0, 100)]
    server = servers.start(FetchBroker(ranges), inline=inline)
    client = servers.connect(server)
    client.send(fetch_frame())
    client.exactly(1000)
    client.close()
    wait_until(lambda: released(ranges) == [1, 1], "released")
    wait_until(lambda: server.connection_count() == 0, "closed")


def test_peer_that_leaves_before_the_response(servers: Servers, data: tuple[int, bytes]) -> None:
    ranges = [Range(data[0], 0, 100)]
    broker = FetchBroker(ranges)
    broker.hold = True
    server = servers.start(broker, connections_max_idle_ms=1_000)
    client = servers.connect(server)
    client.send(fetch_frame())
    wait_until(lambda: len(broker.requests) == 1, "received")
    assert client.is_closed()
    broker.answer(broker.requests[0])
    wait_until(lambda: released(ranges) == [1], "released")


def test_shutdown_while_sending(servers: Servers, data: tuple[int, bytes]) -> None:
    ranges = [Range(data[0], 0, len(data[1]))]
    server = servers.start(FetchBroker(ranges))
    client = servers.connect(server)
    client.send(fetch_frame())
    client.exactly(1000)
    server.shutdown()
    assert released(ranges) == [1]


def test_response_after_shutdown(servers: Servers, data: tuple[int, bytes]) -> None:
    ranges = [Range(data[0], 0, 100)]
    broker = FetchBroker(ranges)
    broker.hold = True
    server = servers.start(broker)
    client = servers.connect(server)
    client.send(fetch_frame())
    wait_until(lambda: len(broker.requests) == 1, "received")
    server.shutdown()
    broker.answer(broker.requests[0])
    assert released(ranges) == [1]


@BOTH
def test_a_file_shorter_than_its_range_closes_the_connection(
    servers: Servers, data: tuple[int, bytes], inline: InlineRule | None
) -> None:
    fd, content = data
    ranges = [Range(fd, len(content) - 50, 100), Range(fd, 0, 10)]
    server = servers.start(FetchBroker(ranges), inline=inline)
    client = servers.connect(server)
    client.send(fetch_frame())
    with pytest.raises((EOFError, ConnectionResetError)):
        client.frame()
    wait_until(lambda: released(ranges) == [1, 1], "released")


def test_response_that_cannot_be_encoded(servers: Servers, data: tuple[int, bytes]) -> None:
    ranges = [Range(data[0], 0, 100), Range(data[0], 0, 100)]

    def handler(request: Request) -> None:
        partitions = [
            PartitionData(partition_index=10**12, records=ranges[0]),
            PartitionData(records=[b"x", ranges[1]]),
        ]
        topic = FetchableTopicResponse(topic="t", partitions=partitions)
        request.respond(FetchResponse(responses=[topic]))

    client = servers.connect(servers.start(handler))
    client.send(fetch_frame())
    assert client.is_closed()
    assert released(ranges) == [1, 1]


def test_cold_ranges_are_read_by_another_thread(
    servers: Servers, data: tuple[int, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each chunk is cold until somebody has read it; the loop must not be the one who does."""
    fd, content = data
    warm: set[int] = set()
    readers: list[str] = []
    really_preadv = os.preadv

    def read_through(fd: int, buffers: list[bytearray], position: int) -> int:
        readers.append(threading.current_thread().name)
        warm.add(position)
        return really_preadv(fd, buffers, position)

    monkeypatch.setattr(outbox, "in_page_cache", lambda fd, position, size: position in warm)
    monkeypatch.setattr("network.server.response_writer.os.preadv", read_through)
    ranges = [Range(fd, 100, 5_000_000)]
    client = servers.connect(servers.start(FetchBroker(ranges)))
    client.send(fetch_frame())
    assert fetched(client) == [content[100:5_000_100]]
    wait_until(lambda: released(ranges) == [1], "released")
    assert readers
    assert all("cold-read" in name for name in readers)


def test_peer_that_leaves_while_a_range_is_warmed(
    servers: Servers, data: tuple[int, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = threading.Event()
    go_on = threading.Event()
    ranges = [Range(data[0], 0, 100_000), Range(data[0], 0, 10)]

    def read_through(fd: int, position: int, size: int) -> None:
        reading.set()
        assert go_on.wait(60)

    monkeypatch.setattr(outbox, "in_page_cache", lambda fd, position, size: False)
    monkeypatch.setattr("network.server.response_writer._read_through", read_through)
    server = servers.start(FetchBroker(ranges), connections_max_idle_ms=1_000)
    client = servers.connect(server)
    client.send(fetch_frame())
    assert reading.wait(60)
    wait_until(lambda: server.connection_count() == 0, "closed as idle")
    assert released(ranges) == [0, 1]  # the first is still being read
    go_on.set()
    wait_until(lambda: released(ranges) == [1, 1], "released")


def test_probe_of_the_page_cache(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1_000_000))
    fd = os.open(path, os.O_RDWR)
    try:
        assert outbox.in_page_cache(fd, 0, 1_000_000)
        assert outbox.in_page_cache(fd, 999_999, 1)
        assert outbox.in_page_cache(fd, 0, 0)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if outbox.in_page_cache(fd, 500_000, 100_000):
            pytest.skip("this file system keeps or hides its pages")
        os.pread(fd, 1_000_000, 0)
        assert outbox.in_page_cache(fd, 500_000, 100_000)
    finally:
        os.close(fd)


class NoSendfile(PlaintextTransport):
    __slots__ = ()

    def __init__(self, sock: object) -> None:
        super().__init__(sock)  # type: ignore[arg-type]
        self.supports_sendfile = False


def test_transport_without_sendfile(servers: Servers, data: tuple[int, bytes]) -> None:
    fd, content = data
    ranges = [Range(fd, 3, 2_000_000), Range(fd, 0, 5)]
    listener = ListenerConfig("PLAINTEXT", "127.0.0.1", 0, transport=NoSendfile)
    client = servers.connect(servers.start(FetchBroker(ranges), listeners=[listener]))
    client.send(fetch_frame())
    assert fetched(client) == [content[3:2_000_003], content[:5]]
    wait_until(lambda: released(ranges) == [1, 1], "released")
