"""The threads that run request handlers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from network.server.request import Request
from network.server.request_channel import ChannelClosed, RequestChannel

if TYPE_CHECKING:
    from timer.metrics import Meter

logger = logging.getLogger(__name__)

Handler = Callable[[Request], None]

_IDLE_WAIT_S = 30.0


def run_request(request: Request, handler: Handler, now_ns: int) -> None:
    """Run `handler` on the calling thread and note the times. An exception closes the connection, nothing else."""
    request.dequeued_ns = now_ns
    try:
        handler(request)
    except BaseException:  # what a plug-in raises may be SystemExit, which would end the thread
        logger.exception("handler failed for %r", request)
        if not request.response_ready_ns:
            request.close_connection()
    if not request.response_ready_ns:  # answered later by somebody else
        request.local_done_ns = request.responder.now_ns()
    if request.pooled:
        request.release_buffer()


class HandlerPool:
    """`threads` threads that serve one channel. `idle_meter` is marked with idle nanoseconds per thread."""

    def __init__(
        self,
        channel: RequestChannel,
        handler: Handler,
        threads: int,
        *,
        plane: str = "data-plane",
        idle_meter: Meter | None = None,
    ) -> None:
        if threads < 1:
            raise ValueError("a handler pool needs a thread")
        self.channel = channel
        self._handler = handler
        self._plane = plane
        self._size = threads
        self._threads: list[threading.Thread] = []
        self._next_id = 0
        self._lock = threading.Lock()
        self._idle_meter = idle_meter

    @property
    def size(self) -> int:
        return self._size

    def start(self) -> None:
        with self._lock:
            for _ in range(self._size):
                self._start_thread()

    def resize(self, threads: int) -> None:
        """Change the number of threads; running handlers are never interrupted."""
        if threads < 1:
            raise ValueError("a handler pool needs a thread")
        with self._lock:
            for _ in range(threads - self._size):
                self._start_thread()
            for _ in range(self._size - threads):
                self.channel.stop_one_handler()
            self._size = threads

    def shutdown(self, timeout_s: float = 10.0) -> bool:
        """Serve what is queued, then stop the threads. False if one is still running after `timeout_s`."""
        self.channel.close(self._size)
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in threads)

    def _start_thread(self) -> None:
        name = f"{self._plane}-kafka-request-handler-{self._next_id}"
        self._next_id += 1
        thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _loop(self) -> None:
        channel, handler = self.channel, self._handler
        now = channel.clock.monotonic_ns
        meter = self._idle_meter
        while True:
            idle_from = now()
            try:
                item = channel.take(_IDLE_WAIT_S)
            except ChannelClosed:
                return
            if meter is not None:
                meter.mark((now() - idle_from) // self._size)
            if item is None:
                continue
            run_request(item, handler, now())
            item = None  # keeps neither the body nor the message alive while waiting
