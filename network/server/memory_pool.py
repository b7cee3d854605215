"""The bound on request bytes held in memory: `queued.max.request.bytes`."""

from __future__ import annotations

import threading
from collections.abc import Callable


class MemoryPool:
    """Counts the bytes of requests between socket and handler.

    A buffer is granted as long as any memory is free, so the pool may be overdrawn by one request a processor; that
    keeps a request larger than what is left from waiting for ever. At the bound a connection stops being read, and
    `on_available` of every subscriber runs (on the releasing thread, so it must only enqueue) once memory is free.
    """

    def __init__(self, capacity: int) -> None:
        if capacity <= 0:
            raise ValueError("capacity must be positive")
        self._capacity = capacity
        self._available = capacity
        self._starved = False
        self._lock = threading.Lock()
        self._subscribers: list[Callable[[], None]] = []

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def available(self) -> int:
        """Free bytes; below zero while overdrawn."""
        return self._available

    @property
    def used(self) -> int:
        return self._capacity - self._available

    def subscribe(self, on_available: Callable[[], None]) -> None:
        with self._lock:
            self._subscribers.append(on_available)

    def unsubscribe(self, on_available: Callable[[], None]) -> None:
        with self._lock:
            self._subscribers.remove(on_available)

    def try_allocate(self, size: int) -> bool:
        """Take `size` bytes, or return False and remember that somebody waits."""
        with self._lock:
            if self._available <= 0:
                self._starved = True
                return False
            self._available -= size
            return True

    def would_grant(self) -> bool:
        """Whether a buffer would be granted now; if not, the subscribers will hear when one would."""
        with self._lock:
            if self._available <= 0:
                self._starved = True
                return False
            return True

    def release(self, size: int) -> None:
        with self._lock:
            self._available += size
            assert self._available <= self._capacity, "more memory released than was taken"
            if not self._starved or self._available <= 0:
                return
            self._starved = False
            subscribers = list(self._subscribers)
        for on_available in subscribers:
            on_available()
