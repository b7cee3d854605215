"""Which fetcher a partition belongs to: one thread for each leader and index below `num.replica.fetchers`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from broker.cluster.metadata_cache import Node
from broker.java_hash import absolute, string_hash
from broker.replication.follower.fetch_state import InitialFetchState, PartitionFetchState
from broker.replication.follower.fetcher import FailedPartitions, ReplicaFetcher
from log.topic_partition import TopicPartition
from timer.metrics import Metrics

logger = logging.getLogger(__name__)


class FetcherId(NamedTuple):
    leader_id: int
    number: int


MakeFetcher = Callable[[FetcherId, Node], ReplicaFetcher]


def fetcher_index(tp: TopicPartition, num_fetchers: int) -> int:
    """The fetcher of a partition: by Java's string hash of the topic, so that it is the one Kafka would choose."""
    return absolute((31 * string_hash(tp.topic) + tp.partition) & 0xFFFFFFFF) % num_fetchers


class FetcherManager:
    """Thread-safe."""

    def __init__(self, num_fetchers: int, make: MakeFetcher, failed: FailedPartitions, metrics: Metrics) -> None:
        self._num_fetchers = num_fetchers
        self._make = make
        self._failed = failed
        self._lock = threading.RLock()
        self._fetchers: dict[FetcherId, tuple[Node, ReplicaFetcher]] = {}
        group, type_ = "kafka.server", "ReplicaFetcherManager"
        tags = {"clientId": "Replica"}
        metrics.gauge(group, type_, "MaxLag", lambda: self._largest_lag(), **tags)
        metrics.gauge(group, type_, "FailedPartitionsCount", lambda: float(len(failed)), **tags)
        metrics.gauge(group, type_, "DeadThreadCount", lambda: float(self._dead()), **tags)
        metrics.gauge(group, type_, "MinFetchRate", lambda: 0.0, **tags)

    def add(self, states: Mapping[TopicPartition, InitialFetchState]) -> None:
        """Start fetching; a fetcher whose leader has moved to another address is replaced."""
        groups: dict[tuple[FetcherId, Node], dict[TopicPartition, InitialFetchState]] = {}
        with self._lock:
            for tp, state in states.items():
                key = (FetcherId(state.leader.id, fetcher_index(tp, self._num_fetchers)), state.leader)
                groups.setdefault(key, {})[tp] = state
            for (fetcher_id, node), partitions in groups.items():
                self._fetcher(fetcher_id, node).add(partitions)
        if states:
            logger.info("fetching %d partitions from %s", len(states), sorted({s.leader.id for s in states.values()}))

    def _fetcher(self, fetcher_id: FetcherId, node: Node) -> ReplicaFetcher:
        held = self._fetchers.get(fetcher_id)
        if held is not None:
            old, fetcher = held
            if (old.host, old.port) == (node.host, node.port) and not fetcher.is_dead:
                return fetcher
            fetcher.shutdown()
        fetcher = self._make(fetcher_id, node)
        self._fetchers[fetcher_id] = (node, fetcher)
        fetcher.start()
        return fetcher

    def remove(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionFetchState]:
        """Stop fetching; the state each partition had."""
        wanted = list(partitions)
        removed: dict[TopicPartition, PartitionFetchState] = {}
        if not wanted:
            return removed
        with self._lock:
            for _, fetcher in self._fetchers.values():
                removed.update(fetcher.remove(wanted))
        self._failed.remove(wanted)
        return removed

    def update_topic_ids(self, topic_ids: Mapping[TopicPartition, bytes | None]) -> None:
        with self._lock:
            for _, fetcher in self._fetchers.values():
                fetcher.update_topic_ids(topic_ids)

    def census(self) -> list[tuple[int, int, int, int]]:
        """Of each fetcher: its leader, its number among those to it, its partitions, and the largest lag in records."""
        with self._lock:
            fetchers = list(self._fetchers.items())
        return [(key.leader_id, key.number, fetcher.count, fetcher.max_lag) for key, (_, fetcher) in fetchers]

    def shutdown_idle_threads(self) -> None:
        """End the fetchers that have no partition left."""
        with self._lock:
            idle = [fetcher_id for fetcher_id, (_, fetcher) in self._fetchers.items() if fetcher.count == 0]
            for fetcher_id in idle:
                self._fetchers.pop(fetcher_id)[1].shutdown()

    def resize(self, num_fetchers: int) -> None:
        """Use another number of fetchers a leader: everything is taken back and added again."""
        with self._lock:
            if num_fetchers == self._num_fetchers:
                return
            logger.info("num.replica.fetchers changes from %d to %d", self._num_fetchers, num_fetchers)
            self._num_fetchers = num_fetchers
            again: dict[TopicPartition, InitialFetchState] = {}
            for fetcher_id, (node, fetcher) in list(self._fetchers.items()):
                for tp, state in fetcher.remove(fetcher.partitions()).items():
                    again[tp] = InitialFetchState(state.topic_id, node, state.current_leader_epoch, state.fetch_offset)
                if fetcher_id.number >= num_fetchers:
                    self._fetchers.pop(fetcher_id)[1].shutdown()
            self.add(again)

    def shutdown(self) -> None:
        with self._lock:
            fetchers = [fetcher for _, fetcher in self._fetchers.values()]
            self._fetchers.clear()
        for fetcher in fetchers:
            fetcher.shutdown()

    def _largest_lag(self) -> float:
        with self._lock:
            return float(max((fetcher.max_lag for _, fetcher in self._fetchers.values()), default=0))

    def _dead(self) -> int:
        with self._lock:
            return sum(fetcher.is_dead for _, fetcher in self._fetchers.values())
