"""One thread a destination broker, so that a slow broker holds up nobody else.

Threads are made on first use and bounded by the number of brokers ever talked to; each is a loop around a step that
drains what has been queued for its broker.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class BrokerWorkers:
    """Runs ``step(broker_id)`` on the broker's own thread after each ``wake(broker_id)``.

    Wakes that come while a step runs are merged into one further step. With ``threaded=False`` nothing runs by
    itself: tests and the simulation call the steps.
    """

    def __init__(self, name: str, step: Callable[[int], None], *, threaded: bool = True) -> None:
        self._name = name
        self._step = step
        self._threaded = threaded
        self._changed = threading.Condition()
        self._woken: set[int] = set()
        self._threads: dict[int, threading.Thread] = {}
        self._stopped = False

    def wake(self, broker_id: int) -> None:
        """There is something to do for this broker."""
        if not self._threaded:
            return
        with self._changed:
            if self._stopped:
                return
            self._woken.add(broker_id)
            if broker_id not in self._threads:
                thread = threading.Thread(
                    target=self._run, args=(broker_id,), name=f"{self._name}-{broker_id}", daemon=True
                )
                self._threads[broker_id] = thread
                thread.start()
            self._changed.notify_all()

    def shutdown(self, timeout_ms: int = 5000) -> None:
        """End all threads; one that waits for an answer is given ``timeout_ms`` to finish."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            threads = list(self._threads.values())
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(timeout_ms / 1000)

    def _run(self, broker_id: int) -> None:
        while True:
            with self._changed:
                while broker_id not in self._woken and not self._stopped:
                    self._changed.wait()
                if self._stopped:
                    return
                self._woken.discard(broker_id)
            try:
                self._step(broker_id)
            except Exception:
                log.exception("%s: step for broker %d failed", self._name, broker_id)
