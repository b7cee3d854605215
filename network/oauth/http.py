"""One POST over HTTP, bounded in time and bytes, for an answer of a few kilobytes.

`http.client` with a socket whose deadline is that of the whole answer: its own time-out is one of each byte, so a
server could hold a login for as long as it likes. No proxy is used and no redirection followed: a secret is sent where
it was meant to go, or nowhere.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from timer.clock import Clock

MAX_BYTES = 128 << 10


class Answer(NamedTuple):
    """Status and body."""

    status: int
    body: bytes

    def __repr__(self) -> str:
        return f"Answer({self.status})"


class Timeouts(NamedTuple):
    """Milliseconds: to connect, with the handshake of TLS, and from the request to the end of the answer."""

    connect_ms: int
    read_ms: int


def post(
    url: str, headers: Mapping[str, str], body: bytes, tls: ssl.SSLContext | None, timeouts: Timeouts, clock: Clock
) -> Answer:
    """Raises OSError, also for an answer that is none or too large. `tls` is for `https:`, and needed there."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    deadline = clock.monotonic_ms() + timeouts.connect_ms
    sock: socket.socket = socket.create_connection((host, port), timeouts.connect_ms / 1000)
    try:
        if secure:
            assert tls is not None
            sock.settimeout(_left(deadline, clock))
            sock = tls.wrap_socket(sock, server_hostname=host)
        deadline = clock.monotonic_ms() + timeouts.read_ms
        connection = http.client.HTTPConnection(host, port)
        connection.sock = _Bounded(sock, deadline, clock)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body, dict(headers))
        answer = connection.getresponse()
        data = answer.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise OSError(f"the answer has more than {MAX_BYTES} bytes")
        return Answer(answer.status, data)
    except http.client.HTTPException as error:
        raise OSError(f"the answer is no HTTP: {type(error).__name__}") from None
    finally:
        sock.close()


def _left(deadline_ms: int, clock: Clock) -> float:
    left = deadline_ms - clock.monotonic_ms()
    if left <= 0:
        raise TimeoutError("timed out")
    return left / 1000


class _Bounded:
    """What `http.client` needs of a socket, with one deadline for everything."""

    def __init__(self, sock: socket.socket, deadline_ms: int, clock: Clock) -> None:
        self._socket = sock
        self._deadline_ms = deadline_ms
        self._clock = clock

    def sendall(self, data: bytes) -> None:
        self._socket.settimeout(_left(self._deadline_ms, self._clock))
        self._socket.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        assert mode == "rb"
        return io.BufferedReader(_Reader(self._socket, self._deadline_ms, self._clock))

    def close(self) -> None:
        """The socket is closed by who made it."""


class _Reader(io.RawIOBase):
    def __init__(self, sock: socket.socket, deadline_ms: int, clock: Clock) -> None:
        self._socket = sock
        self._deadline_ms = deadline_ms
        self._clock = clock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._socket.settimeout(_left(self._deadline_ms, self._clock))
        return self._socket.recv_into(buffer)
