"""One client's socket: frames in, frames out, and the bounds of both."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from controller.zk.embedded import codes, words
from controller.zk.embedded.decoding import decode_body, decode_connect, decode_header
from controller.zk.embedded.jute import JuteError
from controller.zk.embedded.machine import Effects, Machine, Moment
from controller.zk.embedded.state import Connection

# A client that does not read what it is sent: beyond the first its requests wait, beyond the second it is cut off.
PAUSE_BYTES = 1 << 20
CUT_OFF_BYTES = 64 << 20
# A record of the type handshake, of any version, which would be a frame too large.
_TLS_HANDSHAKE = b"\x16\x03"


@dataclass(frozen=True, slots=True)
class Settings:
    """Bounds of the server. At `max_connections` further ones are closed, at `max_outstanding` answers of one that wait
    for the disk it is not read from, a frame over `max_frame_bytes` (jute.maxbuffer) ends its connection, and so does
    no first request within `sessionless_timeout_ms`.
    """

    max_connections: int = 10_000
    max_outstanding: int = 1_000
    max_frame_bytes: int = 0xFFFFF
    sessionless_timeout_ms: int = 10_000


class Host(Protocol):
    """What a connection needs of its server."""

    machine: Machine
    settings: Settings
    counters: words.Counters

    def now(self) -> Moment: ...

    def warn(self, text: str) -> None: ...

    def admit(self, client: ClientProtocol) -> bool: ...

    def gone(self, client: ClientProtocol) -> None: ...

    def carry_out(self, effects: Effects) -> None: ...

    def answer_ping(self, client: ClientProtocol, effects: Effects) -> None: ...

    def flush(self) -> None: ...


class ClientProtocol(asyncio.Protocol):
    """What asyncio calls for one connection."""

    def __init__(self, server: Host) -> None:
        self._server = server
        self._unread = bytearray()
        self.transport: asyncio.Transport | None = None
        self.connection: Connection | None = None
        # Answers that wait for the disk.
        self.waiting = 0
        self.outgoing: list[bytes] = []
        self._is_connected = False
        self._is_paused = False
        self._sessionless: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self.connection = Connection(peer[0] if peer else "127.0.0.1")
        transport.set_write_buffer_limits(high=PAUSE_BYTES)
        if not self._server.admit(self):
            transport.abort()
            return
        limit_ms = self._server.settings.sessionless_timeout_ms
        self._sessionless = asyncio.get_running_loop().call_later(limit_ms / 1000, self._end_sessionless)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self._said_something()
        if self.connection is not None:
            self._server.gone(self)

    def _said_something(self) -> None:
        if self._sessionless is not None:
            self._sessionless.cancel()
            self._sessionless = None

    def _end_sessionless(self) -> None:
        self._sessionless = None
        if self.transport is not None:
            self.transport.abort()

    def pause_writing(self) -> None:
        self._reading()

    def resume_writing(self) -> None:
        self._reading()

    def data_received(self, data: bytes) -> None:
        unread = self._unread
        unread += data
        if not self._is_connected and len(unread) >= 4 and self._is_word(bytes(unread[:4])):
            return
        self._work()

    def _work(self) -> None:
        """Handle the frames that are whole."""
        unread, at = self._unread, 0
        limit = self._server.settings.max_frame_bytes
        while len(unread) - at >= 4 and self.transport is not None and not self._is_paused:
            length = int.from_bytes(unread[at : at + 4], "big", signed=True)
            if not 0 <= length <= limit:
                is_tls = not self._is_connected and unread[at : at + 2] == _TLS_HANDSHAKE
                what = "TLS, which the embedded ZooKeeper does not speak," if is_tls else f"a frame of {length} bytes"
                self._server.warn(f"{what} from {self._address()}: closed")
                self.transport.abort()
                break
            if len(unread) - at - 4 < length:
                break
            frame = bytes(unread[at + 4 : at + 4 + length])
            at += 4 + length
            try:
                self._handle(frame)
            except JuteError as error:
                self._server.warn(f"{error} from {self._address()}: closed")
                self.transport.abort()
                break
            if self.waiting >= self._server.settings.max_outstanding:
                self._reading()
        del unread[:at]
        self._server.flush()

    def _handle(self, frame: bytes) -> None:
        assert self.connection is not None
        server = self._server
        now = server.now()
        if not self._is_connected:
            request = decode_connect(frame)
            self._is_connected = True
            self._said_something()
            server.carry_out(server.machine.connect(self.connection, request, now))
            return
        xid, kind = decode_header(frame)
        server.counters.received += 1
        if kind == codes.PING and self.waiting == 0:
            # Nothing of this client waits for the disk, so it need not either.
            server.answer_ping(self, server.machine.handle(self.connection, xid, kind, decode_body(kind, frame), now))
            return
        server.carry_out(server.machine.handle(self.connection, xid, kind, decode_body(kind, frame), now))

    def _is_word(self, word: bytes) -> bool:
        text = words.answer(word, self._server.machine, self._server.counters)
        if text is None or self.transport is None:
            return False
        self.transport.write(text)
        self.transport.close()
        return True

    # -- what the server does with it

    def send(self, frame: bytes) -> None:
        """Written with the others of this round."""
        self.outgoing.append(frame)

    def write_out(self) -> None:
        """Write what was sent; a client that reads too slowly for too long is cut off."""
        if self.transport is None:
            self.outgoing.clear()
            return
        self.transport.write(b"".join(self.outgoing))
        self.outgoing.clear()
        if self.transport.get_write_buffer_size() > CUT_OFF_BYTES:
            self._server.warn(f"{self._address()} does not read what it is sent: cut off")
            self.transport.abort()
        self._reading()

    def close(self) -> None:
        """After everything that was sent."""
        if self.transport is not None:
            self.transport.write(b"".join(self.outgoing))
            self.outgoing.clear()
            self.transport.close()

    def _reading(self) -> None:
        """Read on, or not: too many answers wait for the disk or for the client."""
        if self.transport is None or self.transport.is_closing():
            return
        full = (
            self.waiting >= self._server.settings.max_outstanding
            or self.transport.get_write_buffer_size() > PAUSE_BYTES
        )
        if full and not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()
        elif not full and self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()
            if self._unread:
                asyncio.get_running_loop().call_soon(self._work)

    def _address(self) -> str:
        return self.connection.address if self.connection is not None else "?"
