"""The two losses of KIP-101, which happened as long as followers truncated to their high watermark; about a minute.

Both need unlucky moments. Here sessions last a minute and are ended by hand, so that the controller learns of a death
exactly when the test says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient

from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from controller.zk import paths
from controller.zk.payloads import decode_partition_state, encode_partition_state
from log.files.checkpoint import OffsetCheckpoint
from log.topic_partition import TopicPartition
from tests.cluster.test_controller import eventually, leaders
from tests.support.batches import iter_batches
from tests.support.cluster import CLOCK, HOST, Broker, Cluster
from tests.support.controllers import controller
from tests.support.proxy import Proxy
from tests.support.replication import (
    HIGH_WATERMARKS,
    QUIET,
    check_replicas,
    create_topic,
    log_content,
    read_back,
    wait_in_sync,
)
from tests.support.zookeeper import zookeeper_client

TOPIC = "t"
SETTINGS = {
    "zookeeper.session.timeout.ms": "60000",
    "replica.lag.time.max.ms": "60000",
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture
def make(chroot: str, tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """Clusters whose brokers the test starts itself."""
    made: list[Cluster] = []

    def make(count: int, settings: dict[str, str]) -> Cluster:
        made.append(Cluster(["odradek"] * count, tmp_path, chroot, {**SETTINGS, **settings}))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()


def write(cluster: Cluster, partition: int, values: list[bytes]) -> None:
    """Each value in a batch of its own, acknowledged by the whole ISR."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **QUIET})
    for value in values:
        producer.produce(TOPIC, value, partition=partition, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(60) == 0
    assert not any(errors), errors


def end_session(client: KazooClient, dead: Broker) -> None:
    """What ZooKeeper does at the end of a session, without the wait."""
    now = controller(client)
    client.delete(f"/brokers/ids/{dead.broker_id}")
    if now is not None and now[0] == dead.broker_id:
        client.delete("/controller")


def take_into_isr(client: KazooClient, broker: Broker) -> None:
    """As it is with Apache Kafka's controller, which does not see that the broker was away, where ours does."""
    path = paths.partition_state(TopicPartition(TOPIC, 0))
    data, stat = client.get(path)
    state = decode_partition_state(data, stat.version)
    assert state is not None
    isr = tuple(dict.fromkeys((*state.isr, broker.broker_id)))
    client.set(path, encode_partition_state(replace(state, isr=isr)), stat.version)


def start_first(cluster: Cluster, broker: Broker) -> None:
    """Start all; `broker` is the controller."""
    broker.start()
    broker.wait_listening()
    with zookeeper_client(cluster.zookeeper) as client:
        eventually(lambda: (controller(client) or (-1, 0))[0] == broker.broker_id, "election")
    for other in cluster.brokers:
        if other is not broker:
            other.start()
    cluster.wait_ready()


def finish(cluster: Cluster, holders: list[int], expected: dict[int, list[bytes]]) -> None:
    cluster.wait_ready()
    wait_in_sync(cluster, TOPIC)
    assert read_back(cluster, TOPIC, len(expected)) == expected
    cluster.stop()
    check_replicas(cluster, {TOPIC: [len(values) for values in expected.values()]}, holders)


@pytest.mark.parametrize("protocol", ["3.9", "2.6"], ids=["truncation-by-fetch", "offset-for-leader-epoch"])
def test_high_watermark_one_round_trip_behind(protocol: str, make: Callable[..., Cluster]) -> None:
    """A follower has records that it does not know to be committed. It restarts and can't reach its leader, which dies.

    Had it cut its log back to its high watermark when it became a follower again, the new leader would lack what the
    old one acknowledged.
    """
    # The high watermark on disk stays at 0, however long the test takes.
    cluster = make(
        3,
        {
            "inter.broker.protocol.version": protocol,
            "replica.high.watermark.checkpoint.interval.ms": "600000",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT",
            "inter.broker.listener.name": "REPLICATION",
        },
    )
    bystander, leader, follower = cluster.brokers
    ports = free_ports(3)
    proxy = Proxy(f"{HOST}:{ports[leader.broker_id]}")
    try:
        for broker, port in zip(cluster.brokers, ports, strict=True):
            seen = proxy.port if broker is leader else port
            broker.settings["listeners"] = f"PLAINTEXT://{broker.address},REPLICATION://{HOST}:{port}"
            broker.settings["advertised.listeners"] = f"PLAINTEXT://{broker.address},REPLICATION://{HOST}:{seen}"
        start_first(cluster, bystander)
        create_topic(cluster, TOPIC, [[1, 2]], min_isr=1)
        values = [b"acknowledged %d" % number for number in range(20)]
        write(cluster, 0, values)
        with zookeeper_client(cluster.zookeeper) as client:
            # No controller sees the follower go.
            bystander.kill()
            follower.kill()
            client.delete(f"/brokers/ids/{follower.broker_id}")
            before = log_content(follower, TOPIC, 0)
            assert OffsetCheckpoint(follower.data / HIGH_WATERMARKS).read().get(TopicPartition(TOPIC, 0), 0) == 0
            proxy.cut()
            follower.start()
            eventually(lambda: client.exists(f"/brokers/ids/{follower.broker_id}") is not None, "registration")
            end_session(client, bystander)
            eventually(lambda: leaders(follower, TOPIC) == {0: leader.broker_id}, "the role of follower")
            take_into_isr(client, follower)
            assert log_content(follower, TOPIC, 0) == before, "nothing tells it to truncate"
            leader.kill()
            end_session(client, leader)
            eventually(lambda: leaders(follower, TOPIC) == {0: follower.broker_id}, "the role of leader")
        assert read_back(cluster, TOPIC, 1) == {0: values}
        write(cluster, 0, [b"of the new leader"])
        proxy.resume()
        leader.start()
        bystander.start()
        finish(cluster, [1, 2], {0: [*values, b"of the new leader"]})
    finally:
        proxy.close()


@pytest.mark.parametrize("protocol", ["3.9", "2.6"], ids=["truncation-by-fetch", "offset-for-leader-epoch"])
def test_logs_that_diverged_below_the_high_watermark(protocol: str, make: Callable[..., Cluster]) -> None:
    """All replicas lose power; the follower's disk has not got the last records, and it is the first to come back.

    As the new leader it gives their offsets to other records. The old leader, when it returns, has those offsets below
    its high watermark: only the leader epochs tell that they are not the new leader's.
    """
    cluster = make(
        2, {"inter.broker.protocol.version": protocol, "replica.high.watermark.checkpoint.interval.ms": "200"}
    )
    leader, follower = cluster.brokers
    start_first(cluster, leader)
    create_topic(cluster, TOPIC, [[0, 1], [0, 1]], min_isr=1)
    old = [b"old %d" % number for number in range(10)]
    for partition in (0, 1):
        write(cluster, partition, old)
    checkpoint = OffsetCheckpoint(leader.data / HIGH_WATERMARKS)
    both = [TopicPartition(TOPIC, partition) for partition in (0, 1)]
    assert wait_until(lambda: [checkpoint.read().get(tp, 0) for tp in both] == [10, 10], CLOCK, 30_000)
    for broker in cluster.brokers:
        broker.kill()
    lost = 4
    for partition in (0, 1):
        file = follower.data / f"{TOPIC}-{partition}" / f"{0:020}.log"
        content = file.read_bytes()
        keep = list(iter_batches(content))[-lost].position
        file.write_bytes(content[:keep])
    with zookeeper_client(cluster.zookeeper) as client:
        for broker in cluster.brokers:
            end_session(client, broker)
        follower.start()
        eventually(lambda: leaders(follower, TOPIC) == {0: 1, 1: 1}, "the follower leads")
    # One log ends beyond the old leader's, the other below.
    new = {partition: [b"new record %d" % number for number in range(count)] for partition, count in ((0, 7), (1, 2))}
    for partition, values in new.items():
        write(cluster, partition, values)
    leader.start()
    finish(cluster, [0, 1], {partition: [*old[:-lost], *values] for partition, values in new.items()})
