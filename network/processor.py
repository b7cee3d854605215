"""One event loop in its own thread: reads requests from its connections and writes their responses.

A request is read, the connection is muted, and the request either runs right here (the inline rule) or goes through
the request channel to a handler. Its response comes back through `enqueue` and is written: at once when it was
produced on this thread, else after a wake-up that serves every response that waits.
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import os
import socket
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Any

from network import mute
from network.authenticator import SessionExpired
from network.file_range import FileRange, release_parts
from network.handler_pool import Handler, run_request
from network.inline import InlineRule
from network.mute import NOT_MUTED, TRANSITIONS
from network.outbox import COLD, DONE
from network.protocol.api import API, ApiKey
from network.protocol.errors import ProtocolError
from network.protocol.header import decode_request_header
from network.request import ANONYMOUS, ConnectionInfo, Request
from network.request_channel import CLOSE_CONNECTION, NO_OP, SEND, START_THROTTLING, RequestChannel
from network.request_metrics import RequestMetrics
from network.server_config import NEW_CONNECTIONS_PER_PROCESSOR, ListenerConfig
from network.server_connection import ServerConnection
from network.timed_selector import TimedSelector
from network.wake_up import WakeUp

if TYPE_CHECKING:
    from network.connection_quotas import ConnectionQuotas
    from network.memory_pool import MemoryPool
    from timer.clock import Clock

logger = logging.getLogger(__name__)

_SCRATCH_BYTES = 64 << 10
_LAZY_BODY_BYTES = 4 << 20
_COALESCE_BYTES = 64 << 10
_METRICS_FLUSH_S = 1.0
_DRAIN_POLL_S = 0.01
_MAX_INDEX = 2147483647
_MS = 1_000_000
_HANDED_OVER = TRANSITIONS[mute.REQUEST_RECEIVED][TRANSITIONS[mute.MUTE][NOT_MUTED]]
_ANSWERABLE = (mute.MUTED_AND_RESPONSE_PENDING, mute.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING)


class Processor:
    """Serves the connections that `offer` gives it until `shutdown`."""

    def __init__(
        self,
        processor_id: int,
        listener: ListenerConfig,
        channel: RequestChannel,
        handler: Handler,
        *,
        name: str,
        inline: InlineRule,
        quotas: ConnectionQuotas,
        memory_pool: MemoryPool | None,
        request_metrics: RequestMetrics,
        cold_reads: ThreadPoolExecutor,
        clock: Clock,
        privileged: bool,
        max_request_bytes: int,
        max_idle_ms: int,
    ) -> None:
        self.id = processor_id
        self.listener = listener
        self.expired_sessions = 0
        self._channel = channel
        self._handler = handler
        self._inline = inline
        self._quotas = quotas
        self._memory_pool = memory_pool
        self._request_metrics = request_metrics
        self._cold_reads = cold_reads
        self._clock = clock
        self._now = clock.monotonic_ns
        self._privileged = privileged
        self._max_request_bytes = max_request_bytes
        self._max_idle_ns = max_idle_ms * _MS
        self._connections: OrderedDict[ServerConnection, None] = OrderedDict()  # least recently used first
        self._new: Queue[tuple[socket.socket, str]] = Queue(NEW_CONNECTIONS_PER_PROCESSOR)
        self._responses: deque[tuple[Request, int, Any]] = deque()
        self._hungry: deque[ServerConnection] = deque()  # refused by the memory pool
        self._excess = 0
        self._index = 0
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._wake_up = WakeUp()
        self._woken = False
        self._draining = False
        self._stopping = False
        self._drained = threading.Event()
        self._selector = TimedSelector(clock)
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread_id = 0
        if memory_pool is not None:
            memory_pool.subscribe(self._wake)

    # -- any thread ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def offer(self, sock: socket.socket, address: str, wait_ms: int = 0) -> bool:
        """Queue a new connection; False when the queue is full (after waiting `wait_ms`)."""
        try:
            self._new.put((sock, address), block=wait_ms > 0, timeout=wait_ms / 1000 or None)
        except Full:
            return False
        self._wake()
        return True

    def enqueue(self, request: Request, kind: int, payload: Any) -> None:
        """A response (or throttle marker) for a request of this processor. Written at once on the own thread."""
        if threading.get_ident() == self._thread_id:
            self._deliver(request, kind, payload)
            return
        self._responses.append((request, kind, payload))
        if self._stopping:
            self._discard_responses()
        else:
            self._wake()

    def close_excess(self) -> None:
        """Close the least recently used connection if the broker still has too many."""
        self._excess = 1
        self._wake()

    def drain(self) -> None:
        """Read no more requests; `drained` becomes true when what was read has been answered."""
        self._draining = True
        self._wake()

    def wait_drained(self, timeout_s: float) -> bool:
        return self._drained.wait(timeout_s)

    def shutdown(self) -> None:
        """Close every connection and end the thread; responses that still come are dropped."""
        self._draining = True
        self._stopping = True
        self._wake()
        if self._thread.is_alive():
            self._thread.join(10)
        self._discard_responses()

    @property
    def response_queue_size(self) -> int:
        return len(self._responses)

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def idle_ratio(self) -> float:
        """Share of the time since the last call that the loop spent waiting."""
        return self._selector.idle_ratio()

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._wake_up.wake()

    def _discard_responses(self) -> None:
        while self._responses:
            try:
                request, kind, payload = self._responses.popleft()
            except IndexError:
                return
            if kind == SEND:
                release_parts(payload)
            request.release_buffer()

    # -- the loop ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._thread_id = threading.get_ident()
        loop = self._loop
        asyncio.set_event_loop(loop)
        loop.set_exception_handler(self._on_loop_error)
        loop.add_reader(self._wake_up.fileno(), self._on_wake_up)
        loop.call_later(_METRICS_FLUSH_S, self._flush_metrics)
        self._schedule_idle_check()
        try:
            loop.run_forever()
        except BaseException:
            logger.exception("%s ended by an error", self._thread.name)
        finally:
            for connection in list(self._connections):
                self._close(connection)
            while not self._new.empty():
                sock, address = self._new.get_nowait()
                sock.close()
                self._quotas.release(self.listener.name, address)
            self._request_metrics.flush()
            loop.close()
            self._wake_up.close()
            self._drained.set()

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        logger.error("%s: %s", self._thread.name, context.get("message"), exc_info=context.get("exception"))

    def _on_wake_up(self) -> None:
        self._wake_up.clear()
        self._woken = False  # before looking at the queues, so that nothing put after the look is missed
        if self._stopping:
            self._loop.stop()
            return
        self._register_new()
        responses = self._responses
        for _ in range(len(responses)):
            request, kind, payload = responses.popleft()
            self._deliver(request, kind, payload)
        while self._hungry and (pool := self._memory_pool) is not None and pool.available > 0:
            connection = self._hungry.popleft()
            connection.wants_memory = False
            self._resume(connection)
        if self._excess:
            self._excess = 0
            self._close_excess_now()
        if self._draining:
            self._check_drained()

    def _register_new(self) -> None:
        for _ in range(NEW_CONNECTIONS_PER_PROCESSOR):
            try:
                sock, address = self._new.get_nowait()
            except Empty:
                return
            try:
                self._register(sock, address)
            except Exception as error:
                logger.warning("a new connection from %s could not be set up: %s", address, error)
                sock.close()
                self._quotas.release(self.listener.name, address)

    def _register(self, sock: socket.socket, address: str) -> None:
        listener = self.listener
        local, remote = sock.getsockname(), sock.getpeername()
        identity = f"{local[0]}:{local[1]}-{remote[0]}:{remote[1]}-{self._index}"
        self._index = 0 if self._index == _MAX_INDEX else self._index + 1
        info = ConnectionInfo(
            identity, listener.name, listener.security_protocol, ANONYMOUS, address, privileged=self._privileged
        )
        transport = listener.transport(sock)
        connection = ServerConnection(info, transport, address, self._now())
        if listener.authenticator is not None:
            connection.authenticator = listener.authenticator(info, transport)
        self._connections[connection] = None
        self._start_reading(connection)

    def _flush_metrics(self) -> None:
        try:
            self._request_metrics.flush()
        finally:
            self._loop.call_later(_METRICS_FLUSH_S, self._flush_metrics)

    # -- reading -------------------------------------------------------------------------------------------------

    def _start_reading(self, connection: ServerConnection) -> None:
        if not connection.reading and not self._draining:
            connection.reading = True
            self._loop.add_reader(connection.fd, self._on_readable, connection)

    def _stop_reading(self, connection: ServerConnection) -> None:
        if connection.reading:
            connection.reading = False
            self._loop.remove_reader(connection.fd)

    def _on_readable(self, connection: ServerConnection) -> None:
        if connection.mute_state != NOT_MUTED or connection.outbox or self._must_not_read(connection):
            # Muting is lazy: most clients send nothing before they have their answer, so the reader stays registered
            # until bytes do come, and then goes until the connection is resumed.
            self._stop_reading(connection)
            return
        try:
            if not connection.transport.handshake_done:
                self._handshake(connection)
            elif connection.body is None:
                self._read_ahead(connection)
            else:
                self._read_body(connection, connection.body)
        except BlockingIOError:
            pass
        except OSError as error:
            self._close(connection, f"lost: {error}", logging.DEBUG)
        except Exception:
            logger.exception("closing %s", connection.info.id)
            self._close(connection)

    def _must_not_read(self, connection: ServerConnection) -> bool:
        return connection.wants_memory or connection.closing or self._draining

    def _handshake(self, connection: ServerConnection) -> None:
        transport = connection.transport
        try:
            transport.handshake()
        except BlockingIOError:
            if transport.wants_write and not connection.writing:
                connection.writing = True
                self._loop.add_writer(connection.fd, self._on_writable, connection)
            return
        if transport.handshake_done:
            if transport.principal is not None:
                connection.info.principal = transport.principal
            if transport.pending():
                self._read_ahead(connection)

    def _read_ahead(self, connection: ServerConnection) -> None:
        """Read what has come: a whole small request, several, or the beginning of a large one."""
        while True:
            count = connection.recv_into(self._scratch)
            if count == 0:
                self._close(connection, "closed by the peer", logging.DEBUG)
                return
            data = bytearray(self._scratch[:count])
            if connection.rest:
                data[:0] = connection.rest
                connection.rest = b""
            connection.ahead = memoryview(data)
            connection.ahead_at = 0
            self._serve(connection)
            # Bytes that TLS has decrypted already are not announced by the socket.
            if connection.closed or connection.mute_state != NOT_MUTED or not connection.transport.pending():
                return

    def _read_body(self, connection: ServerConnection, body: memoryview) -> None:
        """Read into the buffer of the announced size until it is full or the socket is empty."""
        size = len(body)
        filled = connection.filled
        try:
            while filled < size:
                count = connection.recv_into(body[filled:])
                if count == 0:
                    self._close(connection, f"closed by the peer within a request of {size} bytes")
                    return
                filled += count
        finally:
            if filled != connection.filled:
                connection.filled = filled
                self._touch(connection, self._now())
        connection.body = None
        pooled, connection.body_pooled = connection.body_pooled, 0
        connection.in_service = True
        try:
            self._receive(connection, body, pooled)
        finally:
            connection.in_service = False
        if not connection.closed:
            self._after_service(connection)

    def _serve(self, connection: ServerConnection) -> None:
        """Serve the whole requests among the bytes read ahead, until one must be waited for."""
        connection.in_service = True
        try:
            while not connection.closed and (view := connection.ahead) is not None:
                if connection.unsent:
                    if self._may_coalesce(connection, view):
                        self._answered(connection)
                    else:
                        self._flush(connection)
                        if connection.outbox:
                            break  # the peer reads slowly; no more requests before it has its answers
                if connection.mute_state != NOT_MUTED or self._must_not_read(connection):
                    break
                at = connection.ahead_at
                left = len(view) - at
                if left < 4:
                    connection.rest = bytes(view[at:])
                    connection.ahead = None
                    break
                size = int.from_bytes(view[at : at + 4], "big", signed=True)
                if not 0 <= size <= self._max_request_bytes:
                    self._close(
                        connection, f"announced a request of {size} bytes, the limit is {self._max_request_bytes}"
                    )
                    return
                pool = self._memory_pool
                if pool is not None and not pool.try_allocate(size):
                    self._wait_for_memory(connection)
                    break
                pooled = size if pool is not None else 0
                at += 4
                end = at + size
                if end < len(view):
                    connection.ahead_at = end
                    self._receive(connection, view[at:end], pooled)
                elif end == len(view):
                    connection.ahead = None
                    self._receive(connection, view[at:end], pooled)
                else:
                    connection.ahead = None
                    connection.body = _allocate(size)
                    connection.body_pooled = pooled
                    connection.filled = left - 4
                    connection.body[: left - 4] = view[at:]
                    self._touch(connection, self._now())
        finally:
            connection.in_service = False
        if not connection.closed:
            self._after_service(connection)

    def _after_service(self, connection: ServerConnection) -> None:
        if connection.outbox or connection.unsent:
            self._flush(connection)
            if connection.closed:
                return
        if connection.ahead is not None and connection.mute_state == NOT_MUTED and not connection.wants_memory:
            # Requests are still at hand: go on in the loop's next round, after its other work.
            self._loop.call_soon(self._resume, connection)

    def _may_coalesce(self, connection: ServerConnection, view: memoryview) -> bool:
        """Whether the answer may wait for the next one: only while another whole request is already here."""
        if connection.mute_state not in _ANSWERABLE or connection.request is not None:
            return False
        left = len(view) - connection.ahead_at
        if left < 4 or len(connection.unsent) >= 64:
            return False
        start = connection.ahead_at
        return left - 4 >= int.from_bytes(view[start : start + 4], "big") and connection.outbox.buffered(
            _COALESCE_BYTES
        )

    def _receive(self, connection: ServerConnection, frame: memoryview, pooled: int) -> None:
        """A whole frame is here: authenticate with it, or make it a request and have it served."""
        now = self._now()
        self._touch(connection, now)
        authenticator = connection.authenticator
        if authenticator is not None and not authenticator.complete:
            self._give_back(pooled)
            self._authenticate(connection, frame)
            return
        try:
            header, offset = decode_request_header(frame)
            if authenticator is not None and not authenticator.admits(header, now):
                self._give_back(pooled)
                self._authenticate(connection, frame)
                return
        except ProtocolError as error:
            self._give_back(pooled)
            self._close(connection, f"sent a frame of {len(frame)} bytes that is no request: {error}")
            return
        except SessionExpired:
            self._give_back(pooled)
            self.expired_sessions += 1
            self._close(connection, "session expired")
            return
        spec = API.get(header.api_key)
        if spec is None or not (spec.serves(header.api_version) or spec.key is ApiKey.API_VERSIONS):
            self._give_back(pooled)
            self._close(connection, f"asked for API key {header.api_key} version {header.api_version}")
            return
        channel = self._channel
        request = Request(header, spec, frame, offset, connection.info, channel, self, connection, now)
        if pooled:
            request.hold(self._memory_pool, pooled)
        connection.mute_state = _HANDED_OVER
        connection.request = request
        if channel.is_empty and self._inline.allows(request):
            run_request(request, self._handler)
        elif not channel.put(request):
            request.release_buffer()
            self._close(connection, "the server shuts down", logging.DEBUG)

    def _authenticate(self, connection: ServerConnection, frame: memoryview) -> None:
        authenticator = connection.authenticator
        assert authenticator is not None
        try:
            step = authenticator.receive(frame)
        except ProtocolError as error:
            self._close(connection, f"failed authentication: {error}")
            return
        if authenticator.complete and not step.failed:
            connection.info.principal = authenticator.principal
        if step.failed:
            connection.closing = True
            self._stop_reading(connection)
        if step.delay_ms:
            self._loop.call_later(step.delay_ms / 1000, self._send_authentication, connection, step.answer)
        else:
            self._send_authentication(connection, step.answer)

    def _send_authentication(self, connection: ServerConnection, answer: list[Any]) -> None:
        if connection.closed:
            return
        connection.outbox.extend(answer)
        self._flush(connection)

    def _wait_for_memory(self, connection: ServerConnection) -> None:
        connection.wants_memory = True
        self._stop_reading(connection)
        self._hungry.append(connection)

    def _give_back(self, pooled: int) -> None:
        if pooled and self._memory_pool is not None:
            self._memory_pool.release(pooled)

    def _resume(self, connection: ServerConnection) -> None:
        """Go on reading: first what has been read ahead, then the socket."""
        if connection.closed or connection.mute_state != NOT_MUTED or connection.outbox or connection.in_service:
            return
        if connection.ahead is not None:
            self._serve(connection)
        if not connection.closed and connection.mute_state == NOT_MUTED and not self._must_not_read(connection):
            self._start_reading(connection)

    # -- responding ----------------------------------------------------------------------------------------------

    def _deliver(self, request: Request, kind: int, payload: Any) -> None:
        connection = request._link
        try:
            if connection.closed or connection.request is not request:
                self._drop(request, kind, payload)
            elif kind == SEND:
                request.response_dequeued_ns = self._now()
                connection.request = None
                connection.unsent.append(request)
                connection.outbox.extend(payload)
                # With more requests of this connection at hand, the serving loop writes the answers together.
                if not connection.in_service or connection.ahead is None:
                    self._flush(connection)
            elif kind == NO_OP:
                request.response_dequeued_ns = self._now()
                connection.request = None
                self._answered(connection)
                self._request_metrics.record(request, request.response_dequeued_ns)
            elif kind == START_THROTTLING:
                self._apply(connection, mute.THROTTLE_STARTED)
                connection.throttle = self._loop.call_later(payload / 1000, self._throttle_ended, connection)
            elif kind == CLOSE_CONNECTION:
                request.response_dequeued_ns = self._now()
                self._request_metrics.record(request, request.response_dequeued_ns)
                self._close(connection, "closed instead of a response", logging.DEBUG)
        except Exception:
            logger.exception("closing %s: a response could not be delivered", connection.info.id)
            self._close(connection)

    def _drop(self, request: Request, kind: int, payload: Any) -> None:
        """A response for a connection that is gone."""
        if kind == START_THROTTLING:
            return
        if kind == SEND:
            release_parts(payload)
        request.response_dequeued_ns = self._now()
        self._request_metrics.record(request, request.response_dequeued_ns)
        logger.debug("dropped a response to %s, which is gone", request.connection.id)

    def _flush(self, connection: ServerConnection) -> None:
        """Write what the connection has to send."""
        try:
            status = connection.outbox.write(connection.transport)
        except OSError as error:
            self._close(connection, f"lost while responding: {error}", logging.DEBUG)
            return
        if status == DONE:
            if connection.writing:
                connection.writing = False
                self._loop.remove_writer(connection.fd)
            if connection.unsent:
                unsent, connection.unsent = connection.unsent, []
                now = self._now()
                for request in unsent:
                    self._request_metrics.record(request, now)
            if connection.closing:
                self._close(connection)
            elif connection.request is None:
                self._answered(connection)
        elif status == COLD:
            if connection.writing:
                connection.writing = False
                self._loop.remove_writer(connection.fd)
            self._warm(connection)
        elif not connection.writing:
            connection.writing = True
            self._loop.add_writer(connection.fd, self._on_writable, connection)

    def _on_writable(self, connection: ServerConnection) -> None:
        if not connection.transport.handshake_done:
            connection.writing = False
            self._loop.remove_writer(connection.fd)
            self._on_readable(connection)
            return
        self._touch(connection, self._now())
        self._flush(connection)

    def _answered(self, connection: ServerConnection) -> None:
        """Nothing is in flight and the response is out (or will go out with the next one): unmute and go on."""
        state = TRANSITIONS[mute.RESPONSE_SENT][connection.mute_state]
        if state != mute.REFUSED:
            connection.mute_state = state
        self._unmute(connection)

    def _unmute(self, connection: ServerConnection) -> None:
        state = TRANSITIONS[mute.UNMUTE][connection.mute_state]
        if state != mute.REFUSED:
            connection.mute_state = state
        if connection.mute_state != NOT_MUTED or connection.in_service:
            return  # still throttled, or the serving loop goes on by itself
        if connection.ahead is not None:
            # Not from here: this may run inside another connection's handler.
            self._loop.call_soon(self._resume, connection)
        elif not connection.reading:
            self._start_reading(connection)

    def _throttle_ended(self, connection: ServerConnection) -> None:
        connection.throttle = None
        if not connection.closed:
            self._apply(connection, mute.THROTTLE_ENDED)
            self._unmute(connection)

    def _apply(self, connection: ServerConnection, event: int) -> None:
        connection.mute_state = mute.next_state(connection.mute_state, event)

    # -- cold file ranges ----------------------------------------------------------------------------------------

    def _warm(self, connection: ServerConnection) -> None:
        """Read the next file bytes into the page cache on another thread; the loop does not wait for a disk."""
        file_range, position, size = connection.outbox.take_cold()
        connection.warming = file_range
        future = self._cold_reads.submit(_read_through, file_range.fd, position, size)
        future.add_done_callback(lambda _: self._call(self._warmed, connection, file_range))

    def _warmed(self, connection: ServerConnection, file_range: FileRange) -> None:
        connection.warming = None
        if connection.closed:
            file_range.release()  # the close left it to us
            return
        connection.outbox.warmed()
        self._flush(connection)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed; so is the connection
            function(*arguments)

    # -- ending --------------------------------------------------------------------------------------------------

    def _touch(self, connection: ServerConnection, now_ns: int) -> None:
        connection.last_active_ns = now_ns
        self._connections.move_to_end(connection)

    def _close(self, connection: ServerConnection, reason: str | None = None, level: int = logging.INFO) -> None:
        if connection.closed:
            return
        connection.closed = True
        if reason is not None:
            logger.log(level, "connection %s: %s", connection.info.id, reason)
        self._stop_reading(connection)
        if connection.writing:
            connection.writing = False
            self._loop.remove_writer(connection.fd)
        if connection.throttle is not None:
            connection.throttle.cancel()
        connection.outbox.clear(keep=connection.warming)
        now = self._now()
        for request in connection.unsent:
            self._request_metrics.record(request, now)
        connection.unsent = []
        connection.ahead = connection.body = None
        self._give_back(connection.body_pooled)
        connection.body_pooled = 0
        self._connections.pop(connection, None)
        try:
            connection.transport.close()
        except OSError as error:
            logger.debug("closing %s: %s", connection.info.id, error)
        self._quotas.release(self.listener.name, connection.address)

    def _schedule_idle_check(self) -> None:
        if self._max_idle_ns < 0:
            return
        wait_ns = self._max_idle_ns
        if self._connections:
            oldest = next(iter(self._connections))
            wait_ns = max(0, oldest.last_active_ns + self._max_idle_ns - self._now())
        self._loop.call_later(wait_ns / 1e9 + 0.001, self._close_idle)

    def _close_idle(self) -> None:
        """Close the least recently used connection if it has been silent for too long; one a round."""
        try:
            if self._connections:
                oldest = next(iter(self._connections))
                if self._now() - oldest.last_active_ns > self._max_idle_ns:
                    self._close(oldest, "idle for too long")
        finally:
            self._schedule_idle_check()

    def _close_excess_now(self) -> None:
        while self._quotas.claim_excess():
            if not self._connections:
                self._quotas.unclaim_excess()
                return
            closing = next((each for each in self._connections if each.closing), None)
            self._close(closing or next(iter(self._connections)), "closed: the broker has too many connections")
            self._quotas.unclaim_excess()

    def _check_drained(self) -> None:
        for connection in self._connections:
            request = connection.request
            at_work = request is not None and not request.local_done_ns  # a parked one may take for ever
            if at_work or connection.unsent:
                self._loop.call_later(_DRAIN_POLL_S, self._check_drained)
                return
        self._drained.set()


def _allocate(size: int) -> memoryview:
    """A writable buffer of `size` bytes. Large ones cost memory only as their bytes really come."""
    if size >= _LAZY_BODY_BYTES:
        return memoryview(mmap.mmap(-1, size))
    return memoryview(bytearray(size))


def _read_through(fd: int, position: int, size: int) -> None:
    """Pull a range of a file into the page cache."""
    buffer = [bytearray(min(size, 256 << 10))]
    end = position + size
    while position < end:
        count = os.preadv(fd, buffer, position)
        if count == 0:
            return
        position += count
