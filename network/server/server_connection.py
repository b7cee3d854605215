"""The state of one accepted connection, owned by its processor's thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from network.server.mute import NOT_MUTED
from network.server.outbox import Outbox

if TYPE_CHECKING:
    from network.server.authenticator import Authenticator
    from network.server.connection_info import ConnectionInfo
    from network.server.file_range import FileRange
    from network.server.request import Request
    from network.server.transport import Transport

# Reasons not to read from a connection besides its mute state; bits of `hold`.
HOLD_MEMORY: Final = 1  # the memory pool is empty
HOLD_OUTPUT: Final = 2  # the peer is slow to take its answers
HOLD_CLOSING: Final = 4  # it is closed as soon as its last answer is out
HOLD_DRAINING: Final = 8  # the server stops


class ServerConnection:
    """Buffers, mute state and pending output of a connection. Only its processor touches it."""

    __slots__ = (
        "address",
        "ahead",
        "ahead_at",
        "authenticator",
        "body",
        "body_pooled",
        "buffers_input",
        "closed",
        "fd",
        "filled",
        "hold",
        "in_service",
        "info",
        "last_active_ns",
        "mute_state",
        "outbox",
        "reading",
        "recv_into",
        "request",
        "rest",
        "send",
        "throttle",
        "transport",
        "unsent",
        "warming",
        "writing",
    )

    def __init__(self, info: ConnectionInfo, transport: Transport, address: str, now_ns: int) -> None:
        self.info = info
        self.transport = transport
        self.buffers_input = transport.buffers_input
        self.recv_into = transport.recv_into
        self.send = transport.send
        self.fd = transport.fileno()
        self.address = address
        self.authenticator: Authenticator | None = None
        self.mute_state = NOT_MUTED
        self.hold = 0
        self.last_active_ns = now_ns
        # Input: bytes that came together with an earlier request, fewer than four bytes of a size, or a part of a body.
        self.ahead: memoryview | None = None
        self.ahead_at = 0
        self.rest = b""
        self.body: memoryview | None = None
        self.body_pooled = 0
        self.filled = 0
        # Output.
        self.outbox = Outbox()
        self.unsent: list[Request] = []  # answered, not yet written in full
        self.warming: FileRange | None = None
        # Service.
        self.request: Request | None = None  # handed over, not yet answered
        self.in_service = False  # the reader's serving loop is at work on this connection
        self.throttle: asyncio.TimerHandle | None = None
        self.reading = False  # registered with the loop
        self.writing = False
        self.closed = False
