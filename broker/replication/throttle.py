"""Limits on replication traffic, one for what this broker sends as leader and one for what it fetches (KIP-73).

A limit holds for the sum of the throttled replicas of a broker. The rate is a ``SimpleRate`` over
``replication.quota.window.num`` samples; so a large answer passes whole, and is paid for by the silence after it.
Nothing is delayed here: leader and follower ask ``is_exceeded`` and leave partitions out of answers and requests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from broker.quotas.rates import SimpleRate, Window
from timer.clock import Clock
from timer.metrics import Metrics

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig
    from log.topic_partition import TopicPartition

_ALL = "*"
_NONE = "none"
# What a topic that throttles all partitions has instead of a set of them.
ALL_PARTITIONS: Final = None


class ReplicationQuota:
    """The limit of one side, and the partitions that it is for."""

    def __init__(self, clock: Clock, limit: int, windows: int, window_ms: int) -> None:
        """``limit`` is in bytes per second."""
        self._clock = clock
        self._lock = threading.Lock()
        self._rate = SimpleRate(limit, Window(windows, window_ms))
        self._throttled: dict[str, frozenset[int] | None] = {}

    def set_limit(self, bytes_per_second: int) -> None:
        """The limit from now on."""
        self._rate.bound = bytes_per_second

    def set_partitions(self, topic: str, partitions: frozenset[int] | None) -> None:
        """The partitions of a topic that are throttled, or ``ALL_PARTITIONS``."""
        if partitions is not ALL_PARTITIONS and not partitions:
            self._throttled.pop(topic, None)
        else:
            self._throttled[topic] = partitions

    def is_throttled(self, tp: TopicPartition) -> bool:
        """Whether bytes of this partition count."""
        if tp.topic not in self._throttled:
            return False
        partitions = self._throttled.get(tp.topic, frozenset())
        return partitions is ALL_PARTITIONS or tp.partition in partitions

    def record(self, size: int) -> None:
        """Count bytes that were sent or received."""
        with self._lock:
            self._rate.record(size, self._clock.monotonic_ms())

    def bytes_per_second(self) -> float:
        """The rate now."""
        with self._lock:
            return self._rate.per_second(self._clock.monotonic_ms())

    def is_exceeded(self) -> bool:
        """Whether more than the limit travelled."""
        return self.bytes_per_second() > self._rate.bound


class ReplicationThrottles:
    """Both sides' quotas, following the configs of the broker and of topics."""

    def __init__(self, config: KafkaConfig, clock: Clock, metrics: Metrics) -> None:
        self._config = config
        windows = config.get_int("replication.quota.window.num")
        window_ms = config.get_int("replication.quota.window.size.seconds") * 1000

        def quota(side: str, metric: str) -> ReplicationQuota:
            made = ReplicationQuota(clock, config.get_int(_rate_key(side)), windows, window_ms)
            metrics.gauge("kafka.server", metric, "byte-rate", made.bytes_per_second)
            return made

        self.leader = quota("leader", "LeaderReplication")
        self.follower = quota("follower", "FollowerReplication")

    def on_broker_config(self) -> None:
        """Take the rates from the broker's configs as they are now."""
        self._each(lambda side, quota: quota.set_limit(self._config.get_int(_rate_key(side))))

    def on_topic_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Take the throttled replicas on this broker from all overrides of a topic."""

        def follow(side: str, quota: ReplicationQuota) -> None:
            text = overrides.get(f"{side}.replication.throttled.replicas", "")
            quota.set_partitions(topic, throttled_partitions(text, self._config.broker_id))

        self._each(follow)

    def forget(self, topic: str) -> None:
        """It is deleted, which takes its configs along without telling anybody."""
        self.on_topic_config(topic, {})

    def _each(self, action: Callable[[str, ReplicationQuota], None]) -> None:
        action("leader", self.leader)
        action("follower", self.follower)


def throttled_partitions(text: str, broker_id: int) -> frozenset[int] | None:
    """The partitions with a replica on this broker in ``0:1,0:2,1:1`` (partition:broker); ``*`` is ALL_PARTITIONS."""
    text = text.strip()
    if text == _ALL:
        return ALL_PARTITIONS
    if text in ("", _NONE):
        return frozenset()
    pairs = (item.strip().partition(":") for item in text.split(",") if item.strip())
    return frozenset(int(partition) for partition, _, broker in pairs if broker.strip() == str(broker_id))


def _rate_key(side: str) -> str:
    return f"{side}.replication.throttled.rate"
