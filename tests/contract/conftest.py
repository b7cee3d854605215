"""Contract tests run on Odradek and on Apache Kafka: a test that fails on Kafka is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from network.client.connection import Connection
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.support.cluster import CLOCK, HOST, Cluster, running_cluster
from tests.support.consumer_member import RawMember, groups_everywhere, wait_assignable, wait_until
from tests.support.consumer_protocol import KINDS, OFFSETS_PARTITIONS, SESSION_TIMEOUT_MS, running_consumer_cluster
from tests.support.secured import World, running_world


@pytest.fixture(scope="session")
def secured(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A broker of each kind with an authorizer and short quota windows, shared by the tests of ACLs and quotas."""
    with running_world(zookeeper, tmp_path_factory.mktemp("secured")) as world:
        yield world


TOPICS = {"one": 4, "two": 4, "other": 2}


@pytest.fixture(scope="module", params=["odradek", "kafka"])
def cluster(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """One broker of each kind in turn, shared by the tests of a module; topics must have names of their own."""
    kind = request.param
    name = f"{request.module.__name__.rpartition('.')[2]}-{kind}"
    with running_cluster([kind], tmp_path_factory.mktemp(name), f"{zookeeper}/{name}") as cluster:
        yield cluster


@pytest.fixture(scope="session", params=KINDS)
def consumer_cluster(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """One broker that serves the consumer group protocol, of each kind in turn, shared by the tests of that protocol.

    Its coordinator is loaded and knows `TOPICS`; groups and further topics must have names of their own.
    """
    name = f"consumer-protocol-{request.param}"
    settings = {
        "group.consumer.migration.policy": "bidirectional",
        "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    }
    # It starts again when the other kind was between, as for the next file; ZooKeeper must not know it from before.
    directory = tmp_path_factory.mktemp(name)
    with running_consumer_cluster(request.param, directory, f"{zookeeper}/{directory.name}", settings) as cluster:
        with cluster.client() as client:
            client.coordinator("any")
            topics = [
                CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
                for topic, partitions in TOPICS.items()
            ]
            client.call_controller(CreateTopicsRequest(topics=topics, timeout_ms=15_000))

            def loaded() -> bool:
                groups = [f"warm-{number}" for number in range(20)]
                return not any(
                    client.call_coordinator(group, 0, DescribeGroupsRequest(groups=[group])).groups[0].error_code
                    for group in groups
                )

            wait_until(loaded, "a loaded coordinator")
        with Connection(HOST, cluster.brokers[0].port, "contract", CLOCK) as connection:
            wait_assignable(connection, groups_everywhere(OFFSETS_PARTITIONS), list(TOPICS), sum(TOPICS.values()))
        yield cluster


@pytest.fixture
def connection(consumer_cluster: Cluster) -> Iterator[Connection]:
    """To the broker of `consumer_cluster`."""
    made = Connection(HOST, consumer_cluster.brokers[0].port, "contract", CLOCK)
    yield made
    made.close()


@pytest.fixture
def newcomer(connection: Connection, group: str) -> RawMember:
    """A member of the consumer protocol that reads `one` and has not joined yet."""
    return RawMember(connection, group, ["one"])
