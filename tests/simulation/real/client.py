"""What all clients of the simulation share: whom to ask, and to ask again until there is an answer that is one."""

from __future__ import annotations

import contextlib
from random import Random
from typing import Any

from network.client.connection import Connection, ConnectionFailed
from network.protocol.messages.find_coordinator import FindCoordinatorRequest
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.simulation.real.brokers import PORT, Cluster
from tests.simulation.real.history import History
from tests.simulation.real.runtime import Process
from timer.clock import SystemClock

PARTITIONS = 2
CALL_MS = 4_000
AGAIN_MS = 100
GROUP, TRANSACTION = 0, 1
METADATA_MAX_AGE_MS = 30_000
"""A broker that was away while a partition left it may answer as its leader still, as Apache Kafka's; clients turn away
from it when they ask for leaders anew (`metadata.max.age.ms`)."""


class Stopped(Exception):
    """The client was told to end."""


class Client:
    """Asks the broker that is responsible, again and again until it has an answer that is one.

    What it draws depends on the seed and its name alone, and it ends by itself after `limit` steps, so that a failing
    run can be tried again with less of it.
    """

    def __init__(self, cluster: Cluster, name: str, history: History) -> None:
        self.cluster = cluster
        self.name = name
        self.history = history
        self.process = Process(name)
        self.rng = Random(f"{cluster.seed} {name}")
        self.stopping = False
        self.done = False
        self.steps = 0
        self.limit: int | None = None
        self.clock = SystemClock()
        self._connections: dict[int, Connection] = {}
        self._leaders: dict[tuple[str, int], tuple[int, int]] = {}
        self._epochs: dict[tuple[str, int], int] = {}
        self._learned_ms: dict[tuple[str, int], float] = {}
        self._coordinators: dict[tuple[str, int], int] = {}

    def start(self) -> None:
        self.cluster.spawn(self.process, self._run, self.name)

    def _run(self) -> None:
        with contextlib.suppress(Stopped):
            self.work()
        for connection in self._connections.values():
            connection.close()
        self.done = True

    def work(self) -> None:
        raise NotImplementedError

    def is_over(self) -> bool:
        return self.stopping or (self.limit is not None and self.steps >= self.limit)

    def more(self) -> bool:
        """Whether there is another step, which is begun then."""
        if self.is_over():
            return False
        self.steps += 1
        return True

    def pause(self, ms: float = AGAIN_MS) -> None:
        self.cluster.runtime.sleep(ms)

    def connection(self, broker: int) -> Connection:
        """Raises ConnectionFailed."""
        connection = self._connections.get(broker)
        if connection is None or connection.closed:
            host = self.cluster.brokers[broker].host
            connection = Connection(host, PORT, self.name, self.clock, CALL_MS, CALL_MS)
            self._connections[broker] = connection
        return connection

    def ask(self, broker: int, request: Any, version: int) -> Any:
        """Raises ConnectionFailed."""
        return self.connection(broker).call(request, version)

    def any_broker(self) -> int:
        return self.rng.choice(sorted(self.cluster.brokers))

    def leader(self, topic: str, partition: int) -> int:
        """Raises ConnectionFailed if nobody knows one now."""
        return self.leader_and_epoch(topic, partition)[0]

    def leader_and_epoch(self, topic: str, partition: int) -> tuple[int, int]:
        """Raises ConnectionFailed if nobody knows one now."""
        where = (topic, partition)
        age_ms = self.cluster.runtime.now_ms() - self._learned_ms.get(where, 0)
        if where not in self._leaders or age_ms > METADATA_MAX_AGE_MS:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
            answer = self.ask(self.any_broker(), request, 9)
            for each in answer.topics[0].partitions:
                if each.leader_id > 0:
                    self._take_leader((topic, each.partition_index), each.leader_id, each.leader_epoch)
        if where not in self._leaders:
            raise ConnectionFailed("no leader")
        return self._leaders[where]

    def _take_leader(self, where: tuple[str, int], leader: int, epoch: int) -> None:
        """As clients do (KIP-320), believe no broker that has not heard of what is known here already."""
        self.history.led(*where, epoch, leader)
        if epoch >= self._epochs.get(where, -1):
            self._epochs[where] = epoch
            self._leaders[where] = leader, epoch
            self._learned_ms[where] = self.cluster.runtime.now_ms()

    def coordinator(self, key: str, kind: int) -> int:
        """Raises ConnectionFailed if nobody knows one now."""
        known = self._coordinators.get((key, kind))
        if known is not None:
            return known
        answer = self.ask(self.any_broker(), FindCoordinatorRequest(key=key, key_type=kind), 3)
        if answer.error_code:
            raise ConnectionFailed("no coordinator")
        self._coordinators[(key, kind)] = int(answer.node_id)
        return int(answer.node_id)

    def forget(self) -> None:
        self._leaders.clear()
        self._coordinators.clear()

    def again(self) -> None:
        self.forget()
        self.pause(AGAIN_MS * (0.5 + self.rng.random()))

    def until(self, attempt: Any) -> Any:
        """The first answer of `attempt` that is not None. It raises ConnectionFailed for one that is not there."""
        while True:
            try:
                found = attempt()
                if found is not None:
                    return found
            except ConnectionFailed:
                pass
            if self.stopping:
                raise Stopped
            self.again()
