"""Topics and records for the pipeline's tests."""

from __future__ import annotations

import uuid
from typing import Any

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.support.cluster import Cluster


def make_topic(cluster: Cluster, partitions: int = 3, replicas: int = 1, **config: str) -> str:
    name = f"spark-{uuid.uuid4().hex[:10]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_topics(
        [NewTopic(name, partitions, replicas, config={"retention.ms": "-1", **config})]
    ).values():
        future.result(30)
    cluster.wait_topic(name, partitions)
    return name


def add_partitions(cluster: Cluster, topic: str, partitions: int) -> None:
    """More partitions, known to every broker: a producer that asks one without them gives their records up."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        future.result(30)
    cluster.wait_topic(topic, partitions)


def fill(
    cluster: Cluster, topic: str, count: int, partitions: int = 3, *, first: int = 0, **config: Any
) -> list[tuple[int, bytes | None, bytes]]:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 50, **config})
    sent = []
    failed: list[KafkaError] = []
    for n in range(first, first + count):
        key = None if n % 5 == 0 else f"k{n % 7}".encode()
        value = f"value {n}".encode() * (n % 9)
        producer.produce(
            topic,
            value,
            key,
            n % partitions,
            headers=[("n", str(n).encode())],
            timestamp=1_700_000_000_000 + n,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        sent.append((n % partitions, key, value))
    assert producer.flush(60) == 0
    assert not failed, failed[:3]
    return sent


def reader(spark: Any, cluster: Cluster, topic: str, **options: str) -> Any:
    return (
        spark.read.format("odradek")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("subscribe", topic)
        .options(**options)
        .load()
    )


def in_order(rows: list[Any]) -> list[Any]:
    """Rows by partition and offset."""
    return sorted(rows, key=lambda r: (r.partition, r.offset))
