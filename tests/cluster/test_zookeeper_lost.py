"""ZooKeeper restarts, or one broker alone loses it: records go on, and everything works afterwards; a minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.dev.processes import free_ports
from tests.cluster.test_controller import eventually
from tests.support.cluster import CLOCK, Cluster
from tests.support.controllers import controller
from tests.support.proxy import Proxy
from tests.support.replication import (
    IdempotentLoad,
    PlainLoad,
    Reader,
    check_replicas,
    create_topic,
    leader_of,
    read_back,
    wait_in_sync,
)
from tests.support.zookeeper import zookeeper_client
from tests.support.zookeeper_servers import ZooKeeperKind, zookeeper_kinds, zookeeper_server

ASSIGNMENT = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
PARTITIONS = len(ASSIGNMENT)
SETTINGS = {
    # Long enough that only who loses ZooKeeper loses its session: epochs are counted.
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "4000",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "3",
}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """Clusters whose ZooKeeper, and its address for each broker, the test gives."""
    made: list[Cluster] = []

    def make(server: str, addresses: dict[int, str] | None = None) -> Cluster:
        own = {number: {"zookeeper.connect": address} for number, address in (addresses or {}).items()}
        made.append(Cluster(["odradek"] * 3, tmp_path, server, SETTINGS, own))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()


class Running:
    """Producers and a consumer on two topics."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        for topic in ("once", "plain"):
            create_topic(cluster, topic, ASSIGNMENT)
        self.loads = [
            IdempotentLoad(cluster.bootstrap, "once", PARTITIONS),
            PlainLoad(cluster.bootstrap, "plain", PARTITIONS),
        ]
        self._reader = Reader(cluster.bootstrap, "once", PARTITIONS)
        self.wait_progress()

    def wait_progress(self) -> None:
        for load in self.loads:
            load.wait_progress()

    def finish(self) -> None:
        ends = {}
        for load in self.loads:
            load.finish()
            wait_in_sync(self._cluster, load.topic)
            read = read_back(self._cluster, load.topic, PARTITIONS)
            load.check(read)
            ends[load.topic] = [len(values) for values in read.values()]
            if load.topic == "once":
                self._reader.finish(read)
        # ZooKeeper and the controller do their work still.
        create_topic(self._cluster, "afterwards", ASSIGNMENT)
        self._cluster.stop()
        check_replicas(self._cluster, ends)


@pytest.mark.parametrize("kind", zookeeper_kinds(both=True))
def test_zookeeper_restarts(make: Callable[..., Cluster], tmp_path: Path, kind: ZooKeeperKind) -> None:
    """Killed and away for longer than a session lasts; the sessions are still known when it is back."""
    port = free_ports(1)[0]
    server = zookeeper_server(kind, tmp_path / "zookeeper", port)
    try:
        server.wait_until_ready(CLOCK)
        cluster = make(server.connect)
        cluster.start()
        with zookeeper_client(cluster.zookeeper) as client:
            before = controller(client)
        running = Running(cluster)
        server.process.kill()
        running.wait_progress()  # records need no ZooKeeper
        time.sleep(8)
        running.wait_progress()
        server = zookeeper_server(kind, tmp_path / "zookeeper", port)
        server.wait_until_ready(CLOCK)
        cluster.wait_ready()
        running.wait_progress()
        with zookeeper_client(cluster.zookeeper) as client:
            eventually(lambda: sorted(client.get_children("/brokers/ids")) == ["0", "1", "2"], "registration")
            eventually(lambda: controller(client) is not None, "election")
            assert before is not None
        # An ISR change and an election need both.
        cluster.brokers[leader_of(cluster, "once")].stop()
        running.wait_progress()
        for broker in cluster.brokers:
            if broker not in cluster.running:
                broker.start()
        cluster.wait_ready()
        for load in running.loads:
            wait_in_sync(cluster, load.topic)
        running.finish()
    finally:
        server.stop()


@pytest.mark.both_zookeepers
def test_one_broker_loses_zookeeper(make: Callable[..., Cluster], chroot: str) -> None:
    """The controller, leader of a partition, has a network but no ZooKeeper, until its session has long ended.

    It must not acknowledge anything on its own, nor be obeyed; when ZooKeeper is back for it, it joins again.
    """
    server, path = chroot.split("/", 1)
    proxy = Proxy(server)
    try:
        cluster = make(chroot, {0: f"{proxy.address}/{path}"})
        lonely = cluster.brokers[0]
        lonely.start()
        with zookeeper_client(cluster.zookeeper) as client:
            eventually(lambda: (controller(client) or (-1, 0))[0] == 0, "election of broker 0")
            for other in cluster.brokers[1:]:
                other.start()
            cluster.wait_ready()
            running = Running(cluster)
            first = controller(client)
            assert first is not None
            assert first[0] == 0
            old = client.exists("/brokers/ids/0").czxid
            proxy.hold()
            eventually(lambda: client.exists("/brokers/ids/0") is None, "end of its session")
            eventually(lambda: (controller(client) or first)[0] != 0, "takeover")
            second = controller(client)
            assert second is not None
            assert second[1] == first[1] + 1
            # A client that believes the lonely broker's old metadata has to wait; librdkafka looks at leader epochs.
            running.loads[0].wait_progress()
            eventually(lambda: leader_of(cluster, "once", 0, asked=cluster.brokers[1]) != 0, "another leader")
            proxy.resume()
            eventually(
                lambda: (stat := client.exists("/brokers/ids/0")) is not None and stat.czxid > old,
                "new registration",
            )
            cluster.wait_ready()
            for load in running.loads:
                wait_in_sync(cluster, load.topic)
            running.wait_progress()
            assert controller(client) == second
        running.finish()
    finally:
        proxy.close()
