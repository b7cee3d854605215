"""A leader that dies during a batch, and transactions that were aborted: on Apache Kafka, three brokers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Producer

from broker.dev.waiting import wait_until
from tests.spark import connector
from tests.spark.topics import in_order, make_topic, reader
from tests.support.cluster import CLOCK, Cluster


def slowly(batches: Iterator[Any]) -> Iterator[Any]:
    """So that the read lasts longer than the leader."""
    for batch in batches:
        time.sleep(0.02)
        yield batch


def test_a_leader_killed_during_a_batch(spark: Any, apache: Cluster) -> None:
    topic = make_topic(apache, 1, replicas=3)
    count = 15_000
    producer = Producer({"bootstrap.servers": apache.bootstrap, "batch.num.messages": 50})
    for _ in range(count):
        producer.produce(topic, b"x" * 4000, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    frame = reader(spark, apache, topic, **{"kafka.max.partition.fetch.bytes": "2000"})
    # What Spark buffers between two workers is much smaller than the topic, so the read waits for the slow step.
    slow = frame.mapInArrow(slowly, frame.schema).select("offset")
    found: list[Any] = []
    reading = threading.Thread(target=lambda: found.extend(slow.collect()))
    with apache.client() as client:
        leader = client.topic(topic).partitions[0].leader
    reading.start()
    time.sleep(3)
    assert reading.is_alive()
    broker = next(b for b in apache.brokers if b.broker_id == leader)
    broker.kill()
    try:
        reading.join(120)
        assert sorted(row.offset for row in found) == list(range(count))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        broker.start()
        apache.wait_ready()


def test_a_leader_killed_during_a_write(spark: Any, apache: Cluster) -> None:
    topic = make_topic(apache, 1, replicas=3)
    frame = spark.range(0, 2000, 1, 1).selectExpr("cast(id as string) as value")
    slow = frame.mapInArrow(slowly, frame.schema)
    writer = slow.write.format("odradek").mode("append").option("kafka.bootstrap.servers", apache.bootstrap)
    with apache.client() as client:
        leader = client.topic(topic).partitions[0].leader
    broker = next(b for b in apache.brokers if b.broker_id == leader)

    def kill_once_written() -> None:
        directory = broker.data / f"{topic}-0"
        wait_until(lambda: any(log.stat().st_size for log in directory.glob("*.log")), CLOCK, 60_000, 5)
        broker.kill()

    killing = threading.Thread(target=kill_once_written)
    killing.start()
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    try:
        writer.option("topic", topic).option("kafka.batch.size", "1000").save()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        killing.join(90)
        broker.start()
        apache.wait_ready()
    values = [int(row.value) for row in in_order(reader(spark, apache, topic).collect())]
    assert values == list(range(2000))


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
