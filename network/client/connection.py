"""One connection to a broker, for brokers and tools: a blocking one and one for asyncio.

Both send requests in the order of the calls and take responses in the same order, since a broker answers a connection
strictly in order. Neither retries: a failure closes the connection and raises `ConnectionFailed`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from network.protocol.errors import ProtocolError
from network.protocol.header import RequestHeader, decode_response, encode_request_parts

if TYPE_CHECKING:
    from network.protocol.message import Request, Response
    from timer.clock import Clock

MAX_RESPONSE_BYTES = 256 << 20
_MAX_CORRELATION_ID = 2147483647
_IOV_MAX = 64


class Session(Protocol):
    """An authentication that holds for a while only (KIP-368)."""

    def is_due(self) -> bool:
        """Whether the next request had better be preceded by another one."""
        ...

    def renew(self, sock: socket.socket) -> None:
        """Authenticate again, within the socket's time-out and while no answer is awaited. Raises OSError."""
        ...


class Secured(NamedTuple):
    """What a wrapper has made of a socket, and what has to be renewed on it."""

    socket: socket.socket
    session: Session


SocketWrapper = Callable[[socket.socket, str], socket.socket | Secured]


class ConnectionFailed(OSError):
    """The connection could not be made, was lost, or was closed by `close`."""


class AuthenticationFailed(ConnectionFailed):
    """The broker does not take our credentials, or we not its answer: trying again is of no use."""


class RequestTimedOut(ConnectionFailed):
    """No answer came in time; the connection is closed, because a late answer would be taken for the next one."""


class CorrelationIds:
    """Counts from 0. May be shared by successive connections of one channel: a reconnect goes on counting."""

    def __init__(self) -> None:
        self._next = 0

    def take(self) -> int:
        value = self._next
        self._next = 0 if value == _MAX_CORRELATION_ID else value + 1
        return value


class Connection:
    """A blocking connection; it connects at once.

    One thread at a time may send and one may receive. `close` may be called from any thread and wakes a call that
    blocks, which then raises `ConnectionFailed`. Times are milliseconds. `wrap` is the seam for TLS and SASL: it gets
    the connected socket and the host, and returns the socket to use. What it made expire is renewed before the first
    request after its time at which no other is in flight: nobody else uses the socket then.
    """

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        clock: Clock,
        connect_timeout_ms: int = 10_000,
        socket_timeout_ms: int = 30_000,
        *,
        correlation_ids: CorrelationIds | None = None,
        wrap: SocketWrapper | None = None,
        receive_buffer_bytes: int = -1,
    ) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self._clock = clock
        self._socket_timeout_ms = socket_timeout_ms
        self._ids = correlation_ids or CorrelationIds()
        self._in_flight: deque[RequestHeader] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._users = 0
        self._head = memoryview(bytearray(4))
        self._session: Session | None = None
        try:
            self._socket = _connect(host, port, connect_timeout_ms, receive_buffer_bytes)
            if wrap is not None:
                self._socket, self._session = _wrapped(self._socket, host, wrap)
        except AuthenticationFailed as error:
            raise AuthenticationFailed(f"{host}:{port}: {error}") from None
        except OSError as error:
            raise ConnectionFailed(f"cannot connect to {host}:{port}: {error}") from error

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def in_flight(self) -> int:
        """Requests sent and not yet answered."""
        return len(self._in_flight)

    def send_request(self, message: Request, version: int, *, answered: bool = True) -> int:
        """Send and return the correlation id. `answered` is False for a request without response (acks=0)."""
        with self._in_use():
            if self._session is not None and not self._in_flight and self._session.is_due():
                self._renew(self._session)
            header = RequestHeader(message.API_KEY, version, self._ids.take(), self.client_id)
            parts: list[Any] = list(encode_request_parts(header, message))
            if answered:
                self._in_flight.append(header)
            deadline = self._clock.monotonic_ms() + self._socket_timeout_ms
            try:
                self._send_all(parts, deadline)
            except OSError as error:
                self._fail(error)
            return header.correlation_id

    def receive_response(self, timeout_ms: int | None = None) -> Response:
        """The answer to the oldest request in flight. Raises `ConnectionFailed`, `ProtocolError` for bad bytes."""
        if not self._in_flight:
            raise ValueError("no request is in flight")
        limit = self._socket_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self._clock.monotonic_ms() + limit
        with self._in_use():
            try:
                self._receive_into(self._head, deadline)
                size = int.from_bytes(self._head, "big", signed=True)
                if not 4 <= size <= MAX_RESPONSE_BYTES:
                    raise ProtocolError(f"{self.host}:{self.port} announced a response of {size} bytes")
                frame = memoryview(bytearray(size))
                self._receive_into(frame, deadline)
                return decode_response(self._in_flight.popleft(), frame)
            except OSError as error:
                self._fail(error)
            except BaseException:
                self.close()
                raise

    def call(self, message: Request, version: int, timeout_ms: int | None = None) -> Any:
        """Send one request and return its answer; no other request may be in flight."""
        if self._in_flight and not self._closed:
            raise ValueError("other requests are in flight")
        self.send_request(message, version)
        return self.receive_response(timeout_ms)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            # Shutting down, unlike closing, wakes a thread that is blocked in a call of this socket.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            if not self._users:
                self._socket.close()

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        """Keeps the descriptor until the block is over, also where another thread calls `close` meanwhile: a thread on
        its way into a system call would else wait on whatever has the number next. Raises `ConnectionFailed`."""
        with self._lock:
            if self._closed:
                raise ConnectionFailed(f"connection to {self.host}:{self.port} is closed")
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._closed and not self._users:
                    self._socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _renew(self, session: Session) -> None:
        try:
            self._socket.settimeout(self._socket_timeout_ms / 1000)
            session.renew(self._socket)
        except AuthenticationFailed as error:
            self.close()
            raise AuthenticationFailed(f"{self.host}:{self.port}: {error}") from None
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> NoReturn:
        was_closed = self._closed
        self.close()
        where = f"{self.host}:{self.port}"
        if isinstance(error, TimeoutError):
            raise RequestTimedOut(f"{where} did not answer in time") from error
        raise ConnectionFailed(f"connection to {where} was closed" if was_closed else f"{where}: {error}") from error

    def _wait_limit(self, deadline_ms: int) -> None:
        left = deadline_ms - self._clock.monotonic_ms()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left / 1000)

    def _send_all(self, parts: list[Any], deadline_ms: int) -> None:
        while parts:
            self._wait_limit(deadline_ms)
            sent = self._socket.send(parts[0]) if len(parts) == 1 else self._socket.sendmsg(parts[:_IOV_MAX])
            while parts and sent >= len(parts[0]):
                sent -= len(parts.pop(0))
            if sent:
                parts[0] = memoryview(parts[0])[sent:]

    def _receive_into(self, buffer: memoryview, deadline_ms: int) -> None:
        filled = 0
        while filled < len(buffer):
            self._wait_limit(deadline_ms)
            count = self._socket.recv_into(buffer[filled:])
            if count == 0:
                raise ConnectionResetError("closed by the peer")
            filled += count


def _wrapped(sock: socket.socket, host: str, wrap: SocketWrapper) -> tuple[socket.socket, Session | None]:
    """Closes what it cannot secure."""
    try:
        made = wrap(sock, host)
        return made if isinstance(made, Secured) else (made, None)
    except BaseException:
        sock.close()
        raise


def _connect(host: str, port: int, timeout_ms: int, receive_buffer_bytes: int) -> socket.socket:
    """Connect to the first address of `host` that answers."""
    last: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(timeout_ms / 1000)
            if receive_buffer_bytes != -1:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return sock
        except OSError as error:
            sock.close()
            last = error
    raise last or OSError("no address")
