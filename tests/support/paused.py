"""Brokers that stand still (SIGSTOP) for a while, in clusters that keep their sessions meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from broker.dev.polling import wait_until
from network.protocol.messages.metadata import MetadataRequest
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster
from tests.support.replication import seen_partitions

# Brokers that are paused stay alive for ZooKeeper, but leave the ISR soon.
PATIENT = {
    "zookeeper.session.timeout.ms": "30000",
    # What a test does with a follower that stands still and counts all the same has to be done in this time.
    "replica.lag.time.max.ms": "6000",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "3",
}


@contextlib.contextmanager
def paused(*brokers: Broker) -> Iterator[None]:
    """They stand still inside."""
    try:
        for broker in brokers:
            broker.pause()
        yield
    finally:
        for broker in brokers:
            broker.resume()


def controller_first(cluster: Cluster) -> list[Broker]:
    """All brokers, the controller first: as leader it can change the ISR while all others are paused."""
    controller = wire.call(cluster.running[0], MetadataRequest(topics=[]), 12).controller_id
    return sorted(cluster.brokers, key=lambda broker: broker.broker_id != controller)


def wait_isr(asked: Broker, topic: str, isr: set[int], partition: int = 0, timeout_ms: int = 60_000) -> None:
    """Until one broker tells exactly this ISR."""
    found: list[object] = []

    def is_so() -> bool:
        found[:] = [seen_partitions(asked, topic).get(partition)]
        return isinstance(found[0], tuple) and found[0][2] == isr

    assert wait_until(is_so, CLOCK, timeout_ms, 200), f"{topic}-{partition}: ISR {found}, not {isr}"
