"""Responses on their way out, and what follows when one is out."""

from __future__ import annotations

import logging
import os
import select
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from network.server import mute
from network.server.file_range import FileRange, release_parts
from network.server.mute import NOT_MUTED, REFUSED, TRANSITIONS
from network.server.outbox import COLD, DONE, ShortFile, read_small_ranges
from network.server.request import CLOSE_CONNECTION, NO_OP, SEND, START_THROTTLING
from network.server.server_connection import HOLD_CLOSING, HOLD_OUTPUT, ServerConnection

if TYPE_CHECKING:
    from network.server.connection_table import ConnectionTable
    from network.server.request import Request
    from network.server.request_metrics import RequestMetrics
    from timer.clock import Clock

logger = logging.getLogger(__name__)

_WARM_CHUNK = 256 << 10
_SHORT = 1024
_HUNG_UP = getattr(select, "POLLRDHUP", select.POLLHUP)


def _after_response(state: int) -> int:
    """RESPONSE_SENT, then UNMUTE where no throttle runs; states without a response to wait for stay."""
    sent = TRANSITIONS[mute.RESPONSE_SENT][state]
    if sent == REFUSED:
        sent = state
    unmuted = TRANSITIONS[mute.UNMUTE][sent]
    return sent if unmuted == REFUSED else unmuted


ANSWERED: Final = tuple(_after_response(state) for state in range(len(mute.STATE_NAMES)))
"""The mute state when the response is out, or will go out with the next one."""


class ResponseWriter:
    """Writes the responses of one processor's connections.

    `respond` may be called from any thread: a response produced on the processor's own thread is written at once, any
    other is queued and `wake` is called. The queue holds at most one response and one throttle marker a connection.
    Everything else runs on the processor's thread.
    """

    def __init__(
        self,
        table: ConnectionTable,
        request_metrics: RequestMetrics,
        cold_reads: ThreadPoolExecutor,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self.resume: Callable[[ServerConnection], None]
        """Goes on reading from a connection; set by the processor."""
        self.thread_id = 0
        self._table = table
        self._metrics = request_metrics
        self._record = request_metrics.record
        self._cold_reads = cold_reads
        self.now_ns = clock.monotonic_ns
        self._wake = wake
        self._queue: deque[tuple[Request, int, Any]] = deque()
        self._stopped = False

    def __len__(self) -> int:
        """Responses that wait for the processor."""
        return len(self._queue)

    def respond(self, request: Request, kind: int, payload: Any) -> None:
        """Take a response or a throttle marker for a request of this processor."""
        if get_ident() == self.thread_id:
            self._deliver(request, kind, payload, request.response_ready_ns)
            return
        self._queue.append((request, kind, payload))
        if self._stopped:
            self.discard()
        else:
            self._wake()

    def is_gone(self, request: Request) -> bool:
        """From any thread. While a request is in service its connection is not read, so the system is asked."""
        connection: ServerConnection = request.link
        # Should it be closed right now, and its number be another's, then the next to ask will know.
        return connection.closed or _has_hung_up(connection.fd)

    def deliver_queued(self) -> None:
        """Write every response that waits now."""
        queue = self._queue
        for _ in range(len(queue)):
            request, kind, payload = queue.popleft()
            self._deliver(request, kind, payload, self.now_ns())

    def stop(self) -> None:
        """From now on responses are dropped."""
        self._stopped = True
        self.discard()

    def discard(self) -> None:
        while True:
            try:
                _, kind, payload = self._queue.popleft()
            except IndexError:
                return
            if kind == SEND:
                release_parts(payload)

    # -- one response --------------------------------------------------------------------------------------------

    def _deliver(self, request: Request, kind: int, payload: Any, taken_ns: int) -> None:
        connection: ServerConnection = request.link
        try:
            if connection.request is not request:
                self._drop(request, kind, payload)
            elif kind == SEND:
                request.response_dequeued_ns = taken_ns
                connection.request = None
                self._send(connection, request, payload)
            elif kind == NO_OP:
                request.response_dequeued_ns = taken_ns
                connection.request = None
                self._record(request, taken_ns)
                self.answered(connection)
            elif kind == START_THROTTLING:
                connection.mute_state = mute.next_state(connection.mute_state, mute.THROTTLE_STARTED)
                connection.throttle = self._table.loop.call_later(payload / 1000, self._throttle_ended, connection)
            elif kind == CLOSE_CONNECTION:
                request.response_dequeued_ns = taken_ns
                self._record(request, taken_ns)
                self._table.close(connection, "closed instead of a response", logging.DEBUG)
        except Exception:
            logger.exception("closing %s: a response could not be delivered", connection.info.id)
            self._table.close(connection)

    def _send(self, connection: ServerConnection, request: Request, parts: list[Any]) -> None:
        if len(parts) > 1:
            parts = read_small_ranges(parts)
        single = len(parts) == 1
        # With more requests of this connection at hand, the serving loop writes short answers together.
        together = connection.ahead is not None and connection.in_service and single and len(parts[0]) <= _SHORT
        if single and not together and not connection.unsent:
            try:
                sent = connection.send(parts[0])
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self._record(request, self.now_ns())
                self._table.close(connection, f"lost while responding: {error}", logging.DEBUG)
                return
            if sent == len(parts[0]):
                self._record(request, self.now_ns())
                self.answered(connection)
                return
            parts = [memoryview(parts[0])[sent:]]
        connection.unsent.append(request)
        connection.outbox.extend(parts)
        if not together:
            self.flush(connection)

    def _drop(self, request: Request, kind: int, payload: Any) -> None:
        """A response for a connection that is gone."""
        if kind == START_THROTTLING:
            return
        if kind == SEND:
            release_parts(payload)
        self._count_dropped(request)
        logger.debug("dropped a response to %s, which is gone", request.connection.id)

    def forget(self, connection: ServerConnection) -> None:
        """The connection is closed: its answers are not written any more."""
        connection.outbox.clear(keep=connection.warming)
        unsent, connection.unsent = connection.unsent, []
        for request in unsent:
            self._count_dropped(request)

    def _count_dropped(self, request: Request) -> None:
        now = self.now_ns()
        if not request.response_dequeued_ns:
            request.response_dequeued_ns = now
        self._record(request, now)

    # -- writing -------------------------------------------------------------------------------------------------

    def flush(self, connection: ServerConnection) -> None:
        """Write what the connection has to send, as far as the peer takes it."""
        try:
            status = connection.outbox.write(connection.transport)
        except ShortFile as error:
            self._table.close(connection, str(error), logging.ERROR)
            return
        except OSError as error:
            self._table.close(connection, f"lost while responding: {error}", logging.DEBUG)
            return
        except Exception:
            logger.exception("closing %s: what it shall be sent cannot be read", connection.info.id)
            self._table.close(connection)
            return
        if status == DONE:
            connection.hold &= ~HOLD_OUTPUT
            self._table.stop_writing(connection)
            if connection.unsent:
                now = self.now_ns()
                for request in connection.unsent:
                    self._record(request, now)
                connection.unsent.clear()
            if connection.hold & HOLD_CLOSING:
                self._table.close(connection)
            elif connection.request is None:
                self.answered(connection)
            return
        connection.hold |= HOLD_OUTPUT
        if status == COLD:
            self._table.stop_writing(connection)
            self._warm(connection)
        else:
            self._table.start_writing(connection)

    def on_writable(self, connection: ServerConnection) -> None:
        """The loop says that the socket takes bytes again."""
        if not connection.transport.handshake_done:
            self._table.stop_writing(connection)
            self._table.on_readable(connection)
            return
        self._table.touch(connection, self.now_ns())
        self.flush(connection)

    def answered(self, connection: ServerConnection) -> None:
        """The response is out, or will go out with the next one: unmute, and go on unless a throttle runs."""
        state = connection.mute_state = ANSWERED[connection.mute_state]
        if connection.in_service or state != NOT_MUTED:
            return
        if connection.ahead is not None or connection.buffers_input:
            # Not from here: this may run inside the handler of another connection's request.
            self._table.loop.call_soon(self.resume, connection)
        elif not connection.reading and not connection.hold:
            self._table.start_reading(connection)

    def _throttle_ended(self, connection: ServerConnection) -> None:
        connection.throttle = None
        if connection.closed:
            return
        state = mute.next_state(connection.mute_state, mute.THROTTLE_ENDED)
        unmuted = TRANSITIONS[mute.UNMUTE][state]
        connection.mute_state = state if unmuted == REFUSED else unmuted
        if connection.mute_state == NOT_MUTED:
            self._table.loop.call_soon(self.resume, connection)

    # -- cold file ranges ----------------------------------------------------------------------------------------

    def _warm(self, connection: ServerConnection) -> None:
        """Read the next file bytes into the page cache on another thread; the loop does not wait for a disk."""
        file_range, position, size = connection.outbox.cold()
        connection.warming = file_range
        future = self._cold_reads.submit(_read_through, file_range.fd, position, size)
        future.add_done_callback(lambda done: self._call(self._warmed, connection, file_range, done))

    def _warmed(self, connection: ServerConnection, file_range: FileRange, done: Future[None]) -> None:
        connection.warming = None
        if connection.closed:
            file_range.release()  # the close left it to us
            return
        error = done.exception()
        if error is not None:
            self._table.close(connection, f"cannot read what it asked for: {error}", logging.ERROR)
            return
        connection.outbox.warmed()
        self.flush(connection)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._table.loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed, and with it the connection
            function(*arguments)


def _has_hung_up(fd: int) -> bool:
    """Whether the peer has closed the connection, or at least its half of it, whatever bytes still wait before that.
    Where the system does not tell (other than Linux) only of a broken connection."""
    poll = select.poll()
    poll.register(fd, _HUNG_UP)
    return bool(poll.poll(0))


def _read_through(fd: int, position: int, size: int) -> None:
    """Pull a range of a file into the page cache."""
    buffer = [bytearray(min(size, _WARM_CHUNK))]
    end = position + size
    while position < end:
        count = os.preadv(fd, buffer, position)
        if count == 0:
            return
        position += count
