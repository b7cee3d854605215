"""The manual clock stands still, wakes exactly those whose time has come, and never goes back."""

import threading
import time

import pytest

from timer.clock import ManualClock, SystemClock


def test_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(start_ms=5, start_wall_ms=1_000)
    assert (clock.monotonic_ms(), clock.monotonic_ns(), clock.wall_ms()) == (5, 5_000_000, 1_000)
    clock.advance(1.5)
    assert (clock.monotonic_ms(), clock.monotonic_ns(), clock.wall_ms()) == (6, 6_500_000, 1_001)
    with pytest.raises(ValueError, match="go back"):
        clock.advance(-1)


def test_wall_clock_may_step_back_alone() -> None:
    clock = ManualClock()
    clock.advance(100)
    clock.set_wall_ms(42)
    clock.advance(1)
    assert (clock.monotonic_ms(), clock.wall_ms()) == (101, 43)


def test_wait_ends_when_the_clock_reaches_the_deadline() -> None:
    clock = ManualClock()
    condition = threading.Condition()
    results: dict[int, bool] = {}

    def waiter(timeout_ms: int) -> None:
        with condition:
            deadline = clock.monotonic_ms() + timeout_ms
            while clock.monotonic_ms() < deadline:
                results[timeout_ms] = clock.wait(condition, deadline - clock.monotonic_ms())

    threads = [threading.Thread(target=waiter, args=(timeout,), daemon=True) for timeout in (10, 20)]
    for thread in threads:
        thread.start()
    for timeout, thread in zip((10, 20), threads, strict=True):
        while clock.waiters < (20 - timeout) // 10 + 1:
            time.sleep(0.001)
        clock.advance(10)
        thread.join(60)
        assert not thread.is_alive()
        assert results[timeout] is False
    assert clock.waiters == 0


def test_wait_with_nothing_left_returns_at_once() -> None:
    condition = threading.Condition()
    with condition:
        assert ManualClock().wait(condition, 0) is False
        assert SystemClock().wait(condition, 0) is False
        assert SystemClock().wait(condition, -5) is False


def test_a_notification_ends_a_wait() -> None:
    clock = ManualClock()
    condition = threading.Condition()
    results: list[bool] = []

    def waiter() -> None:
        with condition:
            results.append(clock.wait(condition, 1_000))

    thread = threading.Thread(target=waiter, daemon=True)
    thread.start()
    while not clock.waiters:
        time.sleep(0.001)
    with condition:
        condition.notify_all()
    thread.join(60)
    assert results == [True]


def test_system_clock_units_agree() -> None:
    clock = SystemClock()
    before = clock.monotonic_ns()
    ms = clock.monotonic_ms()
    after = clock.monotonic_ns()
    assert before // 1_000_000 <= ms <= after // 1_000_000
    assert abs(clock.wall_ms() - time.time() * 1000) < 5_000
