"""What an administrator asks for while faults last, and is refused at times."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from network.protocol.errors import ApiError
from network.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from network.protocol.messages.elect_leaders import ElectLeadersRequest
from tests.campaign.workloads import PARTITIONS, QUEUES
from tests.support.cluster import Cluster

AT_ONCE = 2


class Orders:
    """Given by threads of their own: a broker that is away must not keep the faults waiting."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self.given: Counter[str] = Counter()
        self.refused = 0
        """Of those given: nobody took them, though they may have been carried out."""
        self._cluster = cluster
        self._rng = rng
        self._topics = 0
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._open: set[Future[None]] = set()

    def give(self) -> None:
        """One of them, unless two are on their way already."""
        self._open = {each for each in self._open if not each.done()}
        if len(self._open) < AT_ONCE:
            name, order = self._rng.choice([self._elect, self._reassign, self._topic])()
            self.given[name] += 1
            self._open.add(self._pool.submit(self._try, order))

    def finish(self) -> None:
        """Until all are answered. Raises what an order must not raise."""
        for done in wait(self._open, 180).done:
            done.result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _try(self, order: Callable[[], None]) -> None:
        try:
            order()
        except (ApiError, OSError):
            self.refused += 1

    def _elect(self) -> tuple[str, Callable[[], None]]:
        def elect() -> None:
            with self._cluster.client() as client:
                client.call_controller(ElectLeadersRequest(topic_partitions=None, timeout_ms=3_000))

        return "elect", elect

    def _reassign(self) -> tuple[str, Callable[[], None]]:
        ids = [broker.broker_id for broker in self._cluster.brokers]
        wanted = ReassignablePartition(
            partition_index=self._rng.randrange(PARTITIONS), replicas=self._rng.sample(ids, 3)
        )
        topic = ReassignableTopic(name=self._rng.choice(QUEUES), partitions=[wanted])

        def reassign() -> None:
            with self._cluster.client() as client:
                client.call_controller(AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=3_000))

        return "reassign", reassign

    def _topic(self) -> tuple[str, Callable[[], None]]:
        """One that comes and goes."""
        self._topics += 1
        name = f"passing-{self._topics}"

        def topic() -> None:
            made = CreatableTopic(name=name, num_partitions=3, replication_factor=2)
            gone = [DeleteTopicState(name=name)]
            with self._cluster.client() as client:
                client.call_controller(CreateTopicsRequest(topics=[made], timeout_ms=3_000))
                client.call_controller(DeleteTopicsRequest(topics=gone, timeout_ms=1_000))

        return "topic", topic
