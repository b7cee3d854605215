"""Where expired tasks run: never on the thread that moves the clock."""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from timer.clock import SystemClock
from timer.worker import Worker, Workers

logger = logging.getLogger(__name__)

Work = Callable[[], None]


class Executor(Protocol):
    """Runs work that is submitted to it."""

    def submit(self, work: Work, /) -> None:
        """Accept `work`; after shutdown it is dropped. Never raises what the work raises."""
        ...

    def shutdown(self, timeout_ms: float) -> bool:
        """Take no more work, let accepted work finish for at most `timeout_ms`; returns whether it did."""
        ...


class ThreadExecutor:
    """Up to `threads` daemon threads, started when work first needs them, that run work in order of arrival.

    With one thread (the default) work never overlaps. What work raises is logged and goes no further. The queue's bound
    is its users': a timer submits no task twice, so there is never more than one entry a live task. Each piece of work
    is a step of one of `workers`.
    """

    def __init__(self, name: str, threads: int = 1, workers: Workers | None = None) -> None:
        if threads < 1:
            raise ValueError(f"an executor needs a thread, not {threads}")
        self._name = name
        self._limit = threads
        self._workers = workers
        self._lock = threading.Lock()
        self._threads: list[Worker] = []
        self._made = 0
        self._ending = 0
        self._unfinished = 0
        self._closed = False
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()

    def submit(self, work: Work, /) -> None:
        with self._lock:
            if self._closed:
                return
            self._unfinished += 1
            if len(self._threads) - self._ending < min(self._unfinished, self._limit):
                self._start_thread()
            self._queue.put(work)

    def resize(self, threads: int) -> None:
        """Change the number of threads: more are started when work needs them, fewer end when they are free. Raises
        ValueError for less than one."""
        if threads < 1:
            raise ValueError(f"an executor needs a thread, not {threads}")
        with self._lock:
            if self._closed:
                return
            self._limit = threads
            for _ in range(len(self._threads) - self._ending - threads):
                self._ending += 1
                self._queue.put(None)
            while len(self._threads) - self._ending < min(self._unfinished, threads):
                self._start_thread()

    def shutdown(self, timeout_ms: float) -> bool:
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in self._threads:
                    self._queue.put(None)
        others = [thread for thread in self._threads if not thread.is_current]
        ended = [thread.join(timeout_ms / len(others)) for thread in others]
        return all(ended)

    def _start_thread(self) -> None:
        name = self._name if self._limit == 1 else f"{self._name}-{self._made}"
        self._made += 1
        # It waits for work and never for time, so it needs no clock but the machine's.
        thread = Worker(name, lambda: self._step(thread), SystemClock(), workers=self._workers)
        self._threads.append(thread)
        thread.start()

    def _step(self, thread: Worker) -> float:
        """Wait for a piece of work and run it."""
        work = self._queue.get()
        if work is None:
            thread.request_stop()
            with self._lock:
                if not self._closed:
                    self._ending -= 1
                    self._threads.remove(thread)
            return 0
        run_logged(work, self._name)
        # Hold no reference while idle: a finished task may own a whole response.
        del work
        with self._lock:
            self._unfinished -= 1
        return 0


class InlineExecutor:
    """Runs work at once on the caller's thread: for tests and the simulation, where one thread does everything.

    Work submitted by work runs after it, not inside it.
    """

    def __init__(self) -> None:
        self._pending: deque[Work] = deque()
        self._running = False

    def submit(self, work: Work, /) -> None:
        self._pending.append(work)
        if self._running:
            return
        self._running = True
        try:
            while self._pending:
                run_logged(self._pending.popleft(), "inline")
        finally:
            self._running = False

    def shutdown(self, timeout_ms: float) -> bool:
        return True


def run_logged(work: Work, where: str) -> None:
    """Run `work`; log what it raises."""
    try:
        work()
    except Exception:
        logger.exception("a task failed on %s", where)
