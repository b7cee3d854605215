"""Replication throttles: the rate over windows, whose replicas count, and configs that change."""

from __future__ import annotations

import pytest

from broker.config.kafka_config import KafkaConfig
from broker.metrics import MetricsRegistry
from broker.quotas.rates import SimpleRate, Window
from broker.replication.throttle import (
    ALL_PARTITIONS,
    ReplicationQuota,
    ReplicationThrottles,
    throttled_partitions,
)
from log.topic_partition import TopicPartition
from timer.clock import ManualClock

UNLIMITED = 2**63 - 1


def test_the_rate_is_never_over_less_than_a_window() -> None:
    rate = SimpleRate(1, Window(11, 1000))
    assert rate.per_second(0) == 0
    rate.record(500, 0)
    assert rate.per_second(1) == 500
    rate.record(500, 400)
    assert rate.per_second(1000) == 1000
    assert rate.per_second(4000) == 250


def test_old_windows_do_not_count() -> None:
    rate = SimpleRate(1, Window(3, 1000))
    rate.record(900, 0)
    rate.record(100, 800)
    rate.record(300, 1500)
    # Until the window has passed since the last thing in a sample, as in Kafka: not since it began.
    assert rate.per_second(3799) == pytest.approx(1300 * 1000 / 3799)
    assert rate.per_second(3800) == pytest.approx(300 * 1000 / 2300)
    assert rate.per_second(4500) == 0
    # After a pause the next window starts anew, without the silence before it.
    rate.record(100, 60_000)
    assert rate.per_second(60_000) == 100


def test_a_large_answer_is_paid_for_by_silence() -> None:
    clock = ManualClock()
    quota = ReplicationQuota(clock, 100, 11, 1000)
    quota.record(500)
    clock.advance(4999)
    assert quota.is_exceeded()
    clock.advance(1)
    assert not quota.is_exceeded()


def test_what_passes_keeps_to_the_limit_in_the_long_run() -> None:
    """A sender that asks ten times a second and sends 30 bytes whenever it may."""
    clock = ManualClock()
    quota = ReplicationQuota(clock, 100, 11, 1000)
    sent = 0
    for _ in range(600):
        if not quota.is_exceeded():
            quota.record(30)
            sent += 30
        clock.advance(100)
    assert 5_000 <= sent <= 6_600


def test_the_limit_changes_at_once() -> None:
    clock = ManualClock()
    quota = ReplicationQuota(clock, UNLIMITED, 11, 1000)
    quota.record(10**12)
    assert not quota.is_exceeded()
    quota.set_limit(10**6)
    assert quota.is_exceeded()
    quota.set_limit(10**13)
    assert not quota.is_exceeded()


@pytest.mark.parametrize(
    ("text", "partitions"),
    [
        ("", frozenset()),
        ("none", frozenset()),
        ("*", ALL_PARTITIONS),
        ("0:1,0:2,3:1", frozenset({0, 3})),
        (" 4:1 , 5:11", frozenset({4})),
        ("1:2", frozenset()),
    ],
)
def test_throttled_partitions_of_broker_1(text: str, partitions: frozenset[int] | None) -> None:
    assert throttled_partitions(text, 1) == partitions


@pytest.fixture
def config() -> KafkaConfig:
    return KafkaConfig({"broker.id": "1", "zookeeper.connect": "unused:1"})


def test_topics_say_which_replicas_count(config: KafkaConfig) -> None:
    throttles = ReplicationThrottles(config, ManualClock(), MetricsRegistry())
    zero, one = TopicPartition("t", 0), TopicPartition("t", 1)
    assert not throttles.leader.is_throttled(zero)
    throttles.on_topic_config(
        "t", {"leader.replication.throttled.replicas": "0:1,1:2", "follower.replication.throttled.replicas": "*"}
    )
    assert [throttles.leader.is_throttled(tp) for tp in (zero, one)] == [True, False]
    assert [throttles.follower.is_throttled(tp) for tp in (zero, one)] == [True, True]
    assert not throttles.follower.is_throttled(TopicPartition("u", 0))
    throttles.on_topic_config("t", {"retention.ms": "1"})
    assert not throttles.leader.is_throttled(zero)
    assert not throttles.follower.is_throttled(zero)


def test_brokers_have_the_rates(config: KafkaConfig) -> None:
    throttles = ReplicationThrottles(config, ManualClock(), MetricsRegistry())
    throttles.leader.record(1000)
    throttles.follower.record(1000)
    assert not throttles.leader.is_exceeded()
    config.use_dynamic({"leader.replication.throttled.rate": "999"}, {"follower.replication.throttled.rate": "1000"})
    throttles.on_broker_config()
    assert throttles.leader.is_exceeded()
    assert not throttles.follower.is_exceeded()
    config.use_dynamic({}, {})
    throttles.on_broker_config()
    assert not throttles.leader.is_exceeded()
