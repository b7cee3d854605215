"""When a broker that ended by itself is started again."""

from __future__ import annotations

from broker.dev.restarts import MAX_DELAY_MS, SETTLED_MS, Restarts


def test_delays_grow_to_a_limit_and_start_anew_after_a_long_run() -> None:
    restarts, now, delays = Restarts(), 0, []
    for _ in range(8):
        restarts.on_start(now)
        assert not restarts.is_waiting
        now += SETTLED_MS - 1
        delays.append(restarts.on_end(now))
        assert restarts.is_waiting
        assert restarts.is_due(now + delays[-1])
        assert not restarts.is_due(now + delays[-1] - 1)
        now += delays[-1]
    assert delays == [0, 1_000, 2_000, 4_000, 8_000, 16_000, MAX_DELAY_MS, MAX_DELAY_MS]
    restarts.on_start(now)
    assert restarts.on_end(now + SETTLED_MS) == 0


def test_a_broker_that_never_ended_is_not_due() -> None:
    restarts = Restarts()
    restarts.on_start(5)
    assert not restarts.is_due(1 << 60)
