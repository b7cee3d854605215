"""What the product's modules know as `threading`, `queue` and `time` while a simulation runs (`substitutes.py`).

A broker's own loops (workers, reapers, schedulers, handler pools) run as they are written, on threads of `runtime.py`.
"""

from __future__ import annotations

import queue
import threading as real_threading
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace, TracebackType
from typing import Any

from tests.simulation.real.runtime import Task, active, runtime

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
        current = active()
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
