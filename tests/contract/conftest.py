"""Contract tests run on Odradek and on Apache Kafka: a test that fails on Kafka is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster, running_cluster


@pytest.fixture(scope="module", params=["odradek", "kafka"])
def cluster(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """One broker of each kind in turn, shared by the tests of a module; topics must have names of their own."""
    kind = request.param
    name = f"{request.module.__name__.rpartition('.')[2]}-{kind}"
    with running_cluster([kind], tmp_path_factory.mktemp(name), f"{zookeeper}/{name}") as cluster:
        yield cluster
