"""The bounded queue between processors and handlers, and the way back of every response."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from network.file_range import release_message
from network.protocol.api import ApiKey
from network.protocol.header import RequestHeader, encode_response_parts

if TYPE_CHECKING:
    from network.request import Request
    from timer.clock import Clock

logger = logging.getLogger(__name__)

Callback = Callable[[], None]

# Kinds of response, as the processor sees them.
SEND = 0
NO_OP = 1
CLOSE_CONNECTION = 2
START_THROTTLING = 3

_API_VERSIONS = int(ApiKey.API_VERSIONS)
_WAKE_UP = object()
_STOP = object()
_FULL_WAIT_MS = 300


class RequestChannel:
    """At most `capacity` requests wait here for a handler.

    At the bound `put` blocks, and with it the whole processor: the back-pressure reaches every connection of that
    processor. Every request is ended by exactly one of `send_response` and `close_connection`, from any thread;
    `start_throttle` may precede it.

    Callbacks (work that continues on a handler thread after something else finished it) have a queue of the same
    capacity and go before requests.
    """

    def __init__(self, capacity: int, clock: Clock) -> None:
        if capacity <= 0:
            raise ValueError("capacity must be positive")
        self.capacity = capacity
        self.clock = clock
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self.is_empty: Callable[[], bool] = self._queue.empty
        """Whether no request waits for a handler."""
        self._callbacks: deque[Callback] = deque()
        self._putting = threading.Lock()
        self._not_full = threading.Condition()
        self._waiting = 0
        self._closed = False

    # -- requests -----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Requests that wait for a handler."""
        return self._queue.qsize()

    def put(self, request: Request) -> bool:
        """Queue `request`; blocks while the channel is full. False when the channel was closed instead."""
        with self._putting:  # one at a time, so that the bound holds for any number of processors
            while self._queue.qsize() >= self.capacity:
                if self._closed:
                    return False
                with self._not_full:
                    self._waiting += 1
                    if self._queue.qsize() >= self.capacity:
                        self.clock.wait(self._not_full, _FULL_WAIT_MS)
                    self._waiting -= 1
            if self._closed:
                return False
            self._queue.put(request)
            return True

    def put_callback(self, callback: Callback) -> bool:
        """Have `callback` run on a handler thread, before waiting requests. False at the bound: the caller keeps it."""
        if self._closed or len(self._callbacks) >= self.capacity:
            return False
        self._callbacks.append(callback)
        self._queue.put(_WAKE_UP)
        return True

    def take(self, timeout_s: float | None) -> Request | Callback | None:
        """The next callback or request, or None after `timeout_s` or a wake-up that somebody else has served.

        Raises `ChannelClosed` once the channel is closed and this thread is asked to stop.
        """
        try:
            if self._callbacks:
                return self._callbacks.popleft()
        except IndexError:
            pass  # another handler was faster
        try:
            item = self._queue.get(timeout=timeout_s)
        except Empty:
            return None
        if self._waiting:
            with self._not_full:
                self._not_full.notify()
        if item is _STOP:
            raise ChannelClosed
        if item is _WAKE_UP:
            try:
                return self._callbacks.popleft()
            except IndexError:
                return None
        return item  # type: ignore[no-any-return]

    def close(self, handlers: int) -> None:
        """Refuse new requests and ask `handlers` threads to stop once they have served what is queued."""
        self._closed = True
        for _ in range(handlers):
            self._queue.put(_STOP)
        with self._not_full:
            self._not_full.notify_all()

    def stop_one_handler(self) -> None:
        """Ask one handler thread to stop, whichever gets to it first."""
        self._queue.put(_STOP)

    def clear(self) -> int:
        """Drop the requests that no handler has taken; returns how many."""
        dropped = 0
        kept: list[Any] = []
        while True:
            try:
                item = self._queue.get_nowait()
            except Empty:
                break
            if item is _STOP:
                kept.append(item)
            elif item is not _WAKE_UP:
                item.release_buffer()
                dropped += 1
        for item in kept:
            self._queue.put(item)
        return dropped

    # -- responses ----------------------------------------------------------------------------------------------

    def send_response(self, request: Request, response: Any | None) -> None:
        """Answer `request` on its connection; None means that nothing goes on the wire (Produce with acks=0).

        The response is encoded on the calling thread. One that cannot be encoded closes the connection.
        """
        request.response_ready_ns = self.clock.monotonic_ns()
        if response is None:
            request._writer.respond(request, NO_OP, None)
            return
        header = request.header
        if header.api_key == _API_VERSIONS and not request.spec.serves(header.api_version):
            # A version that we do not know is answered in the first one.
            header = RequestHeader(header.api_key, 0, header.correlation_id)
        try:
            parts = encode_response_parts(header, response)
        except Exception:
            logger.exception("cannot encode the response to %r; closing %s", request.header, request.connection.id)
            release_message(response)
            request._writer.respond(request, CLOSE_CONNECTION, None)
            return
        request._writer.respond(request, SEND, parts)

    def close_connection(self, request: Request) -> None:
        """End the connection instead of answering."""
        request.response_ready_ns = self.clock.monotonic_ns()
        request._writer.respond(request, CLOSE_CONNECTION, None)

    def start_throttle(self, request: Request, throttle_time_ms: int) -> None:
        """Stop reading from the connection for this time, counted from now; the response itself is not delayed."""
        request.throttle_time_ms = throttle_time_ms
        request._writer.respond(request, START_THROTTLING, throttle_time_ms)


class ChannelClosed(Exception):
    """The channel is closed; the handler thread that gets this stops."""
