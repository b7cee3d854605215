"""Operations complete exactly once, and no event between look and watch is lost."""

from collections.abc import Callable

import pytest

from timer.clock import ManualClock
from timer.executor import InlineExecutor
from timer.purgatory import DelayedOperation, Purgatory, Watched
from timer.timer import SystemTimer


class Waiting(DelayedOperation):
    """Complete once `ready` is set; counts what happens to it."""

    def __init__(self, timeout_ms: int, on_check: Callable[["Waiting"], None] | None = None) -> None:
        super().__init__(timeout_ms)
        self.ready = False
        self.checks = 0
        self.events: list[str] = []
        self.on_check = on_check

    def try_complete(self) -> bool:
        self.checks += 1
        ready = self.ready
        if self.on_check is not None:
            self.on_check(self)
        return ready and self.force_complete()

    def on_complete(self) -> None:
        self.events.append("complete")

    def on_expiration(self) -> None:
        self.events.append("expire")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def purgatory(clock: ManualClock) -> Purgatory[Waiting]:
    return Purgatory("Test", SystemTimer("test", clock, InlineExecutor()), reaper_enabled=False, purge_interval=10)


def test_completes_at_once_when_ready(purgatory: Purgatory[Waiting]) -> None:
    operation = Waiting(100)
    operation.ready = True
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.events == ["complete"]
    assert (purgatory.watched, purgatory.num_delayed) == (0, 0)


def test_an_event_completes_only_its_key(purgatory: Purgatory[Waiting]) -> None:
    first, second = Waiting(100), Waiting(100)
    assert not purgatory.try_complete_else_watch(first, ["a", "b"])
    assert not purgatory.try_complete_else_watch(second, ["b"])
    assert (purgatory.watched, purgatory.num_delayed) == (3, 2)
    first.ready = True
    assert purgatory.check_and_complete("c") == 0
    assert purgatory.check_and_complete("a") == 1
    assert (first.events, second.events) == (["complete"], [])
    # The completed operation left the timer, and stays in the list of the other key until that is walked.
    assert (purgatory.watched, purgatory.num_delayed) == (2, 1)
    assert purgatory.check_and_complete("b") == 0
    assert purgatory.watched == 1


def test_an_event_between_look_and_watch_is_seen(purgatory: Purgatory[Waiting]) -> None:
    def event_after_first_look(operation: Waiting) -> None:
        if operation.checks == 1:
            operation.ready = True
            assert purgatory.check_and_complete("a") == 0

    operation = Waiting(100, event_after_first_look)
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.events == ["complete"]
    assert purgatory.num_delayed == 0


def test_expiry_completes_then_expires(purgatory: Purgatory[Waiting], clock: ManualClock) -> None:
    operation = Waiting(100)
    purgatory.try_complete_else_watch(operation, ["a"])
    clock.advance(99)
    purgatory.step()
    assert operation.events == []
    clock.advance(1)
    while purgatory.step():
        pass
    assert operation.events == ["complete", "expire"]
    assert not operation.force_complete()
    assert purgatory.check_and_complete("a") == 0
    assert (purgatory.watched, purgatory.num_delayed) == (0, 0)


def test_completed_entries_are_purged_past_the_interval(purgatory: Purgatory[Waiting]) -> None:
    for _ in range(11):
        operation = Waiting(100)
        purgatory.try_complete_else_watch(operation, ["a", "b"])
        operation.ready = True
        purgatory.check_and_complete("a")
    assert purgatory.watched == 11
    purgatory.step()
    assert purgatory.watched == 0


def test_cancel_for_key_completes_nothing(purgatory: Purgatory[Waiting], clock: ManualClock) -> None:
    operation = Waiting(100)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert purgatory.cancel_for_key("a") == [operation]
    assert purgatory.cancel_for_key("a") == []
    clock.advance(1_000)
    purgatory.step()
    assert operation.events == []
    assert purgatory.num_delayed == 0


def test_keys_must_not_be_empty(purgatory: Purgatory[Waiting]) -> None:
    with pytest.raises(ValueError, match="key"):
        purgatory.try_complete_else_watch(Waiting(1), [])


def test_restart_puts_the_timeout_off(purgatory: Purgatory[Waiting], clock: ManualClock) -> None:
    operation = Waiting(100)
    purgatory.try_complete_else_watch(operation, ["a"])
    for _ in range(5):
        clock.advance(60)
        purgatory.step()
        assert purgatory.restart(operation, 100)
    assert operation.events == []
    assert (purgatory.watched, purgatory.num_delayed) == (1, 1)
    clock.advance(100)
    while purgatory.step():
        pass
    assert operation.events == ["complete", "expire"]
    assert not purgatory.restart(operation, 100)
    assert purgatory.num_delayed == 0


def test_watched_looks_into_each_of_several_purgatories(purgatory: Purgatory[Waiting], clock: ManualClock) -> None:
    other: Purgatory[Waiting] = Purgatory("Other", SystemTimer("other", clock, InlineExecutor()), reaper_enabled=False)
    is_watched = Watched(purgatory, other)
    operations = [Waiting(100), Waiting(100)]
    for each, key, operation in zip((purgatory, other), ("a", "b"), operations, strict=True):
        assert not is_watched(key)
        assert not each.try_complete_else_watch(operation, [key])
        assert is_watched(key)
        assert not is_watched("c")
        operation.ready = True
        assert each.check_and_complete(key) == 1
        assert not is_watched(key)


def test_an_event_that_saw_no_watcher_is_seen_by_the_watcher(purgatory: Purgatory[Waiting]) -> None:
    """What makes it safe to leave the check out: the event comes between the watcher's first look and its watch."""
    operation = Waiting(100)

    def event(each: Waiting) -> None:
        if each.checks == 1:
            each.ready = True
            assert not Watched(purgatory)("a")

    operation.on_check = event
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.events == ["complete"]
