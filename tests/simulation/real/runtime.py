"""The owner of time: simulated processes, their threads (each a greenlet), and which of them goes on next.

A thread gives way only where it waits: for a condition, a lock that is held, a queue, an answer (`threads.py`). Then
the seed chooses among those that can go on; if nobody can, the virtual clock moves to the next thing that is due.
"""

from __future__ import annotations

import heapq
import logging
import random
from collections.abc import Callable

import greenlet

_SWITCH_NS = 10_000
"""What a thread's turn takes, so that time passes for those that are always busy, too."""


class Process:
    """What lives and dies together; a process that is paused keeps its threads from running."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.parked: list[Task] = []
        self.tasks: list[Task] = []


class Task:
    """A simulated thread."""

    def __init__(self, runtime: Runtime, process: Process, run: Callable[[], object], name: str) -> None:
        self.process = process
        self.name = name
        self.number = runtime.next_number()
        self.finished = False
        self.token: object = None
        """Of the wait in progress; whoever wakes must name it."""
        self.joiners: list[tuple[Task, object]] = []
        self.error: BaseException | None = None
        self.green = greenlet.greenlet(lambda: self._run(runtime, run), parent=runtime.hub)
        process.tasks.append(self)

    def _run(self, runtime: Runtime, run: Callable[[], object]) -> None:
        try:
            run()
        except greenlet.GreenletExit:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.finished = True
            if not runtime.over:
                for task, token in self.joiners:
                    runtime.wake(task, token)


class Runtime:
    """The owner of time."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.hub = greenlet.getcurrent()
        self.now_ns = 1_000_000_000
        self.wall_offset_ns = 1_700_000_000_000_000_000
        self.over = False
        self.current: Task | None = None
        self.switches = 0
        self.watchers: list[Callable[[], None]] = []
        """Called after every turn; what they raise ends the simulation."""
        self._ready: list[Task] = []
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._numbers = 0

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    # -- time ----------------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        return self.now_ns // 1_000_000

    def after(self, ms: float, what: Callable[[], None]) -> None:
        """Call `what`, which must not wait, when that time has passed."""
        self._sequence += 1
        heapq.heappush(self._heap, (self.now_ns + max(0, round(ms * 1e6)), self._sequence, what))

    # -- threads -------------------------------------------------------------------------------------------------------

    def spawn(self, process: Process, run: Callable[[], object], name: str) -> Task:
        task = Task(self, process, run, name)
        self._ready.append(task)
        return task

    def block(self, timeout_ms: float | None, token: object) -> bool:
        """The current thread waits until `wake` names its token (True) or the time is up (False)."""
        task = self.current
        assert task is not None, "only a simulated thread may wait"
        if self.over:
            raise greenlet.GreenletExit
        task.token = token
        timed_out = False

        def expire() -> None:
            nonlocal timed_out
            if task.token is token:
                timed_out = True
                self.wake(task, token)

        if timeout_ms is not None:
            self.after(timeout_ms, expire)
        self.hub.switch()
        if self.over:
            raise greenlet.GreenletExit
        return not timed_out

    def wake(self, task: Task, token: object) -> None:
        if task.token is token:
            task.token = None
            self._ready.append(task)

    def sleep(self, ms: float) -> None:
        self.block(ms, object())

    def run(self, until: Callable[[], bool], limit_ms: float) -> bool:
        """Go on until the condition holds (True) or the time is over (False)."""
        end = self.now_ns + round(limit_ms * 1e6)
        while not until():
            if self.now_ns >= end:
                return False
            self._turn(end)
        return True

    def run_for(self, ms: float) -> None:
        self.run(lambda: False, ms)

    def _turn(self, end: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= self.now_ns:
            heapq.heappop(heap)[2]()
        if not self._ready:
            self.now_ns = min(end, heap[0][0]) if heap else end
            return
        ready = self._ready
        at = self.rng.randrange(len(ready)) if len(ready) > 1 else 0
        ready[at], ready[-1] = ready[-1], ready[at]
        task = ready.pop()
        if not task.process.alive:
            return
        if task.process.paused:
            task.process.parked.append(task)
            return
        self.now_ns += _SWITCH_NS
        self.switches += 1
        self.current = task
        try:
            task.green.switch()
        finally:
            self.current = None
        if task.error is not None and not isinstance(task.error, SystemExit):
            error, task.error = task.error, None
            raise error
        for watch in self.watchers:
            watch()

    # -- processes -----------------------------------------------------------------------------------------------------

    def pause(self, process: Process) -> None:
        process.paused = True

    def resume(self, process: Process) -> None:
        process.paused = False
        self._ready.extend(process.parked)
        process.parked.clear()

    def kill(self, process: Process) -> None:
        """Its threads never run again. They are ended for good when the simulation is."""
        process.alive = False

    def close(self, processes: list[Process]) -> None:
        """Unwind every thread that is left; what they log of that says nothing."""
        logging.disable(logging.CRITICAL)
        self.over = True
        for process in processes:
            for task in process.tasks:
                self.current = task
                for _ in range(20):
                    if task.green.dead or not task.green:
                        break
                    task.green.throw(greenlet.GreenletExit)
        self.current = None
        self._heap.clear()
        self._ready.clear()


_active: Runtime | None = None


def activate(runtime: Runtime | None) -> None:
    global _active
    _active = runtime


def runtime() -> Runtime:
    assert _active is not None
    return _active


def active() -> Runtime | None:
    """None outside of simulations, where locks of a broker that is gone may still be let go."""
    return _active
