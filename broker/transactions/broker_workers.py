"""One worker a destination broker, so that a slow broker holds up nobody else.

Workers are made on first use and bounded by the number of brokers ever talked to; each drains what has been queued for
its broker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from timer.clock import Clock, SystemClock
from timer.worker import Worker, Workers


class BrokerWorkers:
    """Runs `step(broker_id)` on the broker's own thread after each `wake(broker_id)`.

    Wakes that come while a step runs are merged into one further step. With `threaded=False` nothing runs by
    itself: tests and the simulation call the steps.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[int], None],
        *,
        threaded: bool = True,
        clock: Clock | None = None,
        workers: Workers | None = None,
    ) -> None:
        self._name = name
        self._step = step
        self._threaded = threaded
        self._clock = clock or SystemClock()
        self._registry = workers
        self._lock = threading.Lock()
        self._workers: dict[int, Worker] = {}
        self._stopped = False

    def wake(self, broker_id: int) -> None:
        """There is something to do for this broker."""
        with self._lock:
            if self._stopped:
                return
            worker = self._workers.get(broker_id)
            if worker is None:
                worker = self._workers[broker_id] = Worker(
                    f"{self._name}-{broker_id}", partial(self._step, broker_id), self._clock, workers=self._registry
                )
                if self._threaded:
                    worker.start()
        worker.wake()

    def shutdown(self, timeout_ms: int = 5000) -> None:
        """End all threads; one that waits for an answer is given `timeout_ms` to finish."""
        with self._lock:
            self._stopped = True
            workers = list(self._workers.values())
        for worker in workers:
            worker.request_stop()
        for worker in workers:
            worker.join(timeout_ms)
