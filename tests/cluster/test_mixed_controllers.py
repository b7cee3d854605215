"""Odradek and Apache Kafka 3.9.1 in one cluster, each as the controller over brokers of both kinds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.cluster.test_controller import eventually, everywhere
from tests.support.cluster import Cluster
from tests.support.controllers import controller, elect_controller
from tests.support.replication import ask_controller, delete_topic
from tests.support.zookeeper import zookeeper_client

pytestmark = pytest.mark.both_zookeepers
SETTINGS = {"zookeeper.session.timeout.ms": "6000", "auto.leader.rebalance.enable": "false"}


def create(cluster: Cluster, topic: str, assignment: list[list[int]]) -> None:
    new = NewTopic(topic, num_partitions=len(assignment), replica_assignment=assignment)
    ask_controller(cluster, lambda admin: admin.create_topics([new], operation_timeout=30))


def round_trip(cluster: Cluster, topic: str, partitions: int, already: int, count: int) -> None:
    """Produce `count` records to each partition, then read everything back, in order."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True})
    for number in range(already, already + count):
        for partition in range(partitions):
            producer.produce(
                topic,
                str(number).encode(),
                partition=partition,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
    assert producer.flush(60) == 0
    assert not failures
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "mixed", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    read: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
    try:
        while sum(map(len, read.values())) < partitions * (already + count):
            message = consumer.poll(60)
            assert message is not None, f"only {read} came back"
            assert message.error() is None, message.error()
            read[message.partition()].append(int(message.value()))  # type: ignore[index, arg-type]
    finally:
        consumer.close()
    assert all(values == list(range(already + count)) for values in read.values())


def test_each_kind_controls_the_other(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(["odradek", "kafka"], settings=SETTINGS)
    odradek, kafka = cluster.brokers
    with zookeeper_client(cluster.zookeeper) as client:
        # Odradek starts faster on most machines.
        first = elect_controller(cluster, client, [0])
        create(cluster, "t", [[0], [1], [1], [0]])
        everywhere(cluster, "t", {0: 0, 1: 1, 2: 1, 3: 0})
        round_trip(cluster, "t", 4, 0, 50)
        create(cluster, "doomed", [[1], [0]])
        everywhere(cluster, "doomed", {0: 1, 1: 0})
        delete_topic(cluster, "doomed")
        eventually(lambda: client.exists("/brokers/topics/doomed") is None, "deletion by Odradek")

        # A clean stop of Odradek: Kafka takes over, Odradek comes back as its subject.
        odradek.stop()
        eventually(lambda: (controller(client) or first)[0] == 1, "takeover by Kafka")
        second = controller(client)
        assert second is not None
        assert second[1] == first[1] + 1
        odradek.start()
        cluster.wait_ready()
        everywhere(cluster, "t", {0: 0, 1: 1, 2: 1, 3: 0})
        round_trip(cluster, "t", 4, 50, 50)
        create(cluster, "doomed", [[1], [0]])
        everywhere(cluster, "doomed", {0: 1, 1: 0})
        delete_topic(cluster, "doomed")
        eventually(lambda: client.exists("/brokers/topics/doomed") is None, "deletion by Kafka")

        # Kafka is killed: Odradek takes over on Kafka's own znodes, and rules it again when it is back.
        kafka.kill()
        eventually(lambda: (controller(client) or second)[0] == 0, "takeover by Odradek")
        third = controller(client)
        assert third is not None
        assert third[1] == second[1] + 1
        kafka.start()
        cluster.wait_ready()
        everywhere(cluster, "t", {0: 0, 1: 1, 2: 1, 3: 0})
        round_trip(cluster, "t", 4, 100, 50)
    # A partition's only broker is down for a while: Kafka logs that as errors with any controller.
    lines = kafka.log_file.read_text().splitlines()
    errors = [line for line in lines if "] ERROR " in line and "(state.change.logger)" not in line]
    assert not errors, errors[:5]
