"""One job that is run again whenever something may have changed: watches and new sessions ask, a thread runs it.

However often it is asked for while it runs or waits, one more run follows: each run looks at everything anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timer.clock import Clock


class Reruns:
    """`request()` never blocks, so a watch may call it. `run` answers for its own failures."""

    def __init__(self, name: str, run: Callable[[], None], clock: Clock) -> None:
        self._name = name
        self._run = run
        self._clock = clock
        self._wanted = False
        self._closed = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Run on a thread of its own from now on."""
        self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
        self._thread.start()

    def request(self) -> None:
        """Ask for a run."""
        with self._changed:
            self._wanted = True
            self._changed.notify_all()

    def step(self) -> bool:
        """One turn of the thread, for those who drive it themselves; returns whether a run was waiting."""
        with self._changed:
            wanted, self._wanted = self._wanted, False
        if wanted and not self._closed:
            self._run()
        return wanted

    def close(self) -> None:
        """No run begins from now on; waits for one under way, unless that is what calls. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _loop(self) -> None:
        while True:
            with self._changed:
                while not self._wanted and not self._closed:
                    self._clock.wait(self._changed, None)
                if self._closed:
                    return
            self.step()
