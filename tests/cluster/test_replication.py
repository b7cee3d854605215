"""Replication with real processes: acknowledged records survive the loss of leaders, and replicas end up identical."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.reference import kafka
from tests.support.cluster import Broker, Cluster

TOPIC = "replicated"
PARTITIONS = 3


class Load:
    """An idempotent producer with acks=all that goes on until it is stopped; remembers what was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        self.failed: list[KafkaError] = []
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._producer.produce(
                TOPIC, value=b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered
            )
            number += 1
            self._producer.poll(0)
            if number % 50 == 0:
                time.sleep(0.005)

    def _delivered(self, error: KafkaError | None, message: object) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            self.acknowledged[message.partition()].append(message.value())  # type: ignore[attr-defined]

    def finish(self) -> int:
        self._stop.set()
        self._thread.join(10)
        assert self._producer.flush(90) == 0
        assert not self.failed, self.failed[:3]
        return sum(map(len, self.acknowledged.values()))


def create_topic(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])[TOPIC].result(30)


def metadata(cluster: Cluster) -> dict[int, tuple[int, set[int]]]:
    """Leader and ISR of each partition."""
    admin = AdminClient({"bootstrap.servers": ",".join(broker.address for broker in cluster.running)})
    partitions = admin.list_topics(TOPIC, timeout=15).topics[TOPIC].partitions
    return {number: (entry.leader, set(entry.isrs)) for number, entry in partitions.items()}


def wait_in_sync(cluster: Cluster, deadline_s: float = 60) -> None:
    limit = time.monotonic() + deadline_s
    while time.monotonic() < limit:
        found = metadata(cluster)
        if all(isr == {0, 1, 2} and leader >= 0 for leader, isr in found.values()):
            return
        time.sleep(0.3)
    raise AssertionError(f"not in sync: {metadata(cluster)}")


def read_back(cluster: Cluster) -> dict[int, list[bytes]]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "check", "enable.auto.commit": False, "log_level": 0}
    )
    try:
        partitions = [TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)]
        ends = {tp.partition: consumer.get_watermark_offsets(tp, timeout=15)[1] for tp in partitions}
        consumer.assign(partitions)
        read: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        limit = time.monotonic() + 60
        while time.monotonic() < limit and any(len(read[number]) < ends[number] for number in read):
            for message in consumer.consume(1000, 1):
                assert message.error() is None
                assert message.offset() == len(read[message.partition()])
                read[message.partition()].append(message.value())
        return read
    finally:
        consumer.close()


def check(cluster: Cluster, load: Load) -> None:
    """Everything acknowledged is there once and in order, and all replicas are byte-identical."""
    wait_in_sync(cluster)
    read = read_back(cluster)
    for number, acknowledged in load.acknowledged.items():
        assert read[number] == acknowledged
    cluster.stop()
    for number in range(PARTITIONS):
        copies = [segments(broker, number) for broker in cluster.brokers]
        assert copies[0] == copies[1] == copies[2]
        assert copies[0]


def segments(broker: Broker, partition: int) -> bytes:
    files = sorted((broker.data / f"{TOPIC}-{partition}").glob("*.log"))
    return b"".join(file.read_bytes() for file in files)


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    settings = {"zookeeper.session.timeout.ms": "3000", "replica.lag.time.max.ms": "3000"}
    running = make_cluster(["odradek"] * 3, settings=settings)
    create_topic(running)
    return running


def test_rolling_restart_under_load(cluster: Cluster) -> None:
    load = Load(cluster.bootstrap)
    for broker in cluster.brokers:
        time.sleep(1)
        assert broker.stop() == 0
        broker.start()
        cluster.wait_ready()
        wait_in_sync(cluster)
    assert load.finish() > 1000
    check(cluster, load)


def test_leader_and_follower_killed_in_turn(cluster: Cluster) -> None:
    load = Load(cluster.bootstrap)
    for victim_role in ("leader", "follower"):
        time.sleep(1)
        leader = metadata(cluster)[0][0]
        victim = cluster.brokers[leader if victim_role == "leader" else (leader + 1) % 3]
        victim.kill()
        cluster.wait_forgotten(victim)
        time.sleep(1)
        victim.start()
        cluster.wait_ready()
        wait_in_sync(cluster)
    assert load.finish() > 1000
    check(cluster, load)


@pytest.mark.parametrize("kinds", [["kafka", "odradek", "odradek"], ["odradek", "kafka", "kafka"]], ids=str)
def test_replicas_on_kafka_and_odradek(kinds: list[str], make_cluster: Callable[..., Cluster]) -> None:
    """Each kind leads and follows the other, each is restarted under load, one is killed."""
    kafka.require()
    settings = {"zookeeper.session.timeout.ms": "3000", "replica.lag.time.max.ms": "3000"}
    cluster = make_cluster(kinds, settings=settings)
    create_topic(cluster)
    load = Load(cluster.bootstrap)
    for broker in cluster.brokers:
        time.sleep(1)
        broker.stop()
        broker.start()
        cluster.wait_ready()
        wait_in_sync(cluster)
    leader = cluster.brokers[metadata(cluster)[0][0]]
    leader.kill()
    cluster.wait_forgotten(leader)
    leader.start()
    cluster.wait_ready()
    wait_in_sync(cluster)
    assert load.finish() > 1000
    check(cluster, load)


def test_old_protocol_version_changes_the_isr_through_zookeeper(make_cluster: Callable[..., Cluster]) -> None:
    """With `inter.broker.protocol.version` 2.6 leaders write the state znode themselves."""
    settings = {
        "zookeeper.session.timeout.ms": "3000",
        "replica.lag.time.max.ms": "2000",
        "inter.broker.protocol.version": "2.6",
        "controlled.shutdown.enable": "false",
    }
    cluster = make_cluster(["odradek"] * 3, settings=settings)
    create_topic(cluster)
    load = Load(cluster.bootstrap)
    follower = cluster.brokers[(metadata(cluster)[0][0] + 1) % 3]
    follower.pause()  # longer than the lag limit, shorter than its session
    time.sleep(2.5)
    follower.resume()
    wait_in_sync(cluster)
    follower.kill()
    cluster.wait_forgotten(follower)
    follower.start()
    cluster.wait_ready()
    wait_in_sync(cluster)
    assert load.finish() > 1000
    check(cluster, load)
