"""A real Spark session and a real cluster for the pipeline's tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from broker.cli.errors import MissingPrerequisiteError
from broker.dev.java import find_java
from tests.spark import connector
from tests.support.cluster import Cluster, python_environment, running_cluster


def require_java() -> None:
    """Skip where Spark can't run."""
    try:
        find_java()
    except MissingPrerequisiteError as error:
        pytest.skip(f"Spark needs Java: {error}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """``local[2]`` with our source registered, and Spark's own connector where it can be had."""
    require_java()
    from pyspark.sql import SparkSession

    from spark_jobs.source import register

    os.environ.update(python_environment())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("odradek-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        # Short queries on few cores: the optimizing compiler and a parallel collector take more than they give.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.jars", ",".join(map(str, connector.available())))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    yield session
    session.stop()


@pytest.fixture
def pushdown(spark: Any) -> Iterator[None]:
    """Filters are pushed to the source, as with ``register(spark, pushdown=True)``."""
    from spark_jobs.source import PUSHDOWN

    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


# So that consumers may read from the replica in their rack.
SETTINGS = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
RACKS = {number: {"broker.rack": f"rack-{number}"} for number in range(3)}


@pytest.fixture(scope="session")
def cluster(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers of ours for most tests."""
    place = tmp_path_factory.mktemp("spark")
    with running_cluster(["odradek"] * 3, place, f"{zookeeper}/spark", SETTINGS, RACKS) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def apache(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers of Apache Kafka: the source and the sink work with any compatible broker."""
    place = tmp_path_factory.mktemp("apache")
    with running_cluster(["kafka"] * 3, place, f"{zookeeper}/apache", SETTINGS, RACKS) as cluster:
        yield cluster


@pytest.fixture(params=["cluster", "apache"], ids=["odradek", "kafka"])
def three(request: pytest.FixtureRequest) -> Cluster:
    """Three brokers of either kind."""
    found: Cluster = request.getfixturevalue(request.param)
    assert len(found.running) == 3
    return found
