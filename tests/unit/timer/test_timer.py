"""The timer by the manual clock: when tasks run, where, and what cancelling and shutting down do."""

import gc
import sys
import threading
import time
from collections.abc import Callable

import pytest

from timer.clock import ManualClock, SystemClock
from timer.executor import InlineExecutor, ThreadExecutor
from timer.timer import SystemTimer, TimerTask


class Recorder(TimerTask):
    """Notes the clock when it runs."""

    def __init__(self, delay_ms: int, clock: ManualClock, log: list[tuple[int, int]]) -> None:
        super().__init__(delay_ms)
        self.clock, self.log = clock, log

    def run(self) -> None:
        self.log.append((self.delay_ms, self.clock.monotonic_ms()))


class Nothing(TimerTask):
    __slots__ = ()

    def run(self) -> None:
        raise AssertionError("nothing should expire here")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(start_ms=12_345)


@pytest.fixture
def timer(clock: ManualClock) -> SystemTimer:
    return SystemTimer("test", clock, InlineExecutor())


def drive(timer: SystemTimer, clock: ManualClock, ms: int, step: int = 1) -> None:
    for _ in range(0, ms, step):
        clock.advance(step)
        while timer.advance(0):
            pass


def test_tasks_run_at_their_time(timer: SystemTimer, clock: ManualClock) -> None:
    log: list[tuple[int, int]] = []
    start = clock.monotonic_ms()
    for delay in (8_000, 2, 500, 350, 450, 30_000):
        timer.add(Recorder(delay, clock, log))
    drive(timer, clock, 30_001)
    assert log == [(delay, start + delay) for delay in (2, 350, 450, 500, 8_000, 30_000)]
    assert timer.size == 0


def test_a_long_jump_runs_everything_in_order_of_expiry(timer: SystemTimer, clock: ManualClock) -> None:
    log: list[tuple[int, int]] = []
    delays = [7, 15_000, 3, 401, 20, 8_001, 399]
    for delay in delays:
        timer.add(Recorder(delay, clock, log))
    drive(timer, clock, 20_000, 20_000)
    assert [delay for delay, _ in log] == sorted(delays)


def test_an_idle_wheel_catches_up_so_tasks_land_fine(timer: SystemTimer, clock: ManualClock) -> None:
    clock.advance(3_600_000)
    log: list[tuple[int, int]] = []
    timer.add(Recorder(5, clock, log))
    assert timer.next_due_ms == clock.monotonic_ms() + 5
    drive(timer, clock, 4)
    assert log == []
    drive(timer, clock, 1)
    assert len(log) == 1


@pytest.mark.parametrize("delay", [0, -10])
def test_due_tasks_go_to_the_executor_at_once(timer: SystemTimer, clock: ManualClock, delay: int) -> None:
    log: list[tuple[int, int]] = []
    timer.add(Recorder(delay, clock, log))
    assert log == [(delay, clock.monotonic_ms())]


def test_cancel_then_add_again(timer: SystemTimer, clock: ManualClock) -> None:
    log: list[tuple[int, int]] = []
    task = Recorder(100, clock, log)
    assert not task.cancel()
    timer.add(task)
    assert task.cancel()
    assert not task.cancel()
    assert timer.size == 0
    drive(timer, clock, 50)
    timer.add(task)
    timer.add(task)
    assert timer.size == 1
    start = clock.monotonic_ms()
    drive(timer, clock, 200)
    assert log == [(100, start + 100)]


def test_a_task_is_in_one_timer_only(timer: SystemTimer, clock: ManualClock) -> None:
    task = Nothing(100)
    timer.add(task)
    with pytest.raises(ValueError, match="another timer"):
        SystemTimer("other", clock, InlineExecutor()).add(task)
    assert timer.size == 1


def test_nothing_runs_after_shutdown(timer: SystemTimer, clock: ManualClock) -> None:
    timer.add(Nothing(10))
    timer.shutdown()
    timer.add(Nothing(0))
    clock.advance(100)
    assert timer.advance(0) is False


def test_the_driver_sleeps_until_an_earlier_task_arrives() -> None:
    """No busy ticking: with the clock standing still the driver is in one wait, which an earlier bucket ends."""
    clock = ManualClock()
    timer = SystemTimer("test", clock, InlineExecutor())
    log: list[tuple[int, int]] = []
    waits: list[float | None] = []
    original = clock.wait

    def counted(condition: threading.Condition, timeout_ms: float | None) -> bool:
        waits.append(timeout_ms)
        return original(condition, timeout_ms)

    clock.wait = counted  # type: ignore[method-assign]
    timer.add(Recorder(10_000, clock, log))
    driver = threading.Thread(target=lambda: timer.advance(None), daemon=True)
    driver.start()
    wait_until(lambda: clock.waiters == 1)
    timer.add(Recorder(20_000, clock, log))
    time.sleep(0.02)
    assert waits == [8_000]  # the bucket of the fourth level
    timer.add(Recorder(7, clock, log))
    wait_until(lambda: len(waits) == 2 and clock.waiters == 1)
    assert waits == [8_000, 7]
    clock.advance(7)
    driver.join(60)
    assert log == [(7, 7)]


def test_a_slow_task_never_delays_the_clock() -> None:
    clock = ManualClock()
    executor = ThreadExecutor("slow")
    timer = SystemTimer("test", clock, executor)
    release, started, runner = threading.Event(), threading.Event(), []

    class Slow(TimerTask):
        def run(self) -> None:
            runner.append(threading.current_thread().name)
            started.set()
            release.wait(60)

    timer.add(Slow(1))
    later = Nothing(5_000)
    timer.add(later)
    clock.advance(1)
    while timer.advance(0):
        pass
    assert started.wait(60)
    # The task still runs; the clock goes on and other tasks come down the wheels.
    clock.advance(4_500)
    while timer.advance(0):
        pass
    assert timer.next_due_ms == 4_800  # its bucket, one level down
    assert later.cancel()
    release.set()
    timer.shutdown()
    assert runner == ["slow"]


def test_a_failing_task_is_logged_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    executor = ThreadExecutor("executor-test")
    done = threading.Event()

    def fail() -> None:
        raise RuntimeError("as told")

    executor.submit(fail)
    executor.submit(done.set)
    assert done.wait(60)
    assert executor.shutdown(5_000)
    executor.submit(fail)
    assert [record.exc_info[1].args for record in caplog.records if record.exc_info and record.exc_info[1]] == [
        ("as told",)
    ]


def test_an_executor_runs_as_many_at_once_as_it_has_threads() -> None:
    executor = ThreadExecutor("pool", threads=3)
    barrier = threading.Barrier(3)
    met = []
    for _ in range(3):
        executor.submit(lambda: met.append(barrier.wait(60)))
    assert executor.shutdown(10_000)
    assert sorted(met) == [0, 1, 2]
    with pytest.raises(ValueError, match="thread"):
        ThreadExecutor("none", threads=0)


def test_a_million_finished_timeouts_leave_nothing_behind() -> None:
    """A queue sorted by time kept finished requests until their timeout and filled the heap; here they go at once."""
    clock = ManualClock()
    timer = SystemTimer("test", clock, InlineExecutor())
    for _ in range(1_000):
        task = Nothing(30_000)
        timer.add(task)
        task.cancel()
    gc.collect()
    before = peak = sys.getallocatedblocks()
    live: list[Nothing] = []
    for number in range(1_000_000):
        task = Nothing(30_000)
        timer.add(task)
        live.append(task)
        if len(live) == 1_000:
            peak = max(peak, sys.getallocatedblocks())
            for finished in live:
                assert finished.cancel()
            live.clear()
        if number % 100_000 == 0:
            clock.advance(100)
            timer.advance(0)
    assert timer.size == 0
    assert clock.monotonic_ms() < 30_000
    # Blocks of memory in use: a few for each task that lives, none for the million that are gone.
    assert sys.getallocatedblocks() - before < 1_000
    assert peak - before < 10_000


def test_real_time_expiry_is_never_early_and_soon() -> None:
    clock = SystemClock()
    timer = SystemTimer("test", clock)
    done = threading.Event()
    times: list[float] = []

    class Stamp(TimerTask):
        def run(self) -> None:
            times.append((clock.monotonic_ns() - start) / 1e6)
            done.set()

    driver = threading.Thread(
        target=lambda: [timer.advance(None) for _ in range(100) if not done.is_set()], daemon=True
    )
    driver.start()
    start = clock.monotonic_ns()
    timer.add(Stamp(45))
    assert done.wait(60)
    timer.shutdown()
    driver.join(60)
    assert 44 <= times[0] < 5_000


def wait_until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.001)
