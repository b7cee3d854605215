"""What waits in a purgatory is answered at once when a partition goes, or when its high watermark is set free."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from tests.unit.broker.harness import LeadingBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LeadingBroker]:
    made = LeadingBroker(tmp_path)
    yield made
    made.delayed.shutdown()


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[LeadingBroker]:
    """With min.insync.replicas=2."""
    made = LeadingBroker(tmp_path, min_isr=2)
    yield made
    made.delayed.shutdown()


def test_the_directory_fails(broker: LeadingBroker) -> None:
    broker.lead([1, 2])
    broker.append()
    broker.manager.handle_log_dir_failure(broker.directory)
    assert broker.answer() is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_replica_outside_the_isr_holds_an_append_back_only_while_it_can_join(broker: LeadingBroker) -> None:
    broker.lead([1])
    broker.partition.follower(2, 1).last_caught_up_ms = broker.clock.wall_ms()
    broker.append()
    broker.manager.maybe_shrink_isrs()
    assert not broker.answers
    broker.alive(1)
    broker.manager.on_brokers_gone()
    assert broker.answer() is ErrorCode.NONE


def test_the_isr_shrinks_after_the_high_watermark_has_passed_and_before_the_answer(
    strict: LeadingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the minimum the high watermark stands still, so this is the only way to NOT_ENOUGH_REPLICAS_AFTER_APPEND:
    the follower that was the last one to fetch the record leaves the ISR before those who wait are looked after.
    """
    strict.lead([1, 2])
    strict.append()
    check_all = strict.delayed.check_all

    def too_late(tp: TopicPartition) -> None:
        strict.lead([1], epoch=2)
        check_all(tp)

    monkeypatch.setattr(strict.delayed, "check_all", too_late)
    strict.fetch(1)
    assert strict.answer() is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    log = strict.partition.log
    assert log is not None
    assert (log.log_end_offset, log.high_watermark) == (1, 1)  # written, and shown to consumers


def test_an_isr_that_shrinks_before_keeps_the_append_waiting(strict: LeadingBroker) -> None:
    strict.lead([1, 2])
    strict.append()
    strict.lead([1], epoch=2)
    strict.fetch(1)
    strict.manager.maybe_shrink_isrs()
    assert not strict.answers
    strict.lead([1, 2], epoch=3)
    strict.fetch(1)
    assert strict.answer() is ErrorCode.NONE
