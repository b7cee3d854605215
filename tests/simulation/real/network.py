"""The network between simulated processes: sockets for the product's client side, a server for its handlers.

Bytes are those of the real codec. On one connection they keep their order, as with TCP; on different ones each has a
delay of its own. A way that is cut (one direction at a time) holds them back until it heals, or until somebody gives
up; a connection may break at any time, with what is under way on it.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from network.protocol.api import API
from network.protocol.header import decode_request_header
from network.server.connection_info import ConnectionInfo
from network.server.file_range import is_file_range
from network.server.handler_pool import HandlerPool
from network.server.request import CLOSE_CONNECTION, SEND, Request
from network.server.request_channel import RequestChannel
from tests.simulation.real.runtime import Process, Runtime, Task, runtime

RETRANSMIT_MS = 50
REFUSED_AFTER_MS = 1


class Net:
    """Who listens where, and what is broken."""

    def __init__(self, owner: Runtime) -> None:
        self.runtime = owner
        self.listeners: dict[tuple[str, int], SimServer] = {}
        self.cut: set[tuple[str, str]] = set()
        """(from, to) by the names of processes."""
        self.links: list[Link] = []
        self.watch_delay_ms: dict[str, float] = {}
        """How much later than others a process hears what it watches in ZooKeeper: its thread for that is slow."""
        self.break_probability = 0.0
        self.slowest_ms = 4.0
        self.frames = 0

    def delay(self) -> float:
        rng = self.runtime.rng
        return 0.05 + rng.random() ** 3 * self.slowest_ms

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self.cut

    def process_died(self, process: Process) -> None:
        for address, server in list(self.listeners.items()):
            if server.process is process:
                del self.listeners[address]
        for link in list(self.links):
            if process in (link.client, link.server_process):
                self.runtime.after(self.delay(), link.reset)

    def break_something(self) -> None:
        if self.links:
            self.runtime.rng.choice(self.links).reset()


class _Way:
    """One direction of a connection."""

    def __init__(self, link: Link, source: Process, target: Process, arrived: Any) -> None:
        self.link = link
        self._source = source
        self._target = target
        self._arrived = arrived
        self._under_way: deque[bytes] = deque()
        self._moving = False

    def send(self, data: bytes) -> None:
        self._under_way.append(data)
        if not self._moving:
            self._moving = True
            self.link.net.runtime.after(self.link.net.delay(), self._arrive)

    def _arrive(self) -> None:
        net = self.link.net
        if self.link.broken or not self._target.alive:
            return
        if net.is_cut(self._source.name, self._target.name) or self._target.paused:
            net.runtime.after(RETRANSMIT_MS, self._arrive)
            return
        data = self._under_way.popleft()
        if self._under_way:
            net.runtime.after(net.delay(), self._arrive)
        else:
            self._moving = False
        net.frames += 1
        if net.break_probability and net.runtime.rng.random() < net.break_probability:
            self.link.reset()
        else:
            self._arrived(data)


class Link:
    """One connection, seen from both ends."""

    def __init__(self, net: Net, client: Process, server: SimServer) -> None:
        self.net = net
        self.client = client
        self.server_process = server.process
        self.broken = False
        self.received = bytearray()
        self.reader: tuple[Task, object] | None = None
        self.end = ServerEnd(self, server)
        self.to_server = _Way(self, client, server.process, self.end.arrived)
        self.to_client = _Way(self, server.process, client, self._answer)
        net.links.append(self)

    def _answer(self, data: bytes) -> None:
        self.received += data
        self.wake_reader()

    def wake_reader(self) -> None:
        if self.reader is not None:
            self.net.runtime.wake(*self.reader)
            self.reader = None

    def reset(self) -> None:
        """Both ends find the connection broken; what is under way is lost."""
        if not self.broken:
            self.broken = True
            if self in self.net.links:
                self.net.links.remove(self)
            self.wake_reader()


class SimSocket:
    """What `network.client.connection` uses of a socket."""

    def __init__(self, net: Net, process: Process) -> None:
        self._net = net
        self._process = process
        self._timeout_ms: float | None = None
        self._link: Link | None = None

    def settimeout(self, seconds: float | None) -> None:
        self._timeout_ms = None if seconds is None else seconds * 1000

    def setsockopt(self, *_: Any) -> None: ...

    def connect(self, address: tuple[str, int]) -> None:
        net, owner = self._net, self._net.runtime
        began = owner.now_ns
        owner.sleep(net.delay())
        while True:
            server = net.listeners.get(address)
            if server is None:
                raise ConnectionRefusedError(f"nobody listens at {address}")
            here, there = self._process.name, server.process.name
            if not (net.is_cut(here, there) or net.is_cut(there, here) or server.process.paused):
                break
            if self._timeout_ms is not None and owner.now_ns - began >= self._timeout_ms * 1e6:
                raise TimeoutError("timed out")
            owner.sleep(RETRANSMIT_MS)
        self._link = Link(net, self._process, server)

    def send(self, data: Any) -> int:
        return self.sendmsg([data])

    def sendmsg(self, parts: list[Any]) -> int:
        link = self._link
        if link is None or link.broken:
            raise ConnectionResetError("connection reset")
        data = b"".join(bytes(part) for part in parts)
        link.to_server.send(data)
        return len(data)

    def recv_into(self, buffer: memoryview) -> int:
        link = self._link
        assert link is not None
        while not link.received:
            if link.broken:
                raise ConnectionResetError("connection reset")
            owner = self._net.runtime
            token = object()
            assert owner.current is not None
            link.reader = (owner.current, token)
            if not owner.block(self._timeout_ms, token):
                raise TimeoutError("timed out")
        count = min(len(buffer), len(link.received))
        buffer[:count] = link.received[:count]
        del link.received[:count]
        return count

    def shutdown(self, how: int) -> None:
        if self._link is not None:
            self._link.reset()

    def close(self) -> None:
        self.shutdown(0)


def socket_module(net: Net) -> Any:
    """`socket` as the module of connections knows it."""

    def make(*_: Any) -> SimSocket:
        current = runtime().current
        assert current is not None
        return SimSocket(net, current.process)

    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port))]

    names = ("SOCK_STREAM", "SOL_SOCKET", "SO_RCVBUF", "IPPROTO_TCP", "TCP_NODELAY", "SO_KEEPALIVE", "SHUT_RDWR")
    constants = {name: getattr(socket, name) for name in names}
    return SimpleNamespace(socket=make, getaddrinfo=getaddrinfo, **constants)


class ServerEnd:
    """The broker's end: frames become requests of the real handler pool, one at a time, and answers frames."""

    def __init__(self, link: Link, server: SimServer) -> None:
        self._link = link
        self._server = server
        self._received = bytearray()
        self._frames: deque[bytes] = deque()
        self._busy = False
        number = server.count_connection()
        self._info = ConnectionInfo(f"127.0.0.1:9092-127.0.0.1:{30000 + number}-{number}")
        self.now_ns: Callable[[], int] = lambda: link.net.runtime.now_ns

    def arrived(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            size = int.from_bytes(self._received[:4], "big")
            if len(self._received) < 4 + size:
                break
            self._frames.append(bytes(self._received[4 : 4 + size]))
            del self._received[: 4 + size]
        self._serve()

    def _serve(self) -> None:
        if self._busy or not self._frames or self._link.broken:
            return
        self._busy = True
        frame = memoryview(bytearray(self._frames.popleft()))
        header, offset = decode_request_header(frame)
        spec = API[header.api_key]
        received: int = self.now_ns()
        request = Request(header, spec, frame, offset, self._info, self, self._link, received)
        self._server.channel.put(request)

    def respond(self, request: Request, kind: int, payload: Any) -> None:
        """`Responder`."""
        if kind == CLOSE_CONNECTION:
            self._link.reset()
            return
        if kind == SEND:
            data = bytearray()
            for part in payload:
                if is_file_range(part):
                    data += part.read()
                    part.release()
                else:
                    data += part
            if not self._link.broken:
                self._link.to_client.send(bytes(data))
        if kind in (SEND, 1):
            self._busy = False
            self._serve()

    def is_gone(self, request: Request) -> bool:
        """`Responder`."""
        return bool(self._link.broken)


class SimServer:
    """What a broker uses of `SocketServer`."""

    def __init__(self, net: Net, process: Process, config: Any, handler: Any, clock: Any) -> None:
        self.process = process
        self._net = net
        self._config = config
        self._connections = 0
        self.quotas = SimpleNamespace(update_ip_rate=lambda *_: None)
        self.channel = RequestChannel(config.queued_max_requests, clock)
        self.pool = HandlerPool(self.channel, handler, config.num_io_threads)

    def count_connection(self) -> int:
        self._connections += 1
        return self._connections

    def bound_port(self, listener: str) -> int:
        return next(int(each.port) for each in self._config.listeners if each.name == listener)

    def start(self) -> None:
        self.pool.start()
        for each in self._config.listeners:
            self._net.listeners[(each.host, each.port)] = self

    def shutdown(self) -> None:
        for each in self._config.listeners:
            self._net.listeners.pop((each.host, each.port), None)
        for link in list(self._net.links):
            if link.server_process is self.process:
                link.reset()
        self.pool.shutdown()
