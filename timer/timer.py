"""A timer over the timing wheel: tasks are added with a delay, and run on an executor when it has passed."""

import threading
from typing import Protocol

from timer.clock import Clock
from timer.executor import Executor, ThreadExecutor
from timer.timing_wheel import Bucket, Entry, TimingWheel
from timer.worker import Workers

_NEVER = 1 << 62
_NOT_SLEEPING = -1
# How many entries of due buckets are put back before the lock is released for others.
_SLICE = 512
_EXECUTOR_SHUTDOWN_MS = 5000.0


class TimerTask(Entry):
    """Something to run `delay_ms` after it is added to a timer. Subclasses define `run`.

    A task is in at most one timer; adding it again replaces its older entry.
    """

    __slots__ = ("_timer", "delay_ms")

    def __init__(self, delay_ms: int) -> None:
        self._next = None
        self._prev = None
        self._timer: SystemTimer | None = None
        self.delay_ms = delay_ms

    def run(self) -> None:
        """What to do when the delay has passed. Runs on the timer's executor."""
        raise NotImplementedError

    def cancel(self) -> bool:
        """Take the task out of its timer in O(1); False if it is in none (never added, cancelled, or due already).

        A cancelled task can be added again.
        """
        timer = self._timer
        if timer is None:
            return False
        with timer._lock:
            return timer._wheel.remove(self)


class Timer(Protocol):
    """What purgatories and schedulers need of a timer."""

    @property
    def clock(self) -> Clock:
        """Whose time it goes by."""
        ...

    def add(self, task: TimerTask) -> None:
        """Run `task` once its delay has passed from now. A delay of 0 or less is due at once, on the executor."""
        ...

    def advance(self, timeout_ms: float | None) -> bool:
        """Wait up to `timeout_ms` (None: until woken) for a bucket to fall due and hand its due tasks over.

        Returns whether a bucket was due.
        """
        ...

    def wakeup(self) -> None:
        """Make the thread that waits in `advance`, or the next to call it, return without waiting."""
        ...

    @property
    def size(self) -> int:
        """Tasks that wait; a task that has been handed to the executor does not count."""
        ...

    def shutdown(self) -> None: ...


class SystemTimer:
    """The timer. Thread-safe; one thread at a time drives it by calling `advance` in a loop.

    Without an `executor` tasks run on a thread of their own, `executor-<name>`, which is one of `workers`. After
    `shutdown` tasks are ignored.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        executor: Executor | None = None,
        *,
        workers: Workers | None = None,
        tick_ms: int = 1,
        wheel_size: int = 20,
    ) -> None:
        self.name = name
        self.clock = clock
        self._monotonic_ms = clock.monotonic_ms
        self._executor = executor if executor is not None else ThreadExecutor(f"executor-{name}", 1, workers)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._wheel = TimingWheel(tick_ms, wheel_size, clock.monotonic_ms())
        self._draining = Bucket(-1)
        # Until when the driver sleeps, so that only an earlier bucket wakes it.
        self._sleeps_until = _NOT_SLEEPING
        self._woken = False
        self._closed = False

    def add(self, task: TimerTask) -> None:
        now = self._monotonic_ms()
        wheel = self._wheel
        with self._lock:
            if self._closed:
                return
            if task._next is not None:
                if task._timer is not self:
                    raise ValueError("the task waits in another timer")
                wheel.remove(task)
            task._timer = self
            task.expiration_ms = now + task.delay_ms
            wheel.catch_up(now)
            if wheel.insert(task):
                if wheel.queue[0][0] < self._sleeps_until:
                    self._sleeps_until = _NOT_SLEEPING
                    self._changed.notify_all()
                return
        self._executor.submit(task.run)

    def advance(self, timeout_ms: float | None) -> bool:
        if not self._await_due_bucket(timeout_ms):
            return False
        while self._hand_over_due():
            pass
        return True

    def wakeup(self) -> None:
        with self._lock:
            self._woken = True
            self._changed.notify_all()

    @property
    def size(self) -> int:
        return len(self._wheel)

    @property
    def next_due_ms(self) -> int | None:
        """When `advance` has something to do next, on the clock's monotonic time; None if nothing waits."""
        with self._lock:
            return self._wheel.next_due_ms

    def census(self, most: int) -> list[tuple[int, int, list[int]]]:
        """What `TimingWheel.census` says now; the lock is held for as long as that takes."""
        with self._lock:
            return self._wheel.census(most)

    def shutdown(self) -> None:
        """Run nothing more than what the executor already has, for which this waits up to 5 seconds."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()
        self._executor.shutdown(_EXECUTOR_SHUTDOWN_MS)

    def _await_due_bucket(self, timeout_ms: float | None) -> bool:
        """Sleep until a bucket is due (True), or until the timeout, a wake-up or shutdown (False)."""
        with self._lock:
            now = self._monotonic_ms()
            deadline = _NEVER if timeout_ms is None else now + max(timeout_ms, 0.0)
            while True:
                due = self._wheel.next_due_ms
                if self._closed:
                    return False
                if due is not None and due <= now:
                    return True
                if self._woken:
                    self._woken = False
                    return False
                if now >= deadline:
                    return False
                self._sleeps_until = _NEVER if due is None else due
                end = min(self._sleeps_until, deadline)
                self.clock.wait(self._changed, None if end >= _NEVER else end - now)
                self._sleeps_until = _NOT_SLEEPING
                now = self._monotonic_ms()

    def _hand_over_due(self) -> bool:
        """Put back or hand over one slice of due entries; False when none is left.

        The lock is held for a slice only, so a bucket of a million tasks does not stop those who add and cancel.
        """
        wheel, draining = self._wheel, self._draining
        expired: list[TimerTask] = []
        with self._lock:
            if self._closed:
                return False
            now = self._monotonic_ms()
            budget = _SLICE
            while budget > 0:
                entry = draining._next
                if entry is draining:
                    if not wheel.pop_due_bucket(now, draining):
                        break
                    continue
                assert isinstance(entry, TimerTask)
                wheel.remove(entry)
                if not wheel.insert(entry):
                    expired.append(entry)
                budget -= 1
        submit = self._executor.submit
        for task in expired:
            submit(task.run)
        return budget == 0
