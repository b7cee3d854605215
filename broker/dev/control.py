"""How a program steers its cluster: lines of JSON over a connection on the loopback interface.

A client's first line is the token that the supervisor was started with. Then it sends ``{"do": NAME, ...}`` and waits
for ``{"ok": ANSWER}`` or ``{"error": TEXT}``. A connection is also what keeps the cluster alive: when the last one
has gone, its owners have ended, however they ended, and the cluster ends too.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import selectors
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from network.json_text import parse_json

MAX_CONNECTIONS = 256
MAX_LINE = 1 << 20
# Who starts a supervisor connects to it at once.
FIRST_CONNECTION_MS = 30_000
_SEND_TIMEOUT_S = 10.0


class _Connection:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.is_known = False
        self.buffer = bytearray()

    def leave(self) -> None:
        """It keeps the cluster alive no longer; it is still answered, and its socket is open until the end."""
        self.is_known = False


class ControlServer:
    """Used from one thread. Its sockets are registered with ``selector``; whoever selects hands the keys to `serve`."""

    def __init__(self, token: str, selector: selectors.BaseSelector) -> None:
        self._token = token.encode()
        self._selector = selector
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=MAX_CONNECTIONS)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._connections: dict[int, _Connection] = {}
        self._requests: deque[tuple[_Connection, dict[str, Any]]] = deque()
        self.had_client = False

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def has_client(self) -> bool:
        """Whether somebody who knows the token is connected."""
        return any(connection.is_known for connection in self._connections.values())

    def serve(self, keys: list[selectors.SelectorKey]) -> None:
        """Accept, read, notice who has gone. Complete requests wait for `answer_all`."""
        for key in keys:
            if key.fileobj is self._listener:
                self._accept()
            elif (connection := self._connections.get(key.fd)) is not None:
                self._read(connection)

    def answer_all(self, answer: Callable[[dict[str, Any], Callable[[], None]], dict[str, Any]]) -> None:
        """One answer to each request that has come, in order. ``answer`` is given the request, and what lets its sender
        leave."""
        while self._requests:
            connection, request = self._requests.popleft()
            if connection.sock.fileno() < 0:
                continue
            try:
                connection.sock.sendall(json.dumps(answer(request, connection.leave)).encode() + b"\n")
            except OSError:
                self._drop(connection)

    def close(self) -> None:
        """Close everything."""
        for connection in list(self._connections.values()):
            self._drop(connection)
        self._selector.unregister(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._listener.accept()
            if len(self._connections) >= MAX_CONNECTIONS:
                sock.close()
                return
            sock.settimeout(_SEND_TIMEOUT_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections[sock.fileno()] = _Connection(sock)
            self._selector.register(sock, selectors.EVENT_READ)

    def _read(self, connection: _Connection) -> None:
        try:
            chunk = connection.sock.recv(65_536)
        except OSError:
            chunk = b""
        connection.buffer += chunk
        if not chunk or len(connection.buffer) > MAX_LINE:
            self._drop(connection)
            return
        while (end := connection.buffer.find(b"\n")) >= 0:
            line = bytes(connection.buffer[:end])
            del connection.buffer[: end + 1]
            if not self._take(connection, line):
                self._drop(connection)
                return

    def _take(self, connection: _Connection, line: bytes) -> bool:
        """False for a client that does not know the token or the language."""
        if not connection.is_known:
            connection.is_known = hmac.compare_digest(line, self._token)
            self.had_client = self.had_client or connection.is_known
            return connection.is_known
        try:
            request = parse_json(line)
        except ValueError:
            return False
        if not isinstance(request, dict):
            return False
        self._requests.append((connection, request))
        return True

    def _drop(self, connection: _Connection) -> None:
        fd = connection.sock.fileno()
        if self._connections.pop(fd, None) is not None:
            self._selector.unregister(connection.sock)
        connection.sock.close()
