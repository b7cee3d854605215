"""What waits for the controller's first word, and for how long."""

from __future__ import annotations

import pytest

from broker.requests.handlers import import_handlers
from broker.requests.registry import HANDLERS
from broker.requests.start_gate import HOLD_MS, StartGate
from network.protocol.api import ApiKey
from timer.clock import ManualClock
from timer.scheduler import ManualScheduler


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def scheduler(clock: ManualClock) -> ManualScheduler:
    return ManualScheduler(clock)


def test_it_is_open_unless_it_is_closed(scheduler: ManualScheduler) -> None:
    gate = StartGate()
    assert not gate.holds(lambda: None)
    gate.close(scheduler)
    assert gate.holds(lambda: None)


def test_what_was_held_is_served_once_in_its_order(clock: ManualClock, scheduler: ManualScheduler) -> None:
    gate, served = StartGate(), []
    gate.close(scheduler)
    for number in range(3):
        assert gate.holds(lambda number=number: served.append(number))  # type: ignore[misc]
    assert served == []
    gate.open()
    gate.open()
    scheduler.tick()
    assert served == [0, 1, 2]
    assert not gate.holds(lambda: served.append(3))
    clock.advance(2 * HOLD_MS)
    scheduler.tick()
    assert served == [0, 1, 2]


def test_a_cluster_without_a_controller_is_answered_after_a_while(
    clock: ManualClock, scheduler: ManualScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    gate, served = StartGate(), []
    gate.close(scheduler)
    assert gate.holds(lambda: served.append(True))
    clock.advance(HOLD_MS - 1)
    scheduler.tick()
    assert not served
    clock.advance(2)
    scheduler.tick()
    assert served == [True]
    assert "no controller has told of the live brokers" in caplog.text


def test_who_waits() -> None:
    """Answers about brokers wait; what brings the first word, and what brokers ask each other, must not."""
    import_handlers()
    waiting = {ApiKey(key) for key, handler in HANDLERS.items() if handler.needs_brokers}
    assert waiting == {
        ApiKey.METADATA,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.FIND_COORDINATOR,
        ApiKey.CREATE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_TOPICS,
    }
