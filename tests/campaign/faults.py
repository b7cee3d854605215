"""What happens to a cluster, drawn from a seed: one fault at a time, and administration while it lasts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from broker.dev.zookeeper import EmbeddedZooKeeper
from network.client.connection import ConnectionFailed
from network.protocol.errors import ApiError
from network.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from network.protocol.messages.elect_leaders import ElectLeadersRequest
from tests.campaign.workloads import ONCE, PARTITIONS, PLAIN
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster
from tests.support.replication import wait_in_sync


class ZooKeeper:
    """The server, which can be killed and comes back with its data."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory = directory
        self._port = port
        self.server = self._start()

    def _start(self) -> EmbeddedZooKeeper:
        server = EmbeddedZooKeeper(self._directory / "data", self._port, self._directory / "zookeeper.log")
        server.wait_until_ready(CLOCK)
        return server

    def kill(self) -> None:
        self.server.process.kill()

    def start(self) -> None:
        self.server = self._start()


class Faults:
    """Draws them; `happened` counts. After `heal` all brokers run, and every replica is in sync."""

    def __init__(self, cluster: Cluster, zookeeper: ZooKeeper, seed: int) -> None:
        self.happened: Counter[str] = Counter()
        self.refused = 0
        """Orders that found nobody to take them, though they count as given."""
        self._cluster = cluster
        self._zookeeper = zookeeper
        self._rng = random.Random(seed)
        self._topics = 0
        self._kinds: list[Callable[[], None]] = [
            self._kill,
            self._kill,
            self._torn,
            self._pause,
            self._pause,
            self._restart,
            self._roll,
            self._zookeeper_away,
        ]
        self._admin: list[Callable[[], None]] = [self._elect, self._reassign, self._topic]

    def strike(self) -> None:
        """One fault from its begin to its end."""
        self._rng.choice(self._kinds)()
        if self._rng.random() < 0.3:
            self.heal()

    def heal(self) -> None:
        """Wait until nothing is left of the faults."""
        self._cluster.wait_ready()
        for topic in (ONCE, PLAIN):
            wait_in_sync(self._cluster, topic)

    def _count(self, name: str) -> None:
        self.happened[name] += 1

    def _broker(self) -> Broker:
        return self._rng.choice(self._cluster.brokers)

    def _meanwhile(self, seconds: float) -> None:
        """So much of an outage, with an order of an administrator in it; who may be refused, for brokers are away."""
        wire.pause(self._rng.random() * seconds)
        if self._rng.random() < 0.6:
            try:
                self._rng.choice(self._admin)()
            except (ApiError, OSError, ConnectionFailed, AssertionError):
                self.refused += 1

    # ---- to brokers

    def _kill(self) -> None:
        broker = self._broker()
        self._count("kill")
        broker.kill()
        self._meanwhile(6)
        _bring_back(broker)

    def _torn(self) -> None:
        """A kill in the middle of writing: the ends of its logs are what no client was ever told of."""
        broker = self._broker()
        self._count("torn")
        broker.kill()
        for folder in broker.data.glob("queue-*"):
            if segments := sorted(folder.glob("*.log")):
                with segments[-1].open("ab") as file:
                    file.write(self._rng.randbytes(self._rng.randrange(1, 300)))
        self._meanwhile(6)
        _bring_back(broker)

    def _pause(self) -> None:
        broker = self._broker()
        self._count("pause")
        broker.pause()
        self._meanwhile(10)
        broker.resume()

    def _restart(self) -> None:
        broker = self._broker()
        self._count("restart")
        broker.stop()
        self._meanwhile(3)
        _bring_back(broker)

    def _roll(self) -> None:
        self._count("roll")
        for broker in self._cluster.brokers:
            broker.stop()
            broker.start()
            self.heal()

    # ---- to ZooKeeper

    def _zookeeper_away(self) -> None:
        self._count("zookeeper")
        self._zookeeper.kill()
        wire.pause(self._rng.random() * 8)
        self._zookeeper.start()

    # ---- orders

    def _elect(self) -> None:
        self._count("elect")
        with self._cluster.client() as client:
            client.call_controller(ElectLeadersRequest(topic_partitions=None, timeout_ms=3_000))

    def _reassign(self) -> None:
        self._count("reassign")
        ids = [broker.broker_id for broker in self._cluster.brokers]
        wanted = ReassignablePartition(
            partition_index=self._rng.randrange(PARTITIONS), replicas=self._rng.sample(ids, 3)
        )
        topic = ReassignableTopic(name=self._rng.choice((ONCE, PLAIN)), partitions=[wanted])
        with self._cluster.client() as client:
            client.call_controller(AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=3_000))

    def _topic(self) -> None:
        """One that comes and goes, deleted while a broker is away."""
        self._count("topic")
        self._topics += 1
        name = f"passing-{self._topics}"
        made = CreatableTopic(name=name, num_partitions=3, replication_factor=2)
        with self._cluster.client() as client:
            client.call_controller(CreateTopicsRequest(topics=[made], timeout_ms=3_000))
            client.call_controller(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1_000))


def _bring_back(broker: Broker) -> None:
    broker.start()
    broker.wait_listening()
