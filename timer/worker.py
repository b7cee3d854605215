"""A worker: one thread around a `step()`, with one answer to everything that every such loop meets.

The loops of a broker differ in what a step does. When the next one is due, what an unexpected error leads to, how the
thread is woken and how it ends are the same for all, and are said here once. Nothing needs the thread: tests and the
simulation call `turn` themselves, in the order they like. The steps that expire timers are in `purgatory.py`
(the reaper) and `scheduler.py`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from enum import Enum

from timer.clock import Clock
from timer.metrics import NULL_METRICS, Metrics

logger = logging.getLogger(__name__)

BACKOFF_MS = 100
MAX_BACKOFF_MS = 5_000
JOIN_MS = 5_000
GROUP, TYPE = "kafka.server", "Workers"

Step = Callable[[], float | None]
"""One piece of work; see `Worker` for what it returns."""


class OnError(Enum):
    """What an unexpected error of a step leads to. It is logged with its cause and counted in any case."""

    GO_ON = "the step is tried again after a backoff that doubles up to a limit, for ever"
    END = "the thread ends and stays dead, which `is_dead` and a metric tell (Kafka's log cleaner)"


class Worker:
    """Calls `step` until it is stopped.

    The contract of `step()`: it does one piece of work and returns in how many milliseconds the next is due: 0 for at
    once, None for not before somebody calls `wake`. A `wake` also ends a wait in milliseconds early, and one that comes
    while a step runs is not lost: one more step follows. A step may raise anything. It is called again then, so it
    must not have taken work off a queue that only it knows of; and it must not block for good, unless `interrupt`
    gets it out.

    `backoff_ms` is the first wait after an unexpected error; neither it nor those that follow are cut short by `wake`.
    `workers` is where the worker is found with its health until it is stopped, and says what follows each step.
    """

    def __init__(
        self,
        name: str,
        step: Step,
        clock: Clock,
        *,
        interrupt: Callable[[], None] | None = None,
        on_error: OnError = OnError.GO_ON,
        backoff_ms: float = BACKOFF_MS,
        workers: Workers | None = None,
    ) -> None:
        self.name = name
        self.failures = 0
        """Unexpected errors so far."""
        self.failures_in_a_row = 0
        self.last_error: Exception | None = None
        """The last unexpected error, for as long as no step has gone well since."""
        self._step = step
        self._clock = clock
        self._after_step = None if workers is None else workers.after_step
        self._interrupt = interrupt
        self.on_error = on_error
        self._backoff_ms = backoff_ms
        self._workers = workers
        self._changed = threading.Condition()
        self._woken = False
        self._stopping = False
        self._thread: threading.Thread | None = None
        if workers is not None:
            workers.add(self)

    # ---- life

    def start(self) -> None:
        """Begin to step, on a thread of its own. Once."""
        if self._thread is not None:
            raise RuntimeError(f"{self.name} has been started")
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There is something to do: step now, or once more after the step in progress. Never blocks."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def request_stop(self) -> None:
        """Let the step in progress, if there is one, be the last. Does not wait; idempotent."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._interrupt is not None:
            self._interrupt()
        if self._workers is not None:
            self._workers.remove(self)

    def join(self, timeout_ms: float = JOIN_MS) -> bool:
        """Wait for the thread to end after `request_stop`; False, and a line in the log, if it takes longer.

        A thread that does not wait for itself: called by a step, this is True at once.
        """
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout_ms / 1000)
        if thread.is_alive():
            logger.warning("%s did not end in %g ms; going on without it", self.name, timeout_ms)
            return False
        return True

    def stop(self, timeout_ms: float = JOIN_MS) -> bool:
        """`request_stop` and `join`."""
        self.request_stop()
        return self.join(timeout_ms)

    # ---- health

    @property
    def is_started(self) -> bool:
        return self._thread is not None

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was asked for."""
        return self._stopping

    @property
    def is_current(self) -> bool:
        """Whether the caller is this worker's thread."""
        return self._thread is threading.current_thread()

    @property
    def is_dead(self) -> bool:
        """The thread has ended although nobody asked it to."""
        thread = self._thread
        return thread is not None and not thread.is_alive() and not self._stopping

    # ---- work

    def turn(self) -> float | None:
        """One step and what follows it. An unexpected error is dealt with; returns when the next turn is due."""
        try:
            try:
                due = self._step()
            finally:
                if self._after_step is not None:
                    self._after_step()
        except Exception as error:
            return self._failed(error)
        if self.failures_in_a_row:
            logger.info("%s goes on after %d failures in a row", self.name, self.failures_in_a_row)
            self.failures_in_a_row, self.last_error = 0, None
        return due

    def _run(self) -> None:
        try:
            while not self._stopping:
                due = self.turn()
                if self.failures_in_a_row:
                    if self.on_error is OnError.END:
                        return
                    self._back_off(due or 0)
                elif due != 0:
                    self._wait(due)
        except BaseException as error:  # what no policy covers, such as SystemExit, is not silent either
            logger.critical("%s has ended", self.name, exc_info=error)

    def _wait(self, due: float | None) -> None:
        with self._changed:
            while not self._woken and not self._stopping:
                self._clock.wait(self._changed, due)
                if due is not None:
                    break
            self._woken = False

    def _back_off(self, wait_ms: float) -> None:
        until = self._clock.monotonic_ms() + wait_ms
        with self._changed:
            while not self._stopping and (left := until - self._clock.monotonic_ms()) > 0:
                self._clock.wait(self._changed, left)

    def _failed(self, error: Exception) -> float:
        before = self.last_error
        self.failures += 1
        self.failures_in_a_row += 1
        self.last_error = error
        if self._stopping:
            logger.debug("%s failed while it was stopped", self.name, exc_info=error)
        elif self.on_error is OnError.END:
            logger.error("%s ends: a step failed unexpectedly", self.name, exc_info=error)
        elif before is None or (type(before), str(before)) != (type(error), str(error)):
            logger.error("%s: a step failed unexpectedly; it is tried again", self.name, exc_info=error)
        if self._workers is not None:
            self._workers.count_failure(self)
        return float(min(self._backoff_ms * 2 ** min(self.failures_in_a_row - 1, 32), MAX_BACKOFF_MS))


class Workers:
    """The workers of one broker: who watches over its health, or drives it without threads, finds them all here.

    `after_step` runs after every step of each of them, after one that failed too, on the worker's thread: what steps
    put off until they hold no lock can't be forgotten.
    """

    def __init__(self, metrics: Metrics = NULL_METRICS, after_step: Callable[[], None] | None = None) -> None:
        self.after_step = after_step
        self._metrics = metrics
        self._lock = threading.Lock()
        self._workers: dict[int, Worker] = {}
        metrics.gauge(GROUP, TYPE, "WorkerCount", lambda: float(len(self._workers)))
        metrics.gauge(GROUP, TYPE, "DeadWorkerCount", lambda: float(len(self.dead())))
        metrics.gauge(GROUP, TYPE, "FailingWorkerCount", lambda: float(len(self.failing())))

    def __iter__(self) -> Iterator[Worker]:
        with self._lock:
            workers = list(self._workers.values())
        return iter(workers)

    def dead(self) -> list[Worker]:
        """Those whose thread has ended although nobody asked it to."""
        return [worker for worker in self if worker.is_dead]

    def failing(self) -> list[Worker]:
        """Those whose last step failed; `last_error` says with what."""
        return [worker for worker in self if worker.failures_in_a_row]

    def add(self, worker: Worker) -> None:
        with self._lock:
            self._workers[id(worker)] = worker

    def remove(self, worker: Worker) -> None:
        with self._lock:
            known = self._workers.pop(id(worker), None)
        if known is not None:
            self._metrics.remove(GROUP, TYPE, "ErrorsPerSec", worker=worker.name)

    def count_failure(self, worker: Worker) -> None:
        self._metrics.meter(GROUP, TYPE, "ErrorsPerSec", worker=worker.name).mark()
