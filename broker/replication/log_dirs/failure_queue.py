"""Handles failed log directories, one by one, on a thread of its own.

Whoever meets an I/O error only enqueues: it may hold any lock. The thread calls what `broker/server.py` hands in, which
takes the partitions of the directory offline (`ReplicaManager.handle_log_dir_failure`) and tells the controller; they
stay offline until the broker restarts. What fails of that is done
again, after the other directories that wait. When no directory is left the process halts.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from timer.clock import Clock
from timer.worker import Worker, Workers


class LogDirFailures:
    """`on_failure` may be called from anywhere, before `start` too."""

    def __init__(self, handle: Callable[[str], None], clock: Clock, workers: Workers | None = None) -> None:
        self._handle = handle
        self._failed: deque[str] = deque()
        self._seen: set[str] = set()
        self._lock = threading.Lock()
        self._worker = Worker("LogDirFailureHandler", self.step, clock, workers=workers)

    def start(self) -> None:
        self._worker.start()

    def on_failure(self, directory: str) -> None:
        with self._lock:
            if directory in self._seen:
                return
            self._seen.add(directory)
            self._failed.append(directory)
        self._worker.wake()

    @property
    def failed(self) -> Iterable[str]:
        """Every directory that has failed since the start."""
        return tuple(self._seen)

    def step(self) -> float | None:
        """Handle one failure."""
        with self._lock:
            if not self._failed:
                return None
            directory = self._failed.popleft()
        try:
            self._handle(directory)
        except Exception:
            with self._lock:
                self._failed.append(directory)
            raise
        return 0

    def shutdown(self) -> None:
        self._worker.stop()
