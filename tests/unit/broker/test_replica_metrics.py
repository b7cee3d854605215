"""What requests count reaches the meters of the topic and of all topics."""

from __future__ import annotations

from broker.metrics import MetricsRegistry
from broker.replication.metrics import ReplicaMetrics
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode

COUNTED = {
    "TotalProduceRequestsPerSec": 5,
    "FailedProduceRequestsPerSec": 1,
    "BytesRejectedPerSec": 70,
    "BytesInPerSec": 300,
    "MessagesInPerSec": 12,
    "TotalFetchRequestsPerSec": 1,
    "BytesOutPerSec": 50,
}


def _counts(registry: MetricsRegistry, **tags: str) -> dict[str, float]:
    return {name: registry.value("kafka.server", "BrokerTopicMetrics", name, **tags) for name in COUNTED}


def _metrics() -> tuple[MetricsRegistry, ReplicaMetrics]:
    registry = MetricsRegistry()
    metrics = ReplicaMetrics(registry)
    metrics.appended("a", 100, 10)
    metrics.appended("a", 200, 2)
    metrics.append_failed("a", ErrorCode.INVALID_RECORD, 40)
    metrics.append_failed("a", ErrorCode.MESSAGE_TOO_LARGE, 70)  # is rejected, which is no failure
    metrics.append_failed("a", ErrorCode.CORRUPT_MESSAGE, 40)
    metrics.fetch_requested("a")
    metrics.sent("a", 50)
    metrics.appended("b", 1000, 1)
    return registry, metrics


def test_a_flush_brings_the_counts_to_the_meters_once() -> None:
    registry, metrics = _metrics()
    for _ in range(2):
        metrics.flush()
        assert _counts(registry, topic="a") == COUNTED
        everything = _counts(registry)
        assert (everything["BytesInPerSec"], everything["MessagesInPerSec"]) == (1300, 13)
        assert everything["TotalProduceRequestsPerSec"] == 6


def test_a_topic_that_goes_is_still_counted_among_all() -> None:
    registry, metrics = _metrics()
    metrics.remove_topic("a")
    assert registry.get("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", topic="a") is None
    assert registry.value("kafka.server", "BrokerTopicMetrics", "BytesInPerSec") == 1300


def test_a_topic_that_is_not_here_is_counted_among_all_alone() -> None:
    """Clients ask for a topic after it has gone, and what was noted before may be counted after it."""
    registry, here = MetricsRegistry(), {"a"}
    metrics = ReplicaMetrics(registry, here.__contains__)
    metrics.appended("a", 100, 1)
    metrics.flush()
    here.clear()
    metrics.sent("a", 70)
    metrics.remove_topic("a")
    before = len(registry)
    for name in ("a", *(f"never-{number}" for number in range(100))):
        metrics.fetch_requested(name)
        metrics.append_failed(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 10)
        metrics.topic(name).failed_fetch.mark()
        metrics.produce_expired_for(TopicPartition(name, 0)).mark()
    metrics.flush()
    assert len(registry) == before
    assert registry.value("kafka.server", "BrokerTopicMetrics", "TotalFetchRequestsPerSec") == 101
    assert registry.value("kafka.server", "BrokerTopicMetrics", "BytesOutPerSec") == 70


def test_a_partition_that_goes_takes_its_meter_along() -> None:
    registry, metrics = _metrics()
    tags = {"topic": "a", "partition": "3"}
    metrics.produce_expired_for(TopicPartition("a", 3)).mark(1)
    assert registry.value("kafka.server", "DelayedProduceMetrics", "ExpiresPerSec", **tags) == 1
    metrics.remove_partition(TopicPartition("a", 3))
    assert registry.get("kafka.server", "DelayedProduceMetrics", "ExpiresPerSec", **tags) is None
