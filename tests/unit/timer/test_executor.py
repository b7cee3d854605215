from __future__ import annotations

import threading

import pytest

from broker.dev.polling import wait_until
from timer.clock import SystemClock
from timer.executor import ThreadExecutor
from timer.worker import Workers

CLOCK = SystemClock()
WAIT_MS = 30_000


class Blocking:
    """Work that tells how many run at a time, and ends when it is let go."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.running = 0
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self.running += 1
        self.free.wait(WAIT_MS / 1000)
        with self._lock:
            self.running -= 1


def alive(name: str) -> int:
    return sum(thread.name.startswith(name) for thread in threading.enumerate())


def test_more_threads_take_what_waits_already() -> None:
    executor, work = ThreadExecutor("grows", 1, Workers()), Blocking()
    for _ in range(4):
        executor.submit(work)
    assert wait_until(lambda: work.running == 1, CLOCK, WAIT_MS)
    executor.resize(3)
    assert wait_until(lambda: work.running == 3, CLOCK, WAIT_MS)
    assert alive("grows") == 3
    work.free.set()
    assert executor.shutdown(WAIT_MS)
    assert work.running == 0


def test_fewer_threads_finish_what_was_accepted() -> None:
    executor, work = ThreadExecutor("shrinks", 4, Workers()), Blocking()
    done: list[int] = []
    for _ in range(4):
        executor.submit(work)
    assert wait_until(lambda: work.running == 4, CLOCK, WAIT_MS)
    executor.resize(1)
    for number in range(10):
        executor.submit(lambda number=number: done.append(number))  # type: ignore[misc]
    work.free.set()
    assert wait_until(lambda: alive("shrinks") == 1 and len(done) == 10, CLOCK, WAIT_MS)
    executor.resize(2)
    again = Blocking()
    for _ in range(3):
        executor.submit(again)
    assert wait_until(lambda: again.running == 2, CLOCK, WAIT_MS)
    again.free.set()
    assert executor.shutdown(WAIT_MS)
    assert alive("shrinks") == 0


def test_a_closed_executor_is_not_resized() -> None:
    executor = ThreadExecutor("closed", 1, Workers())
    executor.shutdown(0)
    executor.resize(3)
    assert alive("closed") == 0


def test_none_is_no_number_of_threads() -> None:
    with pytest.raises(ValueError):
        ThreadExecutor("none", 1).resize(0)
