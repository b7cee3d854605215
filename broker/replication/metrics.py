"""Meters of the replica manager and of topics."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import TypeVar

from log.errors import RecordFault
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from timer.metrics import NULL_METRICS, Meter, Metrics

T = TypeVar("T")

_PENDING_BOUND = 1024
_SERVER = "kafka.server"
_TOPIC = "BrokerTopicMetrics"
# What FailedProduceRequestsPerSec leaves out: the producer, or the cluster, mends it; as in Kafka.
_NO_FAILURE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
)


class TopicMeters:
    """The meters of one topic, or, without a topic, of all."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch",
        "failed_produce",
        "fetch_conversions",
        "messages_in",
        "produce_conversions",
        "reassignment_bytes_in",
        "reassignment_bytes_out",
        "replication_bytes_in",
        "replication_bytes_out",
        "total_fetch",
        "total_produce",
    )

    def __init__(self, metrics: Metrics, topic: str | None) -> None:
        tags = {} if topic is None else {"topic": topic}

        def meter(name: str) -> Meter:
            return metrics.meter(_SERVER, _TOPIC, name, **tags)

        self.bytes_in = meter("BytesInPerSec")
        self.bytes_out = meter("BytesOutPerSec")
        self.bytes_rejected = meter("BytesRejectedPerSec")
        self.messages_in = meter("MessagesInPerSec")
        self.total_produce = meter("TotalProduceRequestsPerSec")
        self.total_fetch = meter("TotalFetchRequestsPerSec")
        self.failed_produce = meter("FailedProduceRequestsPerSec")
        self.failed_fetch = meter("FailedFetchRequestsPerSec")
        self.produce_conversions = meter("ProduceMessageConversionsPerSec")
        self.fetch_conversions = meter("FetchMessageConversionsPerSec")
        if topic is None:
            self.replication_bytes_in = meter("ReplicationBytesInPerSec")
            self.replication_bytes_out = meter("ReplicationBytesOutPerSec")
            self.reassignment_bytes_in = meter("ReassignmentBytesInPerSec")
            self.reassignment_bytes_out = meter("ReassignmentBytesOutPerSec")


class ReplicaMetrics:
    """Everything the replica manager marks. Per-topic meters are made on first use, removed with the topic.

    `has_topic` says whether a topic has a partition here. One that has none gets no meters: clients go on asking for a
    topic that is gone, what they asked before may be counted after it, and nothing would remove them again.

    What every request counts (`appended`, `fetch_requested`, `sent`) is noted, and given to the meters of the topic and
    of all topics by `flush`; who notes more than `_PENDING_BOUND` flushes.
    """

    def __init__(self, metrics: Metrics, has_topic: Callable[[str], bool] = lambda topic: True) -> None:
        self._metrics = metrics
        self._has_topic = has_topic
        # Lock-free: a deque takes and gives single entries in one step.
        self._appends: deque[tuple[str, int, int]] = deque()
        self._reads: deque[str | tuple[str, int]] = deque()
        self._sent: deque[tuple[str, int]] = deque()
        self._flush_lock = threading.Lock()
        self.all_topics = TopicMeters(metrics, None)
        self._topics: dict[str, TopicMeters] = {}
        self._topics_lock = threading.Lock()
        self._nowhere = TopicMeters(NULL_METRICS, None)
        self._refused = {fault: metrics.meter(_SERVER, _TOPIC, fault.value) for fault in RecordFault}
        self.expands = metrics.meter(_SERVER, "ReplicaManager", "IsrExpandsPerSec")
        self.shrinks = metrics.meter(_SERVER, "ReplicaManager", "IsrShrinksPerSec")
        self.failed = metrics.meter(_SERVER, "ReplicaManager", "FailedIsrUpdatesPerSec")
        self.produce_expired = metrics.meter(_SERVER, "DelayedProduceMetrics", "ExpiresPerSec")
        self.delete_records_expired = metrics.meter(_SERVER, "DelayedDeleteRecordsMetrics", "ExpiresPerSec")
        self.consumer_fetch_expired = metrics.meter(
            _SERVER, "DelayedFetchMetrics", "ExpiresPerSec", fetcherType="consumer"
        )
        self.follower_fetch_expired = metrics.meter(
            _SERVER, "DelayedFetchMetrics", "ExpiresPerSec", fetcherType="follower"
        )

    def topic(self, topic: str) -> TopicMeters:
        """Its meters; of a topic that is not here some that keep nothing."""
        meters = self._topics.get(topic)
        if meters is None:
            # Looked and made in one step, so that a topic that goes meanwhile takes them along.
            with self._topics_lock:
                if not self._has_topic(topic):
                    return self._nowhere
                meters = self._topics[topic] = TopicMeters(self._metrics, topic)
        return meters

    def appended(self, topic: str, size: int, messages: int) -> None:
        """One append to one partition."""
        appends = self._appends
        appends.append((topic, size, messages))
        if len(appends) >= _PENDING_BOUND:
            self.flush()

    def fetch_requested(self, topic: str, count: int = 1) -> None:
        """So many reads of partitions."""
        reads = self._reads
        reads.append(topic if count == 1 else (topic, count))
        if len(reads) >= _PENDING_BOUND:
            self.flush()

    def sent(self, topic: str, size: int) -> None:
        """Records of one partition to a consumer."""
        sent = self._sent
        sent.append((topic, size))
        if len(sent) >= _PENDING_BOUND:
            self.flush()

    def append_failed(self, topic: str, error: ErrorCode, size: int) -> None:
        """One append of so many bytes to one partition that came to nothing."""
        for meters in self._both(topic):
            meters.total_produce.mark()
            if error not in _NO_FAILURE:
                meters.failed_produce.mark()
            if error is ErrorCode.MESSAGE_TOO_LARGE:
                meters.bytes_rejected.mark(size)

    def refused(self, faults: Mapping[RecordFault, int]) -> None:
        """Records of a producer that are not taken."""
        for fault, count in faults.items():
            self._refused[fault].mark(count)

    def produce_converted(self, topic: str, records: int) -> None:
        """Records of a producer that are written in another format or codec than they came in."""
        if records:
            self.topic(topic).produce_conversions.mark(records)
            self.all_topics.produce_conversions.mark(records)

    def fetch_converted(self, topic: str, records: int) -> None:
        """Records that a consumer gets in an older format."""
        if records:
            self.topic(topic).fetch_conversions.mark(records)
            self.all_topics.fetch_conversions.mark(records)

    def flush(self) -> None:
        """Give the meters what has been noted; most of it is equal, and is counted first."""
        with self._flush_lock:
            appends, reads = Counter(_taken(self._appends)), Counter(_taken(self._reads))
            sent = Counter(_taken(self._sent))
        for (topic, size, messages), count in appends.items():
            for meters in self._both(topic):
                meters.total_produce.mark(count)
                meters.bytes_in.mark(size * count)
                meters.messages_in.mark(messages * count)
        for read, count in reads.items():
            topic, times = (read, 1) if isinstance(read, str) else read
            for meters in self._both(topic):
                meters.total_fetch.mark(count * times)
        for (topic, size), count in sent.items():
            for meters in self._both(topic):
                meters.bytes_out.mark(size * count)

    def _both(self, topic: str) -> tuple[TopicMeters, TopicMeters]:
        return self.topic(topic), self.all_topics

    def produce_expired_for(self, tp: TopicPartition) -> Meter:
        with self._topics_lock:
            metrics = self._metrics if self._has_topic(tp.topic) else NULL_METRICS
            return metrics.meter(
                _SERVER, "DelayedProduceMetrics", "ExpiresPerSec", topic=tp.topic, partition=str(tp.partition)
            )

    def remove_partition(self, tp: TopicPartition) -> None:
        self._metrics.remove(
            _SERVER, "DelayedProduceMetrics", "ExpiresPerSec", topic=tp.topic, partition=str(tp.partition)
        )

    def remove_topic(self, topic: str) -> None:
        """It has no partition here any more."""
        self.flush()
        with self._topics_lock:
            self._topics.pop(topic, None)
            for name in ("BytesIn", "BytesOut", "BytesRejected", "MessagesIn", "TotalProduceRequests",
                         "TotalFetchRequests", "FailedProduceRequests", "FailedFetchRequests",
                         "ProduceMessageConversions", "FetchMessageConversions"):  # fmt: skip
                self._metrics.remove(_SERVER, _TOPIC, f"{name}PerSec", topic=topic)


def _taken(noted: deque[T]) -> list[T]:
    """What is there now; what comes meanwhile stays for the next time."""
    return [noted.popleft() for _ in range(len(noted))]
