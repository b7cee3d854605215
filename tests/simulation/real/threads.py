"""Threads of simulated processes: each is a greenlet, and one owner of time says which goes on next.

What the product's modules know as `threading`, `queue` and `time` is replaced by what stands here for as long as a
simulation runs (`substitutes.py`), so a broker's own loops (workers, reapers, schedulers, handler pools) run as they
are written. A thread gives way only where it waits: for a condition, a lock that is held, a queue, an answer. Then the
seed chooses among those that can go on; if nobody can, the virtual clock moves to the next thing that is due.
"""

from __future__ import annotations

import heapq
import logging
import queue
import random
import threading as real_threading
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace, TracebackType
from typing import Any

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


_OUTSIDE: Any = object()


def _me() -> Any:
    return runtime().current or _OUTSIDE


class Lock:
    """`threading.Lock`."""

    reentrant = False

    def __init__(self) -> None:
        self.owner: Any = None
        self.count = 0
        self.waiters: deque[tuple[Task, object]] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = _me()
        if self.reentrant and self.owner is me:
            self.count += 1
            return True
        while self.owner is not None:
            if not blocking:
                return False
            token = object()
            self.waiters.append((me, token))
            if not runtime().block(None if timeout < 0 else timeout * 1000, token):
                return False
        self.owner, self.count = me, 1
        return True

    def release(self) -> None:
        self.count -= 1
        if self.count > 0:
            return
        self.owner = None
        current = _active
        while self.waiters and current is not None and not current.over:
            task, token = self.waiters.popleft()
            if task.token is token:
                current.wake(task, token)
                return

    def locked(self) -> bool:
        return self.owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock(Lock):
    """`threading.RLock`."""

    reentrant = True


class Condition:
    """`threading.Condition`; the lock may be a real one, which nobody holds while waiting."""

    def __init__(self, lock: Any = None) -> None:
        self._lock: Any = RLock() if lock is None else lock
        self._waiting: deque[tuple[Task, object]] = deque()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> Any:
        return self._lock.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> Any:
        return self._lock.__exit__(kind, error, where)

    def wait(self, timeout: float | None = None) -> bool:
        token = object()
        self._waiting.append((_me(), token))
        lock, count = self._lock, self._lock.count
        lock.count = 1
        lock.release()
        try:
            return runtime().block(None if timeout is None else timeout * 1000, token)
        finally:
            if not runtime().over:
                lock.acquire()
                lock.count = count

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        end = None if timeout is None else runtime().now_ns + timeout * 1e9
        while not (result := predicate()):
            left = None if end is None else (end - runtime().now_ns) / 1e9
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result

    def notify(self, n: int = 1) -> None:
        while n > 0 and self._waiting:
            task, token = self._waiting.popleft()
            if task.token is token:
                runtime().wake(task, token)
                n -= 1

    def notify_all(self) -> None:
        if not runtime().over:
            self.notify(len(self._waiting))


class Event:
    """`threading.Event`."""

    def __init__(self) -> None:
        self._set = False
        self._waiting: list[tuple[Task, object]] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        for task, token in self._waiting:
            runtime().wake(task, token)
        self._waiting.clear()

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            token = object()
            self._waiting.append((_me(), token))
            runtime().block(None if timeout is None else timeout * 1000, token)
        return self._set


class SimpleQueue:
    """`queue.SimpleQueue`."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiting: deque[tuple[Task, object]] = deque()

    def put(self, item: Any) -> None:
        self._items.append(item)
        while self._waiting:
            task, token = self._waiting.popleft()
            if task.token is token:
                runtime().wake(task, token)
                return

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        while not self._items:
            if not block:
                raise queue.Empty
            token = object()
            self._waiting.append((_me(), token))
            if not runtime().block(None if timeout is None else timeout * 1000, token):
                raise queue.Empty
        return self._items.popleft()

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def qsize(self) -> int:
        return len(self._items)

    def empty(self) -> bool:
        return not self._items


class Thread:
    """`threading.Thread`; belongs to the process of the thread that makes it."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str = "thread",
        args: tuple[Any, ...] = (),
        daemon: bool | None = None,
    ) -> None:
        self.name = name
        self.daemon = daemon
        self._target = target
        self._args = args
        self.task: Task | None = None

    def start(self) -> None:
        current = runtime().current
        assert current is not None
        assert self._target is not None
        target, args = self._target, self._args
        self.task = runtime().spawn(current.process, lambda: target(*args), self.name)
        self.task.thread = self  # type: ignore[attr-defined]

    def join(self, timeout: float | None = None) -> None:
        task = self.task
        assert task is not None
        if not task.finished:
            token = object()
            task.joiners.append((_me(), token))
            runtime().block(None if timeout is None else timeout * 1000, token)

    def is_alive(self) -> bool:
        return self.task is not None and not self.task.finished


def _current_thread() -> Any:
    task = runtime().current
    return getattr(task, "thread", task)


def _get_ident() -> int:
    task = runtime().current
    return 0 if task is None else task.number


THREADING = SimpleNamespace(
    Thread=Thread,
    Lock=Lock,
    RLock=RLock,
    Condition=Condition,
    Event=Event,
    local=real_threading.local,
    current_thread=_current_thread,
    get_ident=_get_ident,
)
QUEUE = SimpleNamespace(SimpleQueue=SimpleQueue, Empty=queue.Empty)
TIME = SimpleNamespace(
    monotonic_ns=lambda: runtime().now_ns,
    time_ns=lambda: runtime().now_ns + runtime().wall_offset_ns,
)
