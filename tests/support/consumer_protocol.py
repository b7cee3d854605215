"""Brokers that serve the consumer group protocol (KIP-848): Odradek, and Apache Kafka 4.1.0 in KRaft mode."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.reference.kraft import running_kraft
from tests.support.cluster import Cluster, running_cluster

KINDS = ["odradek", "kafka-4"]

OFFSETS_PARTITIONS = 3
# For tests that beat by hand: longer than a busy machine lets a member wait between two of its heartbeats.
SESSION_TIMEOUT_MS = 12_000
SETTINGS = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}


@contextlib.contextmanager
def running_consumer_cluster(
    kind: str, directory: Path, zookeeper: str, settings: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """One broker of the kind."""
    merged = {**SETTINGS, **(settings or {})}
    if kind == "odradek":
        with running_cluster(["odradek"], directory, zookeeper, merged) as cluster:
            yield cluster
    else:
        with running_kraft(directory, merged) as cluster:
            yield cluster
