"""One event loop in its own thread: reads requests from its connections and writes their responses.

A request is read, the connection is muted, and the request either runs right here (the inline rule) or goes through
the request channel to a handler. Its response comes back through the writer and is written: at once when it was
produced on this thread, else after a wake-up that serves every response that waits.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Any

from network.server.connection_info import ANONYMOUS, ConnectionInfo, java_host
from network.server.connection_table import ConnectionTable
from network.server.handler_pool import Handler
from network.server.inline import InlineRule
from network.server.request_channel import RequestChannel
from network.server.request_metrics import RequestMetrics
from network.server.request_reader import RequestReader
from network.server.response_writer import ResponseWriter
from network.server.server_config import NEW_CONNECTIONS_PER_PROCESSOR, ListenerConfig
from network.server.server_connection import ServerConnection
from network.server.timed_selector import TimedSelector
from network.server.wake_up import WakeUp

if TYPE_CHECKING:
    from network.server.connection_quotas import ConnectionQuotas
    from network.server.memory_pool import MemoryPool
    from timer.clock import Clock

logger = logging.getLogger(__name__)

_METRICS_FLUSH_S = 1.0
_DRAIN_POLL_S = 0.01
_JOIN_S = 10
_MAX_INDEX = 2147483647


class Processor:
    """Serves the connections that `offer` gives it until `shutdown`. Its methods may be called from any thread."""

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
        max_login_ms: int,
    ) -> None:
        self.id = processor_id
        self.listener = listener
        self._quotas = quotas
        self._clock = clock
        self._privileged = privileged
        self._request_metrics = request_metrics
        self._selector = TimedSelector(clock)
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._table = ConnectionTable(self._loop, listener.name, quotas, clock, max_idle_ms, max_login_ms)
        self._writer = ResponseWriter(self._table, request_metrics, cold_reads, clock, self._wake)
        self._reader = RequestReader(
            self._table,
            self._writer,
            channel,
            handler,
            inline=inline,
            memory_pool=memory_pool,
            clock=clock,
            max_request_bytes=max_request_bytes,
        )
        self._table.on_readable = self._reader.on_readable
        self._table.on_writable = self._writer.on_writable
        self._table.on_closed = self._on_closed
        self._writer.resume = self._reader.resume
        self._new: Queue[tuple[socket.socket, str]] = Queue(NEW_CONNECTIONS_PER_PROCESSOR)
        self._index = 0
        self._made = 0
        self._excess = False
        self._wake_up = WakeUp()
        self._woken = False
        self._stopping = False
        self._drained = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._memory_pool = memory_pool
        if memory_pool is not None:
            memory_pool.subscribe(self._wake)

    def start(self) -> None:
        self._thread.start()

    def offer(self, sock: socket.socket, address: str, wait_ms: int = 0) -> bool:
        """Queue a new connection; False when the queue is full (after waiting `wait_ms`) or the processor stops."""
        if self._table.draining:
            return False
        try:
            self._new.put((sock, address), block=wait_ms > 0, timeout=wait_ms / 1000 or None)
        except Full:
            return False
        self._wake()
        return True

    def close_excess(self) -> None:
        """Close the least recently used connection if the broker still has too many."""
        self._excess = True
        self._wake()

    def drain(self) -> None:
        """Read no more requests."""
        self._table.draining = True
        self._wake()

    def wait_drained(self, timeout_s: float) -> bool:
        """After `drain`: wait until what was read has been answered. A request that waits for something else than a
        handler does not count."""
        return self._drained.wait(timeout_s)

    def shutdown(self) -> None:
        """Close every connection and end the thread; responses that still come are dropped."""
        self._table.draining = True
        self._stopping = True
        self._wake()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)
        self._writer.stop()
        if self._memory_pool is not None:
            self._memory_pool.unsubscribe(self._wake)
            self._memory_pool = None

    @property
    def response_queue_size(self) -> int:
        return len(self._writer)

    @property
    def connection_count(self) -> int:
        return len(self._table)

    @property
    def connections_made(self) -> int:
        """Connections taken since the start, closed ones among them."""
        return self._made

    @property
    def requests(self) -> int:
        """Requests answered since the start, as of a second ago."""
        return self._request_metrics.requests

    @property
    def request_bytes(self) -> int:
        """Bytes of their bodies."""
        return self._request_metrics.request_bytes

    @property
    def expired_sessions(self) -> int:
        """Connections closed because their SASL session had expired."""
        return self._reader.expired_sessions

    @property
    def authentications(self) -> int:
        """Clients that have authenticated: by SASL, or by TLS where that was all that was asked of them."""
        return self._reader.authentications

    @property
    def failed_authentications(self) -> int:
        return self._reader.failed_authentications

    @property
    def reauthentications(self) -> int:
        """Sessions of SASL that went on."""
        return self._reader.reauthentications

    @property
    def failed_reauthentications(self) -> int:
        return self._reader.failed_reauthentications

    def idle_ratio(self) -> float:
        """Share of the last second or longer that the loop spent waiting."""
        return self._selector.idle_ratio()

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._wake_up.wake()

    # -- the loop ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._writer.thread_id = threading.get_ident()
        loop = self._loop
        asyncio.set_event_loop(loop)
        loop.set_exception_handler(self._on_loop_error)
        loop.add_reader(self._wake_up.fileno(), self._on_wake_up)
        loop.call_later(_METRICS_FLUSH_S, self._flush_metrics)
        self._table.watch_idle()
        try:
            loop.run_forever()
        except BaseException:
            logger.exception("%s ended by an error", self._thread.name)
        finally:
            self._table.close_all()
            self._writer.stop()
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
        self._writer.deliver_queued()
        self._reader.memory_available()
        if self._excess:
            self._excess = False
            self._table.close_excess()
        if self._table.draining:
            self._table.drain()
            self._check_drained()

    def _register_new(self) -> None:
        for _ in range(NEW_CONNECTIONS_PER_PROCESSOR):
            try:
                sock, address = self._new.get_nowait()
            except Empty:
                return
            try:
                self._table.add(self._make_connection(sock, address))
                self._made += 1
            except Exception as error:
                logger.warning("a new connection from %s could not be set up: %s", address, error)
                sock.close()
                self._quotas.release(self.listener.name, address)

    def _make_connection(self, sock: socket.socket, address: str) -> ServerConnection:
        listener = self.listener
        local, remote = sock.getsockname(), sock.getpeername()
        identity = f"{local[0]}:{local[1]}-{remote[0]}:{remote[1]}-{self._index}"
        self._index = 0 if self._index == _MAX_INDEX else self._index + 1
        host = java_host(address)
        info = ConnectionInfo(
            identity, listener.name, listener.security_protocol, ANONYMOUS, host, privileged=self._privileged
        )
        transport = listener.transport(sock)
        connection = ServerConnection(info, transport, address, self._clock.monotonic_ns())
        if listener.authenticator is not None:
            connection.authenticator = listener.authenticator(info, transport)
        return connection

    def _on_closed(self, connection: ServerConnection) -> None:
        self._writer.forget(connection)
        self._reader.forget(connection)

    def _flush_metrics(self) -> None:
        try:
            self._request_metrics.flush()
        finally:
            self._loop.call_later(_METRICS_FLUSH_S, self._flush_metrics)

    def _check_drained(self) -> None:
        for connection in self._table:
            request = connection.request
            at_work = request is not None and not request.local_done_ns
            if at_work or connection.unsent:
                self._loop.call_later(_DRAIN_POLL_S, self._check_drained)
                return
        self._drained.set()
