"""Writes that are put off while many logs change at once."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from log.background import WORKERS, BackgroundWrites
from timer.clock import ManualClock
from timer.scheduler import ManualScheduler


class Noted(ManualScheduler):
    """Tells what it was given."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.names: list[str] = []

    def schedule_once(self, name: str, task: Callable[[], None], delay_ms: int = 0):  # type: ignore[no-untyped-def]
        self.names.append(name)
        return super().schedule_once(name, task, delay_ms)


def test_a_write_is_scheduled_at_once() -> None:
    scheduler = Noted()
    done: list[int] = []
    BackgroundWrites(scheduler).soon("one", lambda: done.append(1))
    scheduler.tick()
    assert (done, scheduler.names) == ([1], ["one"])


def test_held_writes_come_after_the_last_holder_in_order_by_few_workers() -> None:
    scheduler = Noted()
    writes = BackgroundWrites(scheduler)
    done: list[int] = []
    with writes.held():
        with writes.held():
            for number in range(100):
                writes.soon("many", lambda number=number: done.append(number))  # type: ignore[misc]
        scheduler.tick()
        assert not scheduler.names
    scheduler.tick()
    assert done == list(range(100))
    assert len(scheduler.names) == WORKERS
    with writes.held():
        pass
    assert len(scheduler.names) == WORKERS


def test_one_that_fails_is_logged_and_keeps_none_from_being_written(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = Noted()
    writes = BackgroundWrites(scheduler)
    done: list[int] = []

    def write(number: int) -> None:
        if number % 2:
            raise OSError(28, f"write {number} fails")
        done.append(number)

    def block() -> None:
        with writes.held():
            for number in range(20):
                writes.soon("many", lambda number=number: write(number))  # type: ignore[misc]
            raise ValueError("the block")

    with pytest.raises(ValueError, match="the block"):
        block()
    with caplog.at_level(logging.ERROR):
        for _ in range(20):
            scheduler.tick()
    assert done == list(range(0, 20, 2))
    assert "write 1 fails" in caplog.text
