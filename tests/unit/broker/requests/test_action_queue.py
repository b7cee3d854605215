"""Checks that are put off until no lock is held."""

from __future__ import annotations

import pytest

from broker.requests.action_queue import MAX_ROUNDS, ActionQueue
from broker.requests.context import BrokerContext
from timer.clock import ManualClock
from timer.executor import ThreadExecutor
from timer.worker import Worker


def test_what_an_action_puts_off_is_run_in_the_same_turn() -> None:
    queue, ran = ActionQueue(), list[int]()

    def chain(left: int) -> None:
        ran.append(left)
        if left:
            queue.add(lambda: chain(left - 1))

    queue.add(lambda: chain(3))
    queue.run()
    assert ran == [3, 2, 1, 0]
    assert len(queue) == 0


def test_a_failing_action_does_not_stop_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    queue, ran = ActionQueue(), list[int]()
    queue.add(lambda: 1 / 0)
    queue.add(lambda: ran.append(1))
    queue.run()
    assert ran == [1]
    assert "ZeroDivisionError" in caplog.text


def test_a_turn_ends_though_others_keep_adding() -> None:
    queue, ran = ActionQueue(), list[int]()

    def again() -> None:
        ran.append(1)
        queue.add(again)

    queue.add(again)
    queue.run()
    assert len(ran) == MAX_ROUNDS
    assert len(queue) == 1


def test_every_worker_of_a_broker_runs_what_its_steps_put_off() -> None:
    broker, ran = BrokerContext(), list[str]()

    def append(who: str) -> None:
        broker.action_queue.add(lambda: ran.append(who))

    Worker("w", lambda: append("worker"), ManualClock(), workers=broker.workers).turn()
    assert ran == ["worker"]
    executor = ThreadExecutor("e", 1, broker.workers)
    executor.submit(lambda: append("executor"))
    executor.shutdown(5000)
    assert ran == ["worker", "executor"]


def test_a_step_that_fails_after_it_appended_leaves_nothing_behind() -> None:
    broker, ran = BrokerContext(), list[int]()

    def step() -> None:
        broker.action_queue.add(lambda: ran.append(1))
        raise ValueError("after the append")

    worker = Worker("w", step, ManualClock(), workers=broker.workers)
    worker.turn()
    assert ran == [1]
    assert worker.failures == 1
