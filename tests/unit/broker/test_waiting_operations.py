"""What waits in a purgatory is answered at once when a partition goes, or when its high watermark is set free."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.replication.partitions import OFFLINE, Partitions
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.unit.broker.harness import TOPIC_ID, TP, LeadingBroker


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


def test_a_topic_that_has_only_left_this_broker_keeps_its_throttle(broker: LeadingBroker) -> None:
    """A replica may come back before its configs change again."""
    manager = broker.manager
    broker.lead([1, 2])
    manager.on_topic_config("t", {"leader.replication.throttled.replicas": "*"})
    elsewhere = UpdateMetadataPartitionState(partition_index=0, leader=2, leader_epoch=2, isr=[2], replicas=[2])
    topic = UpdateMetadataTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[elsewhere])
    broker.cache.update(UpdateMetadataRequest(controller_id=1, topic_states=[topic]), 8)
    broker.delete()
    assert not manager.partitions.has_topic("t")
    assert manager.traffic.throttles.leader.is_throttled(TP)


def test_a_topic_is_there_while_a_slot_of_it_is() -> None:
    partitions = Partitions(lambda topic, number: False)
    one, two, other = TopicPartition("t", 1), TopicPartition("t", 2), TopicPartition("u", 1)
    for tp in (one, two, two, other):
        partitions.put(tp, OFFLINE)
    assert partitions.remove(one) is OFFLINE
    assert partitions.remove(one) is None
    assert partitions.has_topic("t")
    partitions.remove(two)
    assert [partitions.has_topic(topic) for topic in ("t", "u", "v")] == [False, True, False]


def test_nothing_is_kept_of_a_topic_that_is_deleted(broker: LeadingBroker) -> None:
    """Its deletion takes its configs along, and tells nobody of them."""
    manager = broker.manager
    before = len(broker.metrics)
    broker.lead([1, 2])
    manager.on_topic_config("t", {f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")})
    broker.append()
    broker.delete()
    assert broker.answer() is not ErrorCode.NONE
    manager.metrics.fetch_requested("t")
    manager.metrics.flush()
    assert len(broker.metrics) == before
    for quota in (manager.traffic.throttles.leader, manager.traffic.throttles.follower):
        assert not quota.is_throttled(TopicPartition("t", 0))
