"""Brokers are killed, stopped and restarted under load: what was acknowledged stays, and replicas end up identical."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.dev.polling import wait_until
from tests.support.cluster import CLOCK, Broker, Cluster
from tests.support.replication import (
    IdempotentLoad,
    PlainLoad,
    Reader,
    check_replicas,
    create_topic,
    leader_of,
    read_back,
    seen_partitions,
    wait_in_sync,
)

ASSIGNMENT = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
PARTITIONS = len(ASSIGNMENT)
SETTINGS = {
    "zookeeper.session.timeout.ms": "4000",
    "replica.lag.time.max.ms": "4000",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "3",
}


def start(make_cluster: Callable[..., Cluster], settings: dict[str, str]) -> Cluster:
    cluster = make_cluster(["odradek"] * 3, settings=settings)
    for topic in ("once", "plain"):
        create_topic(cluster, topic, ASSIGNMENT)
    return cluster


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    return start(make_cluster, SETTINGS)


def leaders(cluster: Cluster, topic: str) -> dict[int, int]:
    return {number: leader for number, (leader, _, _) in seen_partitions(cluster.brokers[0], topic).items()}


class Running:
    """Both kinds of producer, and a consumer, on a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.once = IdempotentLoad(cluster.bootstrap, "once", PARTITIONS)
        self.plain = PlainLoad(cluster.bootstrap, "plain", PARTITIONS)
        self._reader = Reader(cluster.bootstrap, "once", PARTITIONS)

    def wait_progress(self) -> None:
        for load in (self.once, self.plain):
            load.wait_progress()

    def wait_in_sync(self) -> None:
        for load in (self.once, self.plain):
            wait_in_sync(self._cluster, load.topic)

    def restart(self, *killed: Broker) -> None:
        """Start brokers that were killed."""
        for broker in killed:
            broker.start()
        self._cluster.wait_ready()
        self.wait_in_sync()
        self.wait_progress()

    def finish(self) -> None:
        """Everything acknowledged is there; replicas are identical."""
        for load in (self.once, self.plain):
            load.finish()
        self.wait_in_sync()
        ends = {}
        for load in (self.once, self.plain):
            read = read_back(self._cluster, load.topic, PARTITIONS)
            load.check(read)
            ends[load.topic] = [len(values) for values in read.values()]
            if load is self.once:
                self._reader.finish(read)
        self._cluster.stop()
        check_replicas(self._cluster, ends)


def test_leader_and_follower_killed(cluster: Cluster) -> None:
    running = Running(cluster)
    running.wait_progress()

    leader = cluster.brokers[leader_of(cluster, "once")]
    leader.kill()
    # The two others go on without it.
    running.wait_progress()
    running.restart(leader)

    follower = cluster.brokers[(leader_of(cluster, "once") + 1) % 3]
    follower.kill()
    running.wait_progress()
    running.restart(follower)

    # Both: the one that is left acknowledges nothing until another is back in sync.
    leader = cluster.brokers[leader_of(cluster, "once")]
    follower = cluster.brokers[(leader.broker_id + 1) % 3]
    leader.kill()
    running.wait_progress()
    follower.kill()
    running.restart(leader, follower)
    running.finish()


def test_rolling_restart_and_preferred_leaders_back(make_cluster: Callable[..., Cluster]) -> None:
    """No produce fails, retries apart; afterwards every partition is led by its first replica again, on its own."""
    rebalance = {
        "auto.leader.rebalance.enable": "true",
        "leader.imbalance.check.interval.seconds": "3",
        "leader.imbalance.per.broker.percentage": "0",
    }
    cluster = start(make_cluster, {**SETTINGS, **rebalance})
    running = Running(cluster)
    for broker in cluster.brokers:
        running.wait_progress()
        assert broker.stop() == 0
        running.wait_progress()
        broker.start()
        cluster.wait_ready()
        running.wait_in_sync()
    preferred = {number: replicas[0] for number, replicas in enumerate(ASSIGNMENT)}
    for topic in ("once", "plain"):
        assert wait_until(lambda topic=topic: leaders(cluster, topic) == preferred, CLOCK, 120_000, 500), topic  # type: ignore[misc]
    running.wait_progress()
    running.finish()
