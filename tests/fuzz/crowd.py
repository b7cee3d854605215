"""Very many connections of one process, each of them idle, slow or gone again."""

from __future__ import annotations

import contextlib
import resource
import selectors
import socket
from collections.abc import Callable, Iterator
from types import TracebackType

from network.protocol.header import RequestHeader, encode_request
from tests.support import wire
from tests.support.cluster import CLOCK, HOST

ADDRESSES = 100
"""Of this machine, from which they come, so that ports suffice."""
QUESTION = encode_request(RequestHeader(18, 3, 1, "crowd"), wire.ASK_VERSIONS)
SMALL_BUFFER = 4096
"""Of those who do not read, so that the broker's side fills and not theirs."""
PATIENCE_S = 120.0


def allow_descriptors(count: int) -> None:
    """Let this process have so many beyond those it needs anyway. Raises ValueError if the system forbids it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 500
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))


class Crowd:
    """Connections to one port; all are closed at the end."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.sockets: list[socket.socket] = []

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for sock in self.sockets:
            sock.close()

    def enter(self, count: int, *, receive_buffer: int = 0, address: str | None = None) -> None:
        """So many more, one after the other."""
        for _ in range(count):
            number = len(self.sockets)
            sock = socket.socket()
            self.sockets.append(sock)
            if receive_buffer:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            sock.bind((address or f"127.0.0.{2 + number % ADDRESSES}", 0))
            sock.settimeout(PATIENCE_S)
            sock.connect((HOST, self._port))

    def say(self, data: bytes) -> None:
        """To all, who must have room for it; one that the broker has closed is passed over."""
        for sock in self.sockets:
            with contextlib.suppress(ConnectionError):
                sock.sendall(data)

    def heard(self, patience_s: float = PATIENCE_S) -> int:
        """How many have got an answer when no more have for so long; it is taken from the socket."""
        return sum(1 for _, data in self._hear(bool, patience_s) if data is not None)

    def closed(self, patience_s: float) -> int:
        """How many the broker has closed when no more are for so long."""
        return sum(1 for _, data in self._hear(lambda data: False, patience_s) if data is None)

    def _hear(
        self, enough: Callable[[bytes], bool], patience_s: float = PATIENCE_S
    ) -> Iterator[tuple[socket.socket, bytes | None]]:
        """Each with its bytes once they are enough, or None when it is closed; ends when nothing comes for so long."""
        had: dict[socket.socket, bytes] = dict.fromkeys(self.sockets, b"")
        with selectors.DefaultSelector() as selector:
            for each in self.sockets:
                selector.register(each, selectors.EVENT_READ, each)
            while selector.get_map():
                ready = selector.select(patience_s)
                if not ready:
                    return
                for key, _ in ready:
                    sock: socket.socket = key.data
                    data = b""
                    with contextlib.suppress(ConnectionError):
                        data = sock.recv(65536)
                    had[sock] += data
                    if not data or enough(had[sock]):
                        selector.unregister(sock)
                        yield sock, had[sock] if data else None


def storm(port: int, seconds: float) -> int:
    """Connect, ask and go, again and again; returns how often an answer came."""
    answered = 0
    until = CLOCK.monotonic_ms() + seconds * 1000
    while CLOCK.monotonic_ms() < until:
        with Crowd(port) as crowd:
            crowd.enter(100)
            crowd.say(QUESTION)
            answered += crowd.heard()
    return answered
