"""A TCP proxy before a broker that loses, holds back, repeats and breaks off answers to Produce requests."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from tests.support.cluster import HOST

# lost: the broker has done it, the client sees the connection end. cut: the same, in the middle of the answer.
# held: the answer comes after the client's patience. repeated: it comes twice. torn: half of the request arrives.
Mishap = Literal["lost", "cut", "held", "repeated", "torn"]

_PRODUCE = 0
_HEADER = struct.Struct(">hhi")


class FaultyProxy:
    """Listens on a port of its own and forwards frames; what happens to which is drawn from a seed."""

    def __init__(self, target_port: int, rates: Mapping[Mishap, float], hold_s: float, seed: int) -> None:
        self.happened: Counter[Mishap] = Counter()
        self._target_port = target_port
        self._rates = dict(rates)
        self._hold_s = hold_s
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def close(self) -> None:
        """End all connections and threads."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            ends = list(self._open)
        for end in ends:
            _shut(end)
        for thread in self._threads:
            thread.join(10)

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
                broker = socket.create_connection((HOST, self._target_port), 10)
            except OSError:
                continue
            broker.settimeout(None)
            for end in (client, broker):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open |= {client, broker}
            produces: set[int] = set()
            self._start(self._requests, client, broker, produces)
            self._start(self._answers, client, broker, produces)

    def _draw(self, *possible: Mishap) -> Mishap | None:
        with self._lock:
            number = self._random.random()
            for mishap in possible:
                rate = self._rates.get(mishap, 0.0)
                if number < rate:
                    self.happened[mishap] += 1
                    return mishap
                number -= rate
        return None

    def _requests(self, client: socket.socket, broker: socket.socket, produces: set[int]) -> None:
        with self._ending(client, broker):
            while (frame := _read_frame(client)) is not None:
                key, _, correlation_id = _HEADER.unpack_from(frame, 4)
                if key == _PRODUCE:
                    if self._draw("torn") is not None:
                        broker.sendall(frame[: len(frame) // 2])
                        return
                    produces.add(correlation_id)
                broker.sendall(frame)

    def _answers(self, client: socket.socket, broker: socket.socket, produces: set[int]) -> None:
        with self._ending(client, broker):
            while (frame := _read_frame(broker)) is not None:
                (correlation_id,) = struct.unpack_from(">i", frame, 4)
                mishap = None
                if correlation_id in produces:
                    produces.discard(correlation_id)
                    mishap = self._draw("lost", "cut", "held", "repeated")
                if mishap == "lost":
                    return
                if mishap == "cut":
                    client.sendall(frame[: len(frame) // 2])
                    return
                if mishap == "held":
                    # Everything behind it waits too, as on a real connection.
                    self._closed.wait(self._hold_s)
                client.sendall(frame)
                if mishap == "repeated":
                    client.sendall(frame)

    @contextlib.contextmanager
    def _ending(self, *ends: socket.socket) -> Iterator[None]:
        """Both ends of the connection end with either direction."""
        try:
            with contextlib.suppress(OSError):
                yield
        finally:
            for end in ends:
                _shut(end)
            with self._lock:
                self._open -= set(ends)


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def _read_frame(end: socket.socket) -> bytes | None:
    """A whole frame with its size; None at the end of the stream."""
    size = _read(end, 4)
    if size is None:
        return None
    body = _read(end, struct.unpack(">i", size)[0])
    return None if body is None else size + body


def _read(end: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = end.recv(min(count - len(parts), 1 << 16))
        if not part:
            return None
        parts += part
    return bytes(parts)
