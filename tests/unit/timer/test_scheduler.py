"""Background tasks: once, periodically, cancelled, failing, overlapping never."""

import logging
import threading

import pytest

from timer.clock import ManualClock, SystemClock
from timer.scheduler import BackgroundScheduler, ManualScheduler


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def run(scheduler: ManualScheduler, clock: ManualClock, ms: int) -> None:
    for _ in range(ms):
        clock.advance(1)
        scheduler.tick()


def test_once_and_periodic(clock: ManualClock) -> None:
    scheduler = ManualScheduler(clock)
    once: list[int] = []
    often: list[int] = []
    scheduler.schedule_once("once", lambda: once.append(clock.monotonic_ms()), 10)
    scheduler.schedule("often", lambda: often.append(clock.monotonic_ms()), delay_ms=5, period_ms=20)
    run(scheduler, clock, 70)
    assert once == [10]
    assert often == [5, 25, 45, 65]
    assert scheduler.size == 1


def test_missed_rounds_are_skipped(clock: ManualClock) -> None:
    scheduler = ManualScheduler(clock)
    runs: list[int] = []

    def slow() -> None:
        runs.append(clock.monotonic_ms())
        if len(runs) == 1:
            clock.advance(55)

    scheduler.schedule("slow", slow, delay_ms=10, period_ms=10)
    run(scheduler, clock, 30)
    # Started at 10, ended at 65: the rounds at 20 to 60 are gone, the next is 70 and not a burst.
    assert runs == [10, 70, 80]


def test_cancel_stops_it_and_leaves_the_timer(clock: ManualClock) -> None:
    scheduler = ManualScheduler(clock)
    runs: list[int] = []
    task = scheduler.schedule("often", lambda: runs.append(1), 1, 1)
    run(scheduler, clock, 3)
    assert task.cancel()
    assert not task.cancel()
    assert scheduler.size == 0
    run(scheduler, clock, 3)
    assert len(runs) == 3


def test_a_task_may_cancel_itself(clock: ManualClock) -> None:
    scheduler = ManualScheduler(clock)
    runs: list[int] = []

    def once() -> None:
        runs.append(1)
        task.cancel()

    task = scheduler.schedule("self", once, 1, 1)
    run(scheduler, clock, 5)
    assert runs == [1]
    assert scheduler.size == 0


def test_a_failing_task_goes_on(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    scheduler = ManualScheduler(clock)
    runs: list[int] = []

    def fail() -> None:
        runs.append(1)
        raise RuntimeError("as told")

    scheduler.schedule("failing", fail, 1, 1)
    run(scheduler, clock, 3)
    assert len(runs) == 3
    assert "scheduled task failing failed" in caplog.text


def test_a_task_that_goes_on_failing_is_told_of_once(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    scheduler = ManualScheduler(clock)
    reasons = iter(["full", "full", "gone", "", "gone"])

    def task() -> None:
        reason = next(reasons)
        if reason:
            raise OSError(reason)

    scheduler.schedule("failing", task, 1, 1)
    told = []
    for _ in range(5):
        run(scheduler, clock, 1)
        told.append(caplog.text.count("scheduled task failing failed"))
    assert told == [1, 1, 2, 2, 3]


def test_a_stopped_scheduler_ignores_tasks(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    scheduler = ManualScheduler(clock)
    waiting = scheduler.schedule_once("waiting", lambda: pytest.fail("ran after shutdown"), 1)
    scheduler.shutdown()
    with caplog.at_level(logging.INFO):
        task = scheduler.schedule_once("late", lambda: pytest.fail("ran after shutdown"))
    assert "late is ignored" in caplog.text
    assert not task.cancel()
    clock.advance(10)
    scheduler.tick()
    assert waiting.name == "waiting"


def test_background_threads_run_tasks_and_stop() -> None:
    scheduler = BackgroundScheduler(2, SystemClock(), "test-scheduler")
    scheduler.startup()
    with pytest.raises(RuntimeError, match="running already"):
        scheduler.startup()
    done = threading.Event()
    runs: list[str] = []

    def count() -> None:
        runs.append(threading.current_thread().name)
        if len(runs) >= 3:
            done.set()

    scheduler.schedule("count", count, 0, 2)
    assert done.wait(60)
    scheduler.shutdown()
    assert not any(thread.name.startswith("test-scheduler") for thread in threading.enumerate())
    assert all(name.startswith("test-scheduler") for name in runs)
    # It can be started again.
    scheduler.startup()
    again = threading.Event()
    scheduler.schedule_once("again", again.set)
    assert again.wait(60)
    scheduler.shutdown()


def test_shutdown_waits_for_a_running_task() -> None:
    scheduler = BackgroundScheduler(1, SystemClock(), "test-scheduler")
    scheduler.startup()
    started, finished = threading.Event(), []

    def slow() -> None:
        started.set()
        threading.Event().wait(0.05)
        finished.append(True)

    scheduler.schedule_once("slow", slow)
    assert started.wait(60)
    scheduler.shutdown()
    assert finished == [True]
