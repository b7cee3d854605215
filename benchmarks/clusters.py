"""Clusters of several brokers whose figures may stand beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.targets import kafka_command
from tests.reference.kafka import libraries
from tests.support.cluster import Cluster, Kind


def comparable_cluster(
    kinds: Sequence[Kind], directory: Path, zookeeper: str, settings: Mapping[str, str] | None = None
) -> Cluster:
    """Not started. Apache Kafka's brokers will run as by its own start script, not small and half compiled as in tests.

    Raises ReferenceUnavailableError.
    """
    cluster = Cluster(kinds, directory, zookeeper, settings)
    for broker in cluster.brokers:
        if broker.kind == "kafka":
            broker.kafka_command = partial(kafka_command, libraries())
    return cluster


@contextmanager
def running_comparable(
    kinds: Sequence[Kind], directory: Path, zookeeper: str, settings: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """Such a cluster, started, and stopped at the end whatever happens."""
    cluster = comparable_cluster(kinds, directory, zookeeper, settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
