"""Bytes in and out of one connection: the seam where TLS goes in.

The processor only sees this protocol. All calls are non-blocking: they raise `BlockingIOError` when the socket must
be waited for, and another `OSError` when the connection is lost.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from typing import Protocol

# Linux joins what follows to what was sent; elsewhere two packets may leave.
_MORE = getattr(socket, "MSG_MORE", 0)


class Transport(Protocol):
    """One non-blocking byte stream."""

    handshake_done: bool
    buffers_input: bool
    """Whether received bytes may lie in the transport where the socket no longer announces them."""
    supports_sendfile: bool
    """False where the bytes must be seen on their way (TLS); file ranges are then read and sent as buffers."""
    principal: str | None
    """Who the peer proved to be in the handshake; None where the transport does not authenticate."""
    recv_into: Callable[[memoryview], int]
    """Fill the buffer as far as bytes have come; 0 when the peer has closed its side."""
    send: Callable[[bytes | bytearray | memoryview], int]
    """Bytes that were taken; less than offered when the peer reads slowly."""

    def fileno(self) -> int: ...

    def handshake(self) -> None:
        """Go on with the handshake until `handshake_done`; raises BlockingIOError while the peer's turn lasts."""
        ...

    @property
    def wants_write(self) -> bool:
        """Whether the handshake waits for the socket to take bytes (it waits for bytes to come otherwise)."""
        ...

    def pending(self) -> bool:
        """Whether the transport holds such bytes now."""
        ...

    def sendmsg(self, parts: Sequence[bytes | bytearray | memoryview], more: bool) -> int:
        """Write from several buffers at once; `more` says that other bytes of this response follow at once."""
        ...

    def sendfile(self, fd: int, position: int, count: int) -> int:
        """Bytes sent from the file; 0 when the file ends before `position`."""
        ...

    def close(self) -> None: ...


TransportFactory = Callable[[socket.socket], Transport]


class PlaintextTransport:
    """The socket itself."""

    __slots__ = (
        "_fd",
        "_socket",
        "buffers_input",
        "handshake_done",
        "principal",
        "recv_into",
        "send",
        "supports_sendfile",
    )

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._fd = sock.fileno()
        self.handshake_done = True
        self.buffers_input = False
        self.supports_sendfile = True
        self.principal: str | None = None
        self.recv_into: Callable[[memoryview], int] = sock.recv_into
        self.send: Callable[[bytes | bytearray | memoryview], int] = sock.send

    def fileno(self) -> int:
        return self._fd

    def handshake(self) -> None:
        pass

    @property
    def wants_write(self) -> bool:
        return False

    def pending(self) -> bool:
        return False

    def sendmsg(self, parts: Sequence[bytes | bytearray | memoryview], more: bool) -> int:
        return self._socket.sendmsg(parts, [], _MORE if more else 0)

    def sendfile(self, fd: int, position: int, count: int) -> int:
        return os.sendfile(self._fd, fd, position, count)

    def close(self) -> None:
        self._socket.close()
