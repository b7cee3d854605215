"""A leader that is killed during a batch read, a stream and a write, and transactions that were aborted.

On three brokers of ours and on three of Apache Kafka; every topic has three replicas.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from broker.dev.polling import wait_until
from tests.spark import connector
from tests.spark.topics import in_order, make_topic, reader
from tests.support.cluster import CLOCK, Broker, Cluster


def slowly(batches: Iterator[Any], begun: Path | None = None) -> Iterator[Any]:
    """So that the query lasts longer than the leader; makes the file `begun` when records come."""
    for batch in batches:
        if begun is not None:
            begun.touch()
        time.sleep(0.02)
        yield batch


def leader_of(cluster: Cluster, topic: str) -> Broker:
    with cluster.client() as client:
        leader = client.topic(topic).partitions[0].leader
    return next(b for b in cluster.brokers if b.broker_id == leader)


@contextlib.contextmanager
def small_batches(spark: Any, records: int) -> Iterator[None]:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(records))
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def revive(cluster: Cluster, broker: Broker) -> None:
    """Bring a killed broker back for the next test."""
    if broker in cluster.running:
        broker.kill()
    broker.start()
    cluster.wait_ready()


def produce(cluster: Cluster, topic: str, count: int, size: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.num.messages": 50})
    for n in range(count):
        producer.produce(topic, b"%d" % n + b" " * size, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def test_a_leader_killed_during_a_batch(spark: Any, three: Cluster, tmp_path: Path) -> None:
    topic = make_topic(three, 1, replicas=3)
    count = 15_000
    produce(three, topic, count, 4000)
    found: list[Any] = []
    begun = tmp_path / "begun"
    with small_batches(spark, 50):
        frame = reader(spark, three, topic, **{"kafka.max.partition.fetch.bytes": "2000"})
        # What Spark buffers between two workers is much smaller than the topic, so the read waits for the slow step.
        slow = frame.mapInArrow(functools.partial(slowly, begun=begun), frame.schema).select("offset")
        reading = threading.Thread(target=lambda: found.extend(slow.collect()))
        broker = leader_of(three, topic)
        reading.start()
        try:
            assert wait_until(begun.exists, CLOCK, 120_000, 5)
            time.sleep(1)
            assert reading.is_alive()
            broker.kill()
            reading.join(120)
            assert not reading.is_alive()
        finally:
            revive(three, broker)
    assert sorted(row.offset for row in found) == list(range(count))


def test_a_leader_killed_during_a_write(spark: Any, three: Cluster) -> None:
    topic = make_topic(three, 1, replicas=3)
    frame = spark.range(0, 2000, 1, 1).selectExpr("cast(id as string) as value")
    slow = frame.mapInArrow(slowly, frame.schema)
    writer = slow.write.format("odradek").mode("append").option("kafka.bootstrap.servers", three.bootstrap)
    broker = leader_of(three, topic)
    killed = threading.Event()

    def kill_once_written() -> None:
        directory = broker.data / f"{topic}-0"
        if wait_until(lambda: any(log.stat().st_size for log in directory.glob("*.log")), CLOCK, 60_000, 5):
            broker.kill()
            killed.set()

    killing = threading.Thread(target=kill_once_written)
    killing.start()
    try:
        with small_batches(spark, 10):
            writer.option("topic", topic).option("kafka.batch.size", "1000").save()
    finally:
        killing.join(90)
        revive(three, broker)
    assert killed.is_set()
    values = [int(row.value) for row in in_order(reader(spark, three, topic).collect())]
    assert values == list(range(2000))


def test_a_leader_killed_during_a_stream(spark: Any, three: Cluster, tmp_path: Path) -> None:
    topic = make_topic(three, 1, replicas=3)
    count = 3000
    produce(three, topic, count, 500)
    stream = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", three.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "300")
        .load()
        .selectExpr("offset", "cast(value as string) value")
    )
    broker = leader_of(three, topic)
    query = (
        stream.writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        assert wait_until(lambda: len(query.recentProgress) >= 2, CLOCK, 120_000)
        broker.kill()
        produce(three, topic, 100, 10)
        with three.client() as client:
            # Brokers hear of a new leader one after the other.
            assert wait_until(lambda: client.topic(topic).partitions[0].leader != broker.broker_id, CLOCK, 60_000)
        query.processAllAvailable()
        assert query.exception() is None
    finally:
        query.stop()
        revive(three, broker)
    offsets = sorted(row.offset for row in spark.read.parquet(str(tmp_path / "out")).collect())
    assert offsets == list(range(count + 100))


def test_aborted_transactions_are_left_out(spark: Any, apache: Cluster) -> None:
    topic = make_topic(apache, 1)
    producer = Producer({"bootstrap.servers": apache.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for n in range(10):
            producer.produce(topic, f"{number} {n}", partition=0)
        assert producer.flush(30) == 0
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    rows = reader(spark, apache, topic, **{"kafka.isolation.level": "read_committed"}).collect()
    assert [bytes(r.value).decode() for r in in_order(rows)] == [f"{k} {n}" for k in (0, 2, 4) for n in range(10)]
    assert reader(spark, apache, topic).count() == 60
    if connector.available():
        options = {"kafka.bootstrap.servers": apache.bootstrap, "subscribe": topic}
        theirs = spark.read.format("kafka").options(**options).option("kafka.isolation.level", "read_committed").load()
        assert in_order(theirs.collect()) == in_order(rows)
