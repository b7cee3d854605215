"""Many threads at once: nothing completes twice, nothing is lost, and all counters return to zero."""

import random
import threading
import time
from collections.abc import Callable

import pytest

from timer.clock import SystemClock
from timer.purgatory import DelayedOperation, Purgatory
from timer.timer import SystemTimer, TimerTask

THREADS = 6


class Waiter(DelayedOperation):
    """Ready when `remaining` events came; counts completions without a lock, so that a second one would show."""

    def __init__(self, timeout_ms: int, remaining: int) -> None:
        super().__init__(timeout_ms)
        self.guard = threading.Lock()
        self.remaining = remaining
        self.completions: list[str] = []

    def arrive(self) -> None:
        with self.guard:
            self.remaining -= 1

    def try_complete(self) -> bool:
        return self.remaining <= 0 and self.force_complete()

    def on_complete(self) -> None:
        self.completions.append(threading.current_thread().name)


def in_threads(count: int, work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []
    start = threading.Barrier(count)

    def body(number: int) -> None:
        try:
            start.wait(60)
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=body, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "threads are stuck"
    assert failures == []


def test_one_winner_among_many_completers() -> None:
    operations = [Waiter(1_000, 0) for _ in range(500)]
    wins = [0] * THREADS

    def complete(number: int) -> None:
        for operation in operations:
            wins[number] += operation.force_complete()

    in_threads(THREADS, complete)
    assert sum(wins) == len(operations)
    assert all(len(operation.completions) == 1 for operation in operations)


def test_the_last_event_always_completes() -> None:
    """Watching and the last event race, over and over: an event between look and watch must not be lost."""
    purgatory: Purgatory[Waiter] = Purgatory("Race", SystemTimer("race", SystemClock()), purge_interval=100)
    try:
        for _ in range(300):
            operation = Waiter(60_000, THREADS - 1)

            def act(number: int, operation: Waiter = operation) -> None:
                if number == 0:
                    purgatory.try_complete_else_watch(operation, ["a", "b"])
                else:
                    operation.arrive()
                    purgatory.check_and_complete("a" if number % 2 else "b")

            in_threads(THREADS, act)
            assert len(operation.completions) == 1
        assert purgatory.num_delayed == 0
        purgatory.purge_completed()
        assert purgatory.watched == 0
    finally:
        purgatory.shutdown()


def test_who_comes_during_a_check_does_not_wait_and_is_not_missed() -> None:
    purgatory: Purgatory[Waiter] = Purgatory("Turns", SystemTimer("turns", SystemClock()), reaper_enabled=False)
    checking, go_on = threading.Event(), threading.Event()

    class Slow(Waiter):
        def try_complete(self) -> bool:
            ready = self.remaining <= 0
            if threading.current_thread().name == "slow":
                checking.set()
                go_on.wait(60)
            return ready and self.force_complete()

    operation = Slow(60_000, 1)
    purgatory.try_complete_else_watch(operation, ["a"])
    slow = threading.Thread(target=lambda: purgatory.check_and_complete("a"), name="slow", daemon=True)
    slow.start()
    assert checking.wait(60)
    operation.arrive()
    assert purgatory.check_and_complete("a") == 0
    assert operation.completions == []
    go_on.set()
    slow.join(60)
    assert operation.completions == ["slow"]
    assert (purgatory.watched, purgatory.num_delayed) == (0, 0)


def test_a_check_that_fails_leaves_the_operation_usable() -> None:
    purgatory: Purgatory[Waiter] = Purgatory("Fail", SystemTimer("fail", SystemClock()), reaper_enabled=False)

    class Failing(Waiter):
        broken = False

        def try_complete(self) -> bool:
            if self.broken:
                raise RuntimeError("as told")
            return super().try_complete()

    operation = Failing(60_000, 1)
    purgatory.try_complete_else_watch(operation, ["a"])
    operation.arrive()
    operation.broken = True
    with pytest.raises(RuntimeError, match="as told"):
        purgatory.check_and_complete("a")
    operation.broken = False
    assert purgatory.check_and_complete("a") == 1


def test_watch_complete_expire_and_cancel_at_once() -> None:
    purgatory: Purgatory[Waiter] = Purgatory("Mix", SystemTimer("mix", SystemClock()), purge_interval=50)
    made: list[list[Waiter]] = [[] for _ in range(THREADS)]
    try:

        def act(number: int) -> None:
            choose = random.Random(number)
            for _ in range(400):
                operation = Waiter(choose.choice([1, 2, 5, 20]), choose.choice([0, 1, 1]))
                made[number].append(operation)
                keys = choose.sample(range(8), choose.randint(1, 3))
                purgatory.try_complete_else_watch(operation, keys)
                if choose.random() < 0.5:
                    choose.choice(made[number]).arrive()
                purgatory.check_and_complete(choose.randrange(8))

        in_threads(THREADS, act)
        end = time.monotonic() + 60
        while not all(operation.is_completed for some in made for operation in some):
            assert time.monotonic() < end, "an operation was lost"
            time.sleep(0.005)
    finally:
        purgatory.shutdown()
    assert all(len(operation.completions) == 1 for some in made for operation in some)
    assert purgatory.num_delayed == 0
    purgatory.purge_completed()
    assert purgatory.watched == 0


def test_add_and_cancel_while_the_clock_moves() -> None:
    """Each task either ran once or was cancelled, never both and never neither."""
    timer = SystemTimer("storm", SystemClock())
    stop = threading.Event()
    driver = threading.Thread(target=lambda: [timer.advance(None) for _ in iter(stop.is_set, True)], daemon=True)
    driver.start()
    ran: list[int] = []
    cancelled: list[int] = []

    class Task(TimerTask):
        def __init__(self, delay_ms: int, number: int) -> None:
            super().__init__(delay_ms)
            self.number = number

        def run(self) -> None:
            ran.append(self.number)

    def act(number: int) -> None:
        choose = random.Random(number)
        live: list[Task] = []
        for step in range(1_500):
            task = Task(choose.choice([0, 1, 3, 25, 450]), number * 10_000 + step)
            timer.add(task)
            live.append(task)
            if choose.random() < 0.6:
                victim = live.pop(choose.randrange(len(live)))
                if victim.cancel():
                    cancelled.append(victim.number)

    in_threads(THREADS, act)
    end = time.monotonic() + 60
    while len(ran) + len(cancelled) < THREADS * 1_500:
        assert time.monotonic() < end, "a task was lost"
        time.sleep(0.005)
    assert sorted(ran + cancelled) == sorted(
        number * 10_000 + step for number in range(THREADS) for step in range(1_500)
    )
    assert timer.size == 0
    stop.set()
    timer.wakeup()
    driver.join(60)
    assert not driver.is_alive()
    timer.shutdown()


def test_a_reaper_expires_and_stops() -> None:
    purgatory: Purgatory[Waiter] = Purgatory("Fetch", SystemTimer("Fetch", SystemClock()), broker_id=7)
    operation = Waiter(20, 1)
    purgatory.try_complete_else_watch(operation, ["a"])
    end = time.monotonic() + 60
    while not operation.is_completed:
        assert time.monotonic() < end
        time.sleep(0.001)
    ours = [thread for thread in threading.enumerate() if thread.name in ("ExpirationReaper-7-Fetch", "executor-Fetch")]
    assert len(ours) == 2
    purgatory.shutdown()
    assert operation.completions == ["executor-Fetch"]
    assert not any(thread.is_alive() for thread in ours)
