"""One Odradek broker for the tests of client libraries, shared by the tests of a module."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.clients.group_harness import Members
from tests.support.cluster import Cluster, running_cluster


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    name = f"{request.module.__name__.rpartition('.')[2]}-clients"
    settings = {
        "group.min.session.timeout.ms": "1000",
        "offsets.topic.num.partitions": "5",
        # A dozen members that start at once let the broker wait.
        "zookeeper.session.timeout.ms": "10000",
    }
    with running_cluster(["odradek"], tmp_path_factory.mktemp(name), f"{zookeeper}/{name}", settings) as cluster:
        yield cluster


@pytest.fixture
def members(cluster: Cluster) -> Iterator[Members]:
    made = Members(cluster.bootstrap)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def create_topic(cluster: Cluster) -> Callable[..., str]:
    """Create a topic with so many partitions and a name of its own."""

    def create(partitions: int = 1, name: str | None = None) -> str:
        name = name or f"topic-{uuid.uuid4().hex[:10]}"
        wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        with cluster.client() as client:
            (result,) = client.call_controller(CreateTopicsRequest(topics=[wanted], timeout_ms=15_000)).topics
        assert result.error_code == 0, result.error_message
        cluster.wait_topic(name, partitions)
        return name

    return create
