"""Workers on a clock that stands still, with a thread where the thread is what is asked about."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from broker.metrics import MetricsRegistry
from tests.support.sockets import wait_until
from timer.clock import ManualClock, SystemClock
from timer.executor import ThreadExecutor
from timer.worker import GROUP, MAX_BACKOFF_MS, TYPE, OnError, Worker, Workers


class Steps:
    """A step that returns or raises what it is told, and counts."""

    def __init__(self, *results: float | Exception | None) -> None:
        self.results = list(results)
        self.count = 0
        self.ran = threading.Condition()

    def __call__(self) -> float | None:
        with self.ran:
            self.count += 1
            self.ran.notify_all()
            result = self.results.pop(0) if self.results else None
        if isinstance(result, Exception):
            raise result
        return result

    def wait_for(self, count: int) -> None:
        with self.ran:
            assert self.ran.wait_for(lambda: self.count >= count, 10), f"{self.count} steps instead of {count}"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def started() -> Iterator[list[Worker]]:
    """Workers to be stopped at the end."""
    workers: list[Worker] = []
    yield workers
    for worker in workers:
        assert worker.stop()


def start(started: list[Worker], worker: Worker) -> Worker:
    started.append(worker)
    worker.start()
    return worker


def test_a_turn_is_a_step_and_tells_when_the_next_is_due(clock: ManualClock) -> None:
    worker = Worker("w", Steps(0, 25, None), clock)
    assert [worker.turn(), worker.turn(), worker.turn()] == [0, 25, None]


def test_zero_goes_on_and_none_waits_to_be_woken(clock: ManualClock, started: list[Worker]) -> None:
    steps = Steps(0, 0, None, None)
    worker = start(started, Worker("w", steps, clock))
    steps.wait_for(3)
    clock.advance(1_000_000)
    worker.wake()
    steps.wait_for(4)
    assert steps.count == 4


def test_milliseconds_pass_on_the_clock(clock: ManualClock, started: list[Worker]) -> None:
    steps = Steps(50, None)
    start(started, Worker("w", steps, clock))
    wait_until(lambda: clock.waiters == 1, "the worker")
    clock.advance(49)
    assert steps.count == 1
    clock.advance(1)
    steps.wait_for(2)


def test_a_wake_ends_a_wait_in_milliseconds(clock: ManualClock, started: list[Worker]) -> None:
    steps = Steps(50, None)
    worker = start(started, Worker("w", steps, clock))
    wait_until(lambda: clock.waiters == 1, "the worker")
    worker.wake()
    steps.wait_for(2)


def test_a_wake_during_a_step_is_not_lost(clock: ManualClock, started: list[Worker]) -> None:
    inside, leave, counts = threading.Event(), threading.Event(), []

    def step() -> None:
        counts.append(1)
        inside.set()
        leave.wait(10)

    worker = start(started, Worker("w", step, clock))
    assert inside.wait(10)
    worker.wake()
    leave.set()
    wait_until(lambda: len(counts) == 2, "the worker")


def test_an_unexpected_error_is_logged_once_with_its_cause_and_counted(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = MetricsRegistry()
    workers = Workers(metrics)
    worker = Worker("w", Steps(*[ValueError("planted") for _ in range(9)], 0), clock, workers=workers, backoff_ms=100)
    with caplog.at_level(logging.INFO, "timer.worker"):
        waits = [worker.turn() for _ in range(9)]
        assert waits == [100, 200, 400, 800, 1600, 3200, MAX_BACKOFF_MS, MAX_BACKOFF_MS, MAX_BACKOFF_MS]
        assert worker.failures == 9
        assert str(worker.last_error) == "planted"
        assert workers.failing() == [worker]
        assert workers.dead() == []
        with_cause = [record for record in caplog.records if record.exc_info]
        assert len(with_cause) == 1
        assert "w: a step failed" in with_cause[0].getMessage()
        assert metrics.meter(GROUP, TYPE, "ErrorsPerSec", worker="w").count == 9
        assert worker.turn() == 0
    assert workers.failing() == []
    assert worker.last_error is None
    assert worker.failures == 9
    assert "w goes on after 9 failures in a row" in caplog.text


def test_another_error_in_a_row_is_logged_too(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker("w", Steps(ValueError("one"), ValueError("two"), ValueError("two")), clock)
    for _ in range(3):
        worker.turn()
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["one", "two"]


def test_the_thread_backs_off_and_goes_on(clock: ManualClock, started: list[Worker]) -> None:
    steps = Steps(ValueError(), ValueError(), None)
    worker = start(started, Worker("w", steps, clock, backoff_ms=10))
    wait_until(lambda: clock.waiters == 1, "the worker")
    worker.wake()  # does not cut a backoff short
    clock.advance(9)
    assert steps.count == 1

    def second_step() -> bool:
        # The time may have moved on before the worker, once woken, waits for the rest of its backoff.
        clock.advance(1)
        return steps.count == 2

    wait_until(second_step, "the worker")
    wait_until(lambda: clock.waiters == 1, "the worker")
    clock.advance(20)
    steps.wait_for(3)
    assert not worker.is_dead


def test_one_that_ends_on_errors_is_dead_and_seen_as_such(
    clock: ManualClock, started: list[Worker], caplog: pytest.LogCaptureFixture
) -> None:
    metrics = MetricsRegistry()
    workers = Workers(metrics)
    worker = start(started, Worker("w", Steps(ValueError("x")), clock, on_error=OnError.END, workers=workers))
    wait_until(lambda: worker.is_dead, "the worker")
    assert workers.dead() == [worker]
    assert "w ends" in caplog.text
    assert metrics.value(GROUP, TYPE, "DeadWorkerCount") == 1


def test_what_no_policy_covers_is_told_and_leaves_a_dead_worker(
    clock: ManualClock, started: list[Worker], caplog: pytest.LogCaptureFixture
) -> None:
    def step() -> None:
        raise SystemExit

    worker = start(started, Worker("w", step, clock))
    wait_until(lambda: worker.is_dead, "the worker")
    assert "w has ended" in caplog.text


def test_after_step_follows_every_step_also_one_that_failed(clock: ManualClock) -> None:
    followed: list[int] = []
    steps = Steps(0, ValueError(), None)
    worker = Worker("w", steps, clock, workers=Workers(after_step=lambda: followed.append(steps.count)))
    for _ in range(3):
        worker.turn()
    assert followed == [1, 2, 3]


def test_a_failing_after_step_is_an_error_of_the_turn(clock: ManualClock) -> None:
    def fail() -> None:
        raise ValueError("after")

    worker = Worker("w", Steps(0), clock, workers=Workers(after_step=fail))
    assert worker.turn() == 100
    assert str(worker.last_error) == "after"


def test_after_step_follows_each_piece_of_an_executor() -> None:
    followed: list[str] = []
    workers = Workers(after_step=lambda: followed.append(threading.current_thread().name))
    executor = ThreadExecutor("pool", 1, workers)
    executor.submit(lambda: None)
    executor.submit(lambda: 1 / 0)  # type: ignore[arg-type]
    assert executor.shutdown(5000)
    assert followed[:2] == ["pool", "pool"]


def test_stop_interrupts_a_step_that_blocks(clock: ManualClock) -> None:
    gate = threading.Event()
    worker = Worker("w", lambda: None if gate.wait(30) else 0, clock, interrupt=gate.set)
    worker.start()
    assert worker.stop()
    assert not worker.is_dead


def test_stop_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    gate = threading.Event()
    worker = Worker("stubborn", lambda: None if gate.wait(30) else 0, SystemClock())
    worker.start()
    assert not worker.stop(timeout_ms=20)
    assert "stubborn did not end in 20 ms" in caplog.text
    gate.set()
    assert worker.join()


def test_a_step_may_stop_its_own_worker(clock: ManualClock) -> None:
    def step() -> float:
        assert worker.is_current
        assert worker.stop()
        return 0

    worker = Worker("w", step, clock)
    worker.start()
    assert worker.join()
    assert not worker.is_current
    assert not worker.is_dead


def test_a_stopped_worker_leaves_the_list_with_its_metric(clock: ManualClock) -> None:
    metrics = MetricsRegistry()

    def errors() -> list[str]:
        return [dict(key.tags)["worker"] for key, _ in metrics.items() if key.name == "ErrorsPerSec"]

    workers = Workers(metrics)
    one, other = (Worker(name, Steps(ValueError()), clock, workers=workers) for name in "ab")
    one.turn()
    assert list(workers) == [one, other]
    assert errors() == ["a"]
    one.stop()
    assert list(workers) == [other]
    assert errors() == []


def test_a_worker_starts_once(clock: ManualClock, started: list[Worker]) -> None:
    worker = start(started, Worker("w", Steps(), clock))
    with pytest.raises(RuntimeError):
        worker.start()
