"""From the bytes of a connection to its next request, and that to whoever serves it."""

from __future__ import annotations

import logging
import struct
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from network.protocol.api import API, ApiKey
from network.protocol.errors import ProtocolError
from network.protocol.header import decode_request_header
from network.server import mute
from network.server.authenticator import SessionExpired
from network.server.body_buffers import BodyBuffers
from network.server.handler_pool import Handler, run_request
from network.server.inline import InlineRule
from network.server.mute import NOT_MUTED, TRANSITIONS
from network.server.refusal import unserved
from network.server.request import Request
from network.server.request_channel import RequestChannel
from network.server.response_writer import ANSWERED
from network.server.server_connection import HOLD_CLOSING, HOLD_MEMORY, HOLD_OUTPUT, ServerConnection
from timer.news import News

if TYPE_CHECKING:
    from network.protocol.header import RequestHeader
    from network.server.connection_table import ConnectionTable
    from network.server.memory_pool import MemoryPool
    from network.server.response_writer import ResponseWriter
    from timer.clock import Clock

logger = logging.getLogger(__name__)

_SCRATCH_BYTES = 64 << 10
_LAZY_BODY_BYTES = 4 << 20
_LAZY_STRANGER_BYTES = 16 << 10
_COALESCE_REQUESTS = 64
_HANDED_OVER: Final = TRANSITIONS[mute.REQUEST_RECEIVED][TRANSITIONS[mute.MUTE][NOT_MUTED]]
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_SIZE: Final = struct.Struct(">i").unpack_from


class RequestReader:
    """Reads one processor's connections; used from its thread only.

    Small requests are read with whatever came with them, in one call; a body that has not come in full gets a buffer
    of the announced size and is received straight into it. Muting is lazy: most clients send nothing before they have
    their answer, so a connection stays registered with the loop until bytes come that may not be read yet.
    """

    def __init__(
        self,
        table: ConnectionTable,
        writer: ResponseWriter,
        channel: RequestChannel,
        handler: Handler,
        *,
        inline: InlineRule,
        memory_pool: MemoryPool | None,
        clock: Clock,
        max_request_bytes: int,
    ) -> None:
        self.expired_sessions = 0
        self.authentications = 0
        self.failed_authentications = 0
        self.reauthentications = 0
        self.failed_reauthentications = 0
        self._table = table
        self._writer = writer
        self._channel = channel
        self._handler = handler
        self._inline = inline
        self._inline_apis = inline.apis
        self._memory_pool = memory_pool
        self._now = clock.monotonic_ns
        self._unserved = News(clock)
        self._max_request_bytes = max_request_bytes
        self._bodies = BodyBuffers()
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        # A read of up to this many bytes may be served without a look at the limits.
        self._short = 4 + min(_SCRATCH_BYTES, max_request_bytes) if memory_pool is None else 0
        self._hungry: OrderedDict[ServerConnection, None] = OrderedDict()  # refused by the memory pool

    # -- bytes ---------------------------------------------------------------------------------------------------

    def on_readable(self, connection: ServerConnection) -> None:
        """The loop says that bytes have come, or that the peer has closed."""
        if connection.mute_state != NOT_MUTED or connection.hold or connection.ahead is not None:
            self._table.stop_reading(connection)  # until `resume`
            return
        try:
            while True:
                if connection.body is not None:
                    self._read_body(connection, connection.body)
                elif connection.transport.handshake_done:
                    self._read(connection)
                else:
                    self._handshake(connection)
                if not connection.buffers_input or not self._has_more(connection):
                    break
        except BlockingIOError:
            pass
        except OSError as error:
            self._table.close(connection, f"lost: {error}", logging.DEBUG)
        except Exception:
            logger.exception("closing %s", connection.info.id)
            self._table.close(connection)

    def resume(self, connection: ServerConnection) -> None:
        """The connection may be read again: first what has been read ahead, then the socket."""
        if connection.closed or connection.in_service or connection.mute_state != NOT_MUTED or connection.hold:
            return
        try:
            if connection.ahead is not None:
                self._table.touch(connection, self._now())
                self._serve(connection)
        except Exception:
            logger.exception("closing %s", connection.info.id)
            self._table.close(connection)
        if not connection.closed and connection.mute_state == NOT_MUTED and not connection.hold:
            self._table.start_reading(connection)
            if connection.buffers_input and self._has_more(connection):
                self.on_readable(connection)

    def memory_available(self) -> None:
        """The memory pool has room again: go on with the connections that it refused."""
        pool = self._memory_pool
        for _ in range(len(self._hungry)):
            if pool is None or not pool.would_grant():
                return
            connection, _ = self._hungry.popitem(last=False)
            connection.hold &= ~HOLD_MEMORY
            self.resume(connection)

    def forget(self, connection: ServerConnection) -> None:
        """The connection is closed: give back what was read of it."""
        connection.ahead = connection.body = None
        pooled, connection.body_pooled = connection.body_pooled, 0
        self._give_back(pooled)
        self._hungry.pop(connection, None)

    def _handshake(self, connection: ServerConnection) -> None:
        transport = connection.transport
        try:
            transport.handshake()
        except BlockingIOError:
            if transport.wants_write:
                self._table.start_writing(connection)
            return
        except OSError as error:
            self.failed_authentications += 1
            self._table.close(connection, f"failed authentication: {error}")
            return
        if transport.handshake_done:
            self._table.handshake_done(connection)
            self.authentications += connection.authenticator is None
            if transport.principal is not None:
                connection.info.principal = transport.principal

    def _has_more(self, connection: ServerConnection) -> bool:
        """Whether the transport has bytes that the socket no longer announces, and they may be read now."""
        if connection.closed or connection.mute_state != NOT_MUTED or connection.hold or connection.ahead is not None:
            return False
        return connection.transport.handshake_done and connection.transport.pending()

    def _read(self, connection: ServerConnection) -> None:
        """Read what has come: a whole small request, several, or the beginning of a large one."""
        scratch = self._scratch
        count = connection.recv_into(scratch)
        self._table.touch(connection, self._now())
        if 4 < count <= self._short and _SIZE(scratch)[0] == count - 4 and not connection.rest:
            # Exactly one request, which is the rule: none of the cases of `_serve` applies.
            connection.in_service = True
            try:
                self._receive(connection, memoryview(bytearray(scratch[4:count])), 0)
            finally:
                connection.in_service = False
        elif count == 0:
            self._table.close(connection, "closed by the peer", logging.DEBUG)
        elif count > 4 and _SIZE(scratch)[0] > count - 4 and not connection.rest:
            # The beginning of a large request, which goes from here into a buffer of its own.
            connection.ahead = scratch[:count]
            connection.ahead_at = 0
            self._serve(connection)
            if connection.ahead is not None:  # unless it has to wait for memory
                connection.ahead = memoryview(bytearray(connection.ahead))
            elif connection.body is not None and count == _SCRATCH_BYTES:
                self._read_body(connection, connection.body)  # more is there: no need to be told so
        else:
            data = bytearray(connection.rest)
            data += scratch[:count]
            connection.rest = b""
            connection.ahead = memoryview(data)
            connection.ahead_at = 0
            self._serve(connection)

    def _read_body(self, connection: ServerConnection, body: memoryview) -> None:
        """Read into the buffer of the announced size until it is full or the socket is empty."""
        size = len(body)
        filled = connection.filled
        try:
            while filled < size:
                count = connection.recv_into(body[filled:])
                if count == 0:
                    self._table.close(connection, f"closed by the peer within a request of {size} bytes")
                    return
                filled += count
        finally:
            if filled != connection.filled and not connection.closed:
                connection.filled = filled
                self._table.touch(connection, self._now())
        connection.body = None
        pooled, connection.body_pooled = connection.body_pooled, 0
        connection.in_service = True
        try:
            self._receive(connection, body, pooled)
        finally:
            connection.in_service = False

    # -- frames --------------------------------------------------------------------------------------------------

    def _serve(self, connection: ServerConnection) -> None:
        """Serve the whole requests among the bytes read ahead, until one must be waited for."""
        connection.in_service = True
        try:
            if connection.authenticator is None and self._memory_pool is None:
                self._serve_whole(connection)
            while self._next_frame(connection):
                pass
        finally:
            connection.in_service = False
        if connection.closed:
            return
        if connection.unsent and not connection.hold & HOLD_OUTPUT:
            self._writer.flush(connection)
        if connection.ahead is not None and connection.mute_state == NOT_MUTED and not connection.hold:
            # Requests are still at hand: go on in the loop's next round, after its other work.
            self._table.loop.call_soon(self.resume, connection)

    def _serve_whole(self, connection: ServerConnection) -> None:
        """Serve the requests that lie there in full, as long as each is answered at once: what `_next_frame` does, with
        less looked at for each. All else is left to it."""
        view = connection.ahead
        if view is None:
            return
        table, receive, limit = self._table, self._receive, self._max_request_bytes
        unsent, at, end_of_view = connection.unsent, connection.ahead_at, len(view)
        while end_of_view - at >= 4:
            size = _SIZE(view, at)[0]
            end = at + 4 + size
            if not 0 <= size <= limit or end > end_of_view:
                return
            if unsent:
                # The answer may go out with the next one.
                if connection.request is not None or len(unsent) >= _COALESCE_REQUESTS:
                    return
                connection.mute_state = ANSWERED[connection.mute_state]
            if connection.mute_state != NOT_MUTED or connection.hold or table.draining:
                return
            connection.ahead_at = end
            if end == end_of_view:
                connection.ahead = None
            receive(connection, view[at + 4 : end], 0)
            if connection.ahead is None:  # the last, or the connection is closed
                return
            at = end

    def _next_frame(self, connection: ServerConnection) -> bool:
        """Take the next whole request out of the bytes read ahead; False when there is none or it may not be taken."""
        view = connection.ahead
        if view is None or connection.closed:
            return False
        at = connection.ahead_at + 4
        end_of_view = len(view)
        size = _SIZE(view, at - 4)[0] if at <= end_of_view else 0
        end = at + size
        unsent = connection.unsent
        if unsent:
            # The answer may go out with the next one only while another whole request is already here.
            if at <= end_of_view >= end and connection.request is None and len(unsent) < _COALESCE_REQUESTS:
                self._writer.answered(connection)
            else:
                self._writer.flush(connection)
        if connection.mute_state != NOT_MUTED or connection.hold or self._table.draining:
            return False
        if at > end_of_view:
            connection.rest = bytes(view[at - 4 :])
            connection.ahead = None
            return False
        limit, lazy = self._max_request_bytes, _LAZY_BODY_BYTES
        if connection.authenticator is not None and not connection.authenticator.complete:
            limit, lazy = min(limit, connection.authenticator.max_frame_bytes), _LAZY_STRANGER_BYTES
        if not 0 <= size <= limit:
            self._refuse(connection, 0, f"announced a request of {size} bytes, the limit is {limit}")
            return False
        pool = self._memory_pool
        pooled = 0
        if pool is not None:
            if not pool.try_allocate(size):
                connection.hold |= HOLD_MEMORY
                self._table.stop_reading(connection)
                self._hungry[connection] = None
                return False
            pooled = size
        if end <= end_of_view:
            connection.ahead_at = end
            if end == end_of_view:
                connection.ahead = None
            self._receive(connection, view[at:end], pooled)
            return True
        connection.ahead = None
        connection.body = self._bodies.take(size, lazy)
        connection.body_pooled = pooled
        connection.filled = end_of_view - at
        connection.body[: connection.filled] = view[at:]
        return False

    # -- requests ------------------------------------------------------------------------------------------------

    def _receive(self, connection: ServerConnection, frame: memoryview, pooled: int) -> None:
        """A whole frame is here: authenticate with it, or make it a request and have it served."""
        now = self._now()
        authenticator = connection.authenticator
        if authenticator is not None and not authenticator.complete:
            self._authenticate(connection, frame, pooled)
            return
        try:
            header, offset = decode_request_header(frame)
        except ProtocolError as error:
            self._refuse(connection, pooled, f"sent a frame of {len(frame)} bytes that is no request: {error}")
            return
        spec = API.get(header.api_key)
        if spec is None or not (
            spec.min_version <= header.api_version <= spec.max_version or header.api_key == _API_VERSIONS
        ):
            served = None if spec is None else (spec.min_version, spec.max_version)
            # A client that is refused comes again and again.
            subject = (connection.address, header.client_id, header.api_key, header.api_version)
            level = logging.ERROR if self._unserved.is_new(subject) else logging.DEBUG
            self._refuse(connection, pooled, unserved(header, served), level)
            return
        if authenticator is not None and not self._admit(connection, header, frame, pooled, now):
            return
        channel = self._channel
        request = Request(header, spec, frame, offset, connection.info, self._writer, connection, now)
        if pooled:
            request.hold(self._memory_pool, pooled)
        connection.mute_state = _HANDED_OVER
        connection.request = request
        if header.api_key in self._inline_apis and channel.is_empty() and self._inline.allows(request):
            run_request(request, self._handler, now)
        elif not channel.put(request):
            request.release_buffer()
            self._table.close(connection, "the server shuts down", logging.DEBUG)

    def _refuse(self, connection: ServerConnection, pooled: int, reason: str, level: int = logging.WARNING) -> None:
        self._give_back(pooled)
        if connection.unsent:
            self._writer.flush(connection)  # answers that were held back to go out with the next one
        self._table.close(connection, reason, level)

    def _give_back(self, pooled: int) -> None:
        if pooled and self._memory_pool is not None:
            self._memory_pool.release(pooled)

    # -- authentication ------------------------------------------------------------------------------------------

    def _admit(
        self, connection: ServerConnection, header: RequestHeader, frame: memoryview, pooled: int, now: int
    ) -> bool:
        """Whether an authenticated connection's request may be served; False when it has been dealt with."""
        authenticator = connection.authenticator
        assert authenticator is not None
        try:
            if authenticator.admits(header, now):
                return True
        except SessionExpired:
            self.expired_sessions += 1
            self._refuse(connection, pooled, "session expired")
            return False
        self._authenticate(connection, frame, pooled)
        return False

    def _authenticate(self, connection: ServerConnection, frame: memoryview, pooled: int) -> None:
        self._give_back(pooled)
        authenticator = connection.authenticator
        assert authenticator is not None
        if not authenticator.complete and len(frame) > authenticator.max_frame_bytes:
            self._table.close(connection, f"sent {len(frame)} bytes before authentication", logging.WARNING)
            return
        try:
            step = authenticator.receive(frame)
        except ProtocolError as error:
            self._table.close(connection, f"failed authentication: {error}", logging.WARNING)
            return
        again = authenticator.reauthenticating
        if step.failed:
            self.failed_reauthentications += again
            self.failed_authentications += not again
            connection.hold |= HOLD_CLOSING
            self._table.stop_reading(connection)
        elif authenticator.complete:
            self.reauthentications += again
            self.authentications += not again
            self._table.login_done(connection)
            connection.info.principal = authenticator.principal
        if step.delay_ms:
            self._table.loop.call_later(step.delay_ms / 1000, self._send_step, connection, step.answer)
        else:
            self._send_step(connection, step.answer)

    def _send_step(self, connection: ServerConnection, answer: list[Any]) -> None:
        if not connection.closed:
            connection.outbox.extend(answer)
            self._writer.flush(connection)
