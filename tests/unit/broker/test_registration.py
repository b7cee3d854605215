"""Waiting for an id that another session holds, on a clock that stands still."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from broker.registration import AWAY_MS, MARGIN_MS, MAX_TIMES_AWAY, StoppedAtStartError, register_when_free
from controller.zk.brokers import BrokerIdInUseError
from timer.clock import ManualClock


class PassingClock(ManualClock):
    """Waiting makes the time pass."""

    def wait(self, condition: threading.Condition, timeout_ms: float | None) -> bool:
        assert timeout_ms is not None
        with self._lock:
            self._now_ns += round(timeout_ms * 1_000_000)
        return False


def held_until(clock: ManualClock, free_at_ms: int) -> Callable[[], int]:
    def register() -> int:
        if clock.monotonic_ms() < free_at_ms:
            raise BrokerIdInUseError(1, 0xABC)
        return 77

    return register


def never() -> bool:
    return False


def test_an_id_that_is_free_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    clock = PassingClock()
    assert register_when_free(held_until(clock, 0), 18_000, clock, never) == 77
    assert clock.monotonic_ms() == 0
    assert caplog.records == []


def test_it_registers_as_soon_as_the_session_is_over(caplog: pytest.LogCaptureFixture) -> None:
    clock = PassingClock()
    assert register_when_free(held_until(clock, 17_950), 18_000, clock, never) == 77
    assert 17_950 <= clock.monotonic_ms() < 18_100
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [
        "Broker id 1 is already registered by session 0xabc; waiting for the end of that session, at most 24 s"
    ]


def test_an_id_that_stays_in_use_is_refused_after_timeout_and_margin() -> None:
    clock = PassingClock()
    with pytest.raises(BrokerIdInUseError):
        register_when_free(held_until(clock, 1 << 60), 18_000, clock, never)
    assert 18_000 + MARGIN_MS <= clock.monotonic_ms() < 18_200 + MARGIN_MS


def test_the_time_begins_anew_when_zookeeper_was_away() -> None:
    clock = PassingClock()
    # A server that starts gives the sessions that it knows their whole time again.
    away_at, away_ms, free_at = 20_000, 8_000, 45_000
    held = held_until(clock, free_at)

    def register() -> int:
        if away_at <= clock.monotonic_ms() < away_at + away_ms:
            clock.advance(away_ms)
        return held()

    assert register_when_free(register, 18_000, clock, never) == 77
    assert free_at <= clock.monotonic_ms() < free_at + 200


def test_a_zookeeper_that_is_always_slow_does_not_make_it_wait_for_ever() -> None:
    clock = PassingClock()
    held = held_until(clock, 1 << 60)

    def register() -> int:
        clock.advance(AWAY_MS)
        return held()

    with pytest.raises(BrokerIdInUseError):
        register_when_free(register, 18_000, clock, lambda: clock.monotonic_ms() > 600_000)
    assert clock.monotonic_ms() < 18_000 + MARGIN_MS + (MAX_TIMES_AWAY + 2) * (AWAY_MS + 100)


def test_a_stop_ends_the_wait() -> None:
    clock = PassingClock()
    with pytest.raises(StoppedAtStartError):
        register_when_free(held_until(clock, 1 << 60), 18_000, clock, lambda: clock.monotonic_ms() >= 500)
    assert clock.monotonic_ms() <= 600
