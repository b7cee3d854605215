"""The bounded queue between processors and handlers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from network.server.request import Request
    from timer.clock import Clock

_STOP = object()
_FULL_WAIT_MS = 300


class RequestChannel:
    """At most `capacity` requests wait here for a handler.

    At the bound `put` blocks, and with it the whole processor: the back-pressure reaches every connection of that
    processor.
    """

    def __init__(self, capacity: int, clock: Clock) -> None:
        if capacity <= 0:
            raise ValueError("capacity must be positive")
        self.capacity = capacity
        self.clock = clock
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self.is_empty: Callable[[], bool] = self._queue.empty
        """Whether no request waits for a handler."""
        self._putting = threading.Lock()
        self._not_full = threading.Condition()
        self._waiting = 0
        self._closed = False

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

    def take(self, timeout_s: float | None) -> Request | None:
        """The next request, or None after `timeout_s`.

        Raises `ChannelClosed` once the channel is closed and this thread is asked to stop.
        """
        try:
            item = self._queue.get(timeout=timeout_s)
        except Empty:
            return None
        # Lock-free: who waits has noted it before its last look at the queue. Were it missed, it looks again by itself.
        if self._waiting:
            with self._not_full:
                self._not_full.notify()
        if item is _STOP:
            raise ChannelClosed
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
            else:
                item.release_buffer()
                dropped += 1
        for item in kept:
            self._queue.put(item)
        return dropped


class ChannelClosed(Exception):
    """The channel is closed; the handler thread that gets this stops."""
