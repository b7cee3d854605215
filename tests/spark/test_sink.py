"""Batch and streaming writes through real Spark, read back by another client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from tests.spark.topics import fill, in_order, make_topic, reader
from tests.support.cluster import Cluster
from tests.support.until_end import until_end


def write(frame: Any, cluster: Cluster, **options: str) -> None:
    writer = frame.write.format("odradek").mode("append")
    writer.option("kafka.bootstrap.servers", cluster.bootstrap).options(**options).save()


def consume(cluster: Cluster, topic: str, partitions: int) -> list[Message]:
    """Everything in a topic, by librdkafka."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "reads", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    try:
        return until_end(consumer, partitions)
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_every_row_becomes_a_record(spark: Any, cluster: Cluster, codec: str) -> None:
    first, second = make_topic(cluster, 3), make_topic(cluster, 3)
    frame = spark.range(2000).selectExpr(
        f"if(id % 2 = 0, '{first}', '{second}') as topic",
        "if(id % 7 = 0, null, cast(id % 10 as string)) as key",
        "if(id % 11 = 0, null, encode(concat('value ', id), 'utf-8')) as value",
        "if(id % 5 = 0, null, array(named_struct('key', 'id', 'value', encode(cast(id as string), 'utf-8'))))"
        " as headers",
        "cast(if(id % 3 = 0, id % 3, null) as int) as partition",
    )
    write(frame, cluster, **{"kafka.compression.type": codec})
    rows = {}
    for name in (first, second):
        for m in consume(cluster, name, 3):
            if m.headers():
                rows[int(m.headers()[0][1])] = (name, m)  # type: ignore[index, arg-type]
    assert len(rows) == 1600
    for id_, (name, m) in rows.items():
        assert name == (first if id_ % 2 == 0 else second)
        assert m.key() == (None if id_ % 7 == 0 else str(id_ % 10).encode())
        assert m.value() == (None if id_ % 11 == 0 else f"value {id_}".encode())
        if id_ % 3 == 0:
            assert m.partition() == 0
    assert sum(len(consume(cluster, name, 3)) for name in (first, second)) == 2000


def test_a_stream_copies_a_topic(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    source, target = make_topic(cluster), make_topic(cluster)
    fill(cluster, source, 300)
    frame = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    query = (
        frame.writeStream.format("odradek")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("topic", target)
        .option("includeTimestamp", "true")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert query.exception() is None
    columns = ["key", "value", "headers", "partition", "offset", "timestamp"]
    before = reader(spark, cluster, source, includeHeaders="true").select(columns).collect()
    after = reader(spark, cluster, target, includeHeaders="true").select(columns).collect()
    assert in_order(before) == in_order(after)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_batch_larger_than_the_topic_takes_is_split(spark: Any, three: Cluster, codec: str) -> None:
    topic = make_topic(three, 2, replicas=3, **{"max.message.bytes": "9000"})
    noise = "concat(sha2(cast(id as string), 512), sha2(cast(-id as string), 512))"
    frame = spark.range(0, 2000, 1, 1).selectExpr(f"concat(id, ' ', {noise}) as value", "cast(id % 2 as int) partition")
    write(frame, three, topic=topic, **{"kafka.compression.type": codec})
    for partition in (0, 1):
        found = [m.value().split()[0] for m in consume(three, topic, 2) if m.partition() == partition]  # type: ignore[union-attr]
        assert found == [b"%d" % id_ for id_ in range(partition, 2000, 2)]
    with pytest.raises(Exception, match=r"a single record is larger than the topic's max\.message\.bytes"):
        write(spark.range(1).selectExpr("repeat(uuid(), 500) as value"), three, topic=topic)


def test_errors_name_the_cure(spark: Any, cluster: Cluster) -> None:
    topic = make_topic(cluster, 2)
    frame = spark.range(3).selectExpr("cast(id as string) as value")
    with pytest.raises(Exception, match="topic is missing"):
        write(frame, cluster)
    with pytest.raises(Exception, match="string or binary"):
        write(spark.range(3).selectExpr("id as value"), cluster, topic=topic)
    with pytest.raises(Exception, match="null topic present"):
        write(frame.selectExpr("value", f"if(value = '1', null, '{topic}') as topic"), cluster)
    with pytest.raises(Exception, match="partitions 0 to 1"):
        write(frame.selectExpr("value", "2 as partition"), cluster, topic=topic)
    with pytest.raises(Exception, match="make that larger"):
        write(spark.range(1).selectExpr("repeat('x', 2000000) as value"), cluster, topic=topic)
