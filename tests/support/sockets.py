"""Real servers and raw sockets for the network tests."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from network.protocol.header import RequestHeader, encode_request
from network.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from network.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from network.server.inline import InlineRule
from network.server.request import Request
from network.server.server_config import ListenerConfig, SocketServerConfig
from network.server.socket_server import SocketServer
from timer.clock import SystemClock
from timer.metrics import NULL_METRICS, Family

WAIT_S = 60.0


class Recorded:
    def __init__(self) -> None:
        self.values: list[float] = []

    def mark(self, n: int = 1) -> None:
        self.values.append(n)

    def update(self, value: float, n: int = 1) -> None:
        self.values.extend([value] * n)


class RecordingMetrics:
    """Satisfies `timer.metrics.Metrics` and keeps everything."""

    def __init__(self) -> None:
        self.gauges: dict[tuple[Any, ...], Callable[[], float]] = {}
        self.recorded: dict[tuple[Any, ...], Recorded] = {}

    def gauge(self, group: str, type_: str, name: str, fn: Callable[[], float], **tags: str) -> None:
        self.gauges[(group, type_, name, *sorted(tags.items()))] = fn

    def gauges_together(
        self, group: str, type_: str, names: Sequence[str], fn: Callable[[], Sequence[float]], **tags: str
    ) -> None:
        for place, name in enumerate(names):
            self.gauge(group, type_, name, lambda place=place: fn()[place], **tags)  # type: ignore[misc]

    def meter(self, group: str, type_: str, name: str, **tags: str) -> Recorded:
        return self.recorded.setdefault((group, type_, name, *sorted(tags.items())), Recorded())

    histogram = meter

    def family(self, *_: object) -> Family[Any]:
        return NULL_METRICS.family("", "", (), (), lambda owner: ())

    def remove(self, group: str, type_: str, name: str, **tags: str) -> None:
        pass

    def read(self, type_: str, name: str) -> float:
        return next(fn() for key, fn in self.gauges.items() if key[1:3] == (type_, name))


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Poll until `condition` holds; the test fails after a generous time."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.002)


class EchoBroker:
    """A handler that answers Produce with the record bytes' length as base offset and ApiVersions with one entry."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.threads: list[str] = []
        self.hook: Callable[[Request], bool] | None = None

    def __call__(self, request: Request) -> None:
        self.requests.append(request)
        self.threads.append(threading.current_thread().name)
        if self.hook is not None and self.hook(request):
            return
        self.answer(request)

    def answer(self, request: Request) -> None:
        if request.header.api_key == 18:
            served = request.spec.serves(request.header.api_version)
            entry = ApiVersion(api_key=18, min_version=0, max_version=4)
            response = ApiVersionsResponse(error_code=0 if served else 35, api_keys=[entry])
            request.respond(response)
            return
        message = request.message
        topics = [
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    PartitionProduceResponse(index=each.index, base_offset=len(each.records or b""))
                    for each in topic.partition_data
                ],
            )
            for topic in message.topic_data
        ]
        request.respond(ProduceResponse(responses=topics) if message.acks else None)


def produce(size: int = 10, acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=b"r" * size)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def produce_frame(correlation_id: int, size: int = 10, acks: int = 1) -> bytes:
    return encode_request(RequestHeader(0, 9, correlation_id, "test"), produce(size, acks))


def api_versions_frame(correlation_id: int, version: int = 3) -> bytes:
    return encode_request(
        RequestHeader(18, version, correlation_id, "test"),
        ApiVersionsRequest(client_software_name="t", client_software_version="1"),
    )


class RawClient:
    """A socket that speaks frames."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(frames))

    def exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise EOFError(f"closed after {len(data)} of {size} bytes")
            data += chunk
        return data

    def frame(self) -> bytes:
        return self.exactly(struct.unpack(">i", self.exactly(4))[0])

    def correlation_id(self) -> int:
        return int(struct.unpack(">i", self.frame()[:4])[0])

    def is_closed(self) -> bool:
        """Wait for the server to close; False if bytes come instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.socket.close()


class Servers:
    """Starts servers and stops every one of them."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self._servers: list[SocketServer] = []
        self._clients: list[RawClient] = []

    def start(
        self, handler: Callable[[Request], None], *, inline: InlineRule | None = None, **config: Any
    ) -> SocketServer:
        config.setdefault("listeners", [ListenerConfig("PLAINTEXT", "127.0.0.1", 0)])
        self.metrics = RecordingMetrics()
        server = SocketServer(
            SocketServerConfig(**config), handler, self.clock, self.metrics, inline=inline or InlineRule({})
        )
        self._servers.append(server)
        server.start()
        return server

    def connect(self, server: SocketServer, listener: str = "PLAINTEXT") -> RawClient:
        client = RawClient(server.bound_port(listener))
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()
        for server in self._servers:
            server.shutdown()
