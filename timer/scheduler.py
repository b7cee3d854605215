"""Named background tasks: once after a delay, or periodically (retention, ISR checks, checkpoints).

The waiting is done by a timing wheel, so a task that is cancelled is gone at once.
"""

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from timer.clock import Clock, ManualClock
from timer.executor import Executor, InlineExecutor, ThreadExecutor
from timer.news import News, of_error
from timer.timer import SystemTimer, TimerTask
from timer.worker import Worker, Workers

logger = logging.getLogger(__name__)


class ScheduledTask(Protocol):
    """A task that a scheduler has taken."""

    @property
    def name(self) -> str: ...

    def cancel(self) -> bool:
        """Do not run (again); a run in progress ends by itself. False if the task was already cancelled or done."""
        ...


class Scheduler(Protocol):
    """Runs tasks in the background. What a task raises is logged; a periodic task goes on."""

    def startup(self) -> None: ...

    def shutdown(self) -> None:
        """Take no more tasks, drop those that wait, and let running ones finish."""
        ...

    def schedule(self, name: str, task: Callable[[], None], delay_ms: int = 0, period_ms: int = -1) -> ScheduledTask:
        """Run `task` after `delay_ms`, and then every `period_ms` if that is positive.

        Runs of one task never overlap; rounds that a slow run has missed are skipped. A scheduler that is not running
        ignores the task and says so in the log.
        """
        ...

    def schedule_once(self, name: str, task: Callable[[], None], delay_ms: int = 0) -> ScheduledTask: ...


class _Task(TimerTask):
    """A timer task that puts itself back after each run."""

    __slots__ = ("_cancelled", "_due_ms", "_period_ms", "_scheduler", "_task", "name")

    def __init__(
        self, scheduler: "_WheelScheduler", name: str, task: Callable[[], None], delay_ms: int, period_ms: int
    ) -> None:
        super().__init__(max(delay_ms, 0))
        self.name = name
        self._scheduler = scheduler
        self._task = task
        self._period_ms = period_ms
        self._due_ms = scheduler.clock.monotonic_ms() + self.delay_ms
        self._cancelled = threading.Event()

    def cancel(self) -> bool:
        if self._cancelled.is_set():
            return False
        self._cancelled.set()
        super().cancel()
        return True

    def run(self) -> None:
        if self._cancelled.is_set():
            return
        try:
            self._task()
        except Exception as error:
            if self._period_ms <= 0 or self._scheduler.failures.is_new(self.name, of_error(error)):
                logger.exception("scheduled task %s failed", self.name)
        else:
            self._scheduler.failures.is_over(self.name)
        if self._period_ms <= 0:
            self._cancelled.set()
            return
        now = self._scheduler.clock.monotonic_ms()
        missed = max((now - self._due_ms) // self._period_ms, 0)
        self._due_ms += (missed + 1) * self._period_ms
        self.delay_ms = self._due_ms - now
        if not self._cancelled.is_set():
            self._scheduler.put_back(self)
            if self._cancelled.is_set():
                super().cancel()


class _WheelScheduler:
    """What both schedulers share: tasks in a timer."""

    def __init__(self, name: str, clock: Clock, executor: Executor) -> None:
        self.clock = clock
        self.failures = News(clock)
        """Of periodic tasks: one that fails each time is told of once."""
        self._name = name
        self._executor = executor
        self._timer: SystemTimer | None = None

    def startup(self) -> None:
        """Begin to take tasks. Raises RuntimeError if the scheduler runs already."""
        if self._timer is not None:
            raise RuntimeError(f"scheduler {self._name} is running already")
        self._timer = SystemTimer(self._name, self.clock, self._executor)

    def schedule(self, name: str, task: Callable[[], None], delay_ms: int = 0, period_ms: int = -1) -> ScheduledTask:
        scheduled = _Task(self, name, task, delay_ms, period_ms)
        timer = self._timer
        if timer is None:
            logger.info("scheduler %s is not running: task %s is ignored", self._name, name)
            scheduled.cancel()
        else:
            timer.add(scheduled)
        return scheduled

    def schedule_once(self, name: str, task: Callable[[], None], delay_ms: int = 0) -> ScheduledTask:
        return self.schedule(name, task, delay_ms)

    def put_back(self, task: _Task) -> None:
        timer = self._timer
        if timer is not None:
            timer.add(task)

    @property
    def size(self) -> int:
        """Tasks that wait for their time."""
        return 0 if self._timer is None else self._timer.size

    def shutdown(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.shutdown()


class BackgroundScheduler(_WheelScheduler):
    """Runs tasks on up to `threads` daemon threads; one more thread sleeps until the next is due. All are `workers`."""

    def __init__(
        self, threads: int, clock: Clock, name: str = "kafka-scheduler", workers: Workers | None = None
    ) -> None:
        self._pool = ThreadExecutor(name, threads, workers)
        super().__init__(name, clock, self._pool)
        self._threads = threads
        self._workers = workers
        self._driver: Worker | None = None

    def startup(self) -> None:
        super().startup()
        timer = self._timer
        assert timer is not None
        self._driver = Worker(f"{self._name}-timer", lambda: _drive(timer), self.clock, workers=self._workers)
        self._driver.start()

    def shutdown(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.request_stop()
        super().shutdown()
        if driver is not None:
            driver.join()
            # A scheduler may be started again.
            self._executor = self._pool = ThreadExecutor(self._name, self._threads, self._workers)

    def resize(self, threads: int) -> None:
        """Change the number of threads. Raises ValueError for less than one."""
        self._pool.resize(threads)
        self._threads = threads


def _drive(timer: SystemTimer) -> float:
    """Wait for the next tasks and hand them over. A timer that is shut down waits no longer."""
    timer.advance(None)
    return 0


class ManualScheduler(_WheelScheduler):
    """Runs tasks on the caller's thread when a manual clock has reached their time: call `tick` after advancing it.

    Running from the start, so tests need no `startup`.
    """

    def __init__(self, clock: ManualClock, name: str = "manual-scheduler") -> None:
        super().__init__(name, clock, InlineExecutor())
        super().startup()

    def startup(self) -> None:
        if self._timer is None:
            super().startup()

    def tick(self) -> None:
        """Run every task that is due now."""
        timer = self._timer
        while timer is not None and timer.advance(0):
            timer = self._timer
