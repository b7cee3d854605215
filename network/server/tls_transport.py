"""TLS on an accepted socket, without blocking.

OpenSSL works on two buffers in memory; this moves bytes between them and the socket in as large pieces as there are:
one `recv` may bring many records, and the records of a large answer leave by one `send`.

Bytes that were encrypted must go out before others are, yet the socket may take only some of them. Then the last byte
of what was offered is not reported as taken, so that the caller comes again; it has been encrypted, and is left out
when it is offered once more.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

HANDSHAKE_BYTES: Final = 128 << 10
"""What a peer may send before the handshake is done; more ends it. A chain of certificates fits many times."""

_RECORD: Final = 16 << 10
_RECEIVE: Final = 64 << 10
_RECEIVE_MUCH: Final = 512 << 10
_ENCRYPT: Final = 256 << 10
_UNREAD: Final = 64 << 10

PrincipalOf = Callable[[bytes], str]
"""From the DER of the peer's certificate to `Type:name`; raises OSError when it has no name."""


class HandshakeFailed(ConnectionError):
    """The peer does not speak TLS, or not in a way that is accepted."""


class TlsTransport:
    """The server's side. OpenSSL's state is made when the first byte comes: silent connections cost none."""

    __slots__ = (
        "_context",
        "_encrypted",
        "_handshake_bytes",
        "_incoming",
        "_outgoing",
        "_owed",
        "_principal_of",
        "_receive",
        "_session",
        "_socket",
        "_unsent",
        "buffers_input",
        "handshake_done",
        "principal",
        "recv_into",
        "send",
        "supports_sendfile",
    )

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, principal_of: PrincipalOf) -> None:
        self._socket = sock
        self._context = context
        self._principal_of = principal_of
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session: ssl.SSLObject | None = None
        self._handshake_bytes = 0
        self._receive = _RECEIVE
        self._unsent: bytes | memoryview = b""  # encrypted, and not yet taken by the socket
        self._owed = 0  # bytes at the head of the next offer that lie in `_unsent` already
        self.handshake_done = False
        self.buffers_input = True
        self.supports_sendfile = True
        self.principal: str | None = None
        self.recv_into: Callable[[memoryview], int] = self._recv_into
        self.send: Callable[[bytes | bytearray | memoryview], int] = self._send

    def fileno(self) -> int:
        return self._socket.fileno()

    # -- handshake -----------------------------------------------------------------------------------------------

    def handshake(self) -> None:
        self._flush()
        while True:
            try:
                if self._session is not None:
                    self._session.do_handshake()
                    break
            except ssl.SSLWantReadError:
                self._take_out()
                self._flush()
            except ssl.SSLError as error:
                self._take_out()
                with contextlib.suppress(OSError):
                    self._flush()  # the alert says to the peer what is wrong
                raise HandshakeFailed(f"SSL handshake failed: {error.reason or error}") from None
            data = self._socket.recv(_RECEIVE)
            if not data:
                raise HandshakeFailed("SSL handshake failed: closed by the peer")
            if self._session is None:
                self._session = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
            self._handshake_bytes += len(data)
            if self._handshake_bytes > HANDSHAKE_BYTES:
                raise HandshakeFailed(f"SSL handshake failed: more than {HANDSHAKE_BYTES} bytes")
            self._incoming.write(data)
        assert self._session is not None
        self._take_out()
        certificate = self._session.getpeercert(binary_form=True)
        if certificate is not None:
            self.principal = self._principal_of(certificate)
        self.handshake_done = True
        with contextlib.suppress(BlockingIOError):  # tickets of the session may go out with the first answer
            self._flush()

    @property
    def wants_write(self) -> bool:
        return bool(self._unsent)

    # -- input ---------------------------------------------------------------------------------------------------

    def pending(self) -> bool:
        return self._incoming.pending > 0 or (self._session is not None and self._session.pending() > 0)

    def _recv_into(self, buffer: memoryview) -> int:
        session = self._session
        if session is None:
            raise ConnectionError("the connection is closed")
        incoming, size = self._incoming, len(buffer)
        got = 0
        try:
            while got < size:
                try:
                    count = session.read(size - got, buffer[got:])
                except ssl.SSLWantReadError:
                    if self._outgoing.pending:
                        self._answer()
                    if got:
                        break
                    self._fill()
                    continue
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    break
                assert isinstance(count, int)
                got += count
                if not count or not (incoming.pending or session.pending()):
                    break
        except ssl.SSLError as error:
            raise ConnectionError(f"TLS failed: {error.reason or error}") from None
        return got

    def _fill(self) -> None:
        """Take what the socket has; more at once while it has much."""
        data = self._socket.recv(self._receive)
        if data:
            self._incoming.write(data)
            self._receive = _RECEIVE_MUCH if len(data) >= _RECEIVE else _RECEIVE
        else:
            self._incoming.write_eof()

    def _answer(self) -> None:
        """Send what OpenSSL has to say while it reads (new keys, a renegotiation refused). Such bytes do not pile up
        for a peer that does not take them."""
        self._take_out()
        with contextlib.suppress(BlockingIOError):
            self._flush()
        if len(self._unsent) > _UNREAD and not self._owed:
            raise ConnectionError("the peer takes no answers of TLS itself")

    # -- output --------------------------------------------------------------------------------------------------

    def _send(self, data: bytes | bytearray | memoryview) -> int:
        session = self._session
        if session is None:
            raise ConnectionError("the connection is closed")
        self._flush()
        view = memoryview(data)
        at, self._owed = self._owed, 0
        end = min(len(view), _ENCRYPT)
        try:
            while at < end:
                at += session.write(view[at : min(end, at + _RECORD)])
        except ssl.SSLError as error:
            raise ConnectionError(f"TLS failed: {error.reason or error}") from None
        self._take_out()
        try:
            self._flush()
        except BlockingIOError:
            self._owed = 1
            if end <= 1:
                raise
            return end - 1
        return end

    def sendmsg(self, parts: Sequence[bytes | bytearray | memoryview], more: bool) -> int:
        """As many of the parts as are encrypted at once; they are joined for it."""
        joined: list[bytes | bytearray | memoryview] = []
        size = 0
        for part in parts:
            joined.append(part)
            size += len(part)
            if size >= _ENCRYPT:
                break
        return self._send(b"".join(joined))

    def sendfile(self, fd: int, position: int, count: int) -> int:
        """The file's bytes have to be read to be encrypted; the caller has seen to it that they are cached."""
        sent = 0
        while sent < count:
            data = os.pread(fd, min(count - sent, _ENCRYPT), position + sent)
            if not data:
                break
            try:
                taken = self._send(data)
            except BlockingIOError:
                if sent:
                    break
                raise
            sent += taken
            if taken < len(data):
                break
        return sent

    def _take_out(self) -> None:
        """What OpenSSL has written, behind what is still unsent."""
        if self._outgoing.pending:
            data = self._outgoing.read()
            self._unsent = b"".join((self._unsent, data)) if self._unsent else data

    def _flush(self) -> None:
        """Raises BlockingIOError while the socket does not take everything."""
        unsent = self._unsent
        while unsent:
            sent = self._socket.send(unsent)
            if sent == len(unsent):
                break
            unsent = self._unsent = memoryview(unsent)[sent:]
        self._unsent = b""

    def close(self) -> None:
        if self.handshake_done and self._session is not None and not self._unsent:
            with contextlib.suppress(OSError, ValueError):
                with contextlib.suppress(ssl.SSLError):
                    self._session.unwrap()  # says to the peer that nothing was cut off
                self._take_out()
                self._flush()
        self._socket.close()
        # OpenSSL's state goes now. The bound methods make a circle that only a collection of garbage would find, and
        # that comes late: until then every connection that is gone would hold some 45 KB.
        self._session = None
        self.recv_into, self.send = self._socket.recv_into, self._socket.send
