"""One job that is run again whenever something may have changed: watches and new sessions ask, a worker runs it.

However often it is asked for while it runs or waits, one more run follows: each run looks at everything anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from timer.worker import Worker, Workers

if TYPE_CHECKING:
    from timer.clock import Clock


CLOSE_TIMEOUT_MS = 10_000


class Reruns:
    """`request()` never blocks, so a watch may call it. A run that raises is run again after a backoff."""

    def __init__(self, name: str, run: Callable[[], None], clock: Clock, workers: Workers | None = None) -> None:
        self._run = run
        self._wanted = False
        self._closed = False
        self._worker = Worker(name, self.step, clock, workers=workers)

    def start(self) -> None:
        """Run on a thread of its own from now on."""
        self._worker.start()

    def request(self) -> None:
        """Ask for a run."""
        self._wanted = True
        self._worker.wake()

    def step(self) -> float | None:
        """One turn of the worker, for those who drive it themselves; None if no run was waiting."""
        if not self._wanted:
            return None
        self._wanted = False  # whoever asks from here on gets another run
        if not self._closed:
            try:
                self._run()
            except Exception:
                self._wanted = True
                raise
        return 0

    def close(self) -> None:
        """No run begins from now on; waits for one under way, unless that is what calls. Idempotent.

        A run may wait for a ZooKeeper that is gone, so this waits no longer than `CLOSE_TIMEOUT_MS`.
        """
        self._closed = True
        self._worker.stop(CLOSE_TIMEOUT_MS)
