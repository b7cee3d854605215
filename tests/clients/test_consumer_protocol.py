"""Groups with `group.protocol=consumer` (KIP-848), on Odradek and on Apache Kafka 4.1.0; about three minutes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.clients.group_harness import Members
from tests.support.cluster import Cluster
from tests.support.consumer_protocol import KINDS, running_consumer_cluster


@pytest.fixture(scope="module", params=KINDS)
def cluster(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    name = f"consumer-protocol-{request.param}"
    with running_consumer_cluster(request.param, tmp_path_factory.mktemp(name), f"{zookeeper}/{name}") as cluster:
        yield cluster


def produce(cluster: Cluster, topic: str, count: int, partitions: int) -> list[str]:
    """Send so many values, spread over the partitions; returns them."""
    prefix = uuid.uuid4().hex[:8]
    values = [f"{prefix}-{number}" for number in range(count)]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions)
    assert producer.flush(20) == 0
    return values


def names(topic: str, count: int) -> set[tuple[str, int]]:
    return {(topic, number) for number in range(count)}


def group_name() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def test_one_then_two_then_five_members_read_everything(cluster: Cluster, members: Members, create_topic) -> None:  # type: ignore[no-untyped-def]
    topic, group = create_topic(6), group_name()
    first = [members.add("confluent", group, topic, protocol="consumer")]
    members.wait_balanced(first, names(topic, 6))
    members.wait_values(produce(cluster, topic, 60, 6))
    two = [*first, members.add("confluent", group, topic, protocol="consumer")]
    members.wait_balanced(two, names(topic, 6))
    members.wait_values(produce(cluster, topic, 60, 6))
    five = two + [members.add("confluent", group, topic, protocol="consumer") for _ in range(3)]
    members.wait_balanced(five, names(topic, 6))
    values = produce(cluster, topic, 60, 6)
    members.wait_values(values)
    assert set(members.counts(values).values()) == {1}
