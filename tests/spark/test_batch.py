"""Batch reads through real Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest

from network.client.connection import Connection
from spark_jobs import fetcher
from spark_jobs.batch import OdradekReader
from tests.spark.topics import fill, in_order, make_topic, reader
from tests.support.cluster import Cluster


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd", "snappy", "gzip"])
def test_every_record_comes_back_once_and_in_order(spark: Any, cluster: Cluster, codec: str) -> None:
    topic = make_topic(cluster)
    sent = fill(cluster, topic, 1000, **{"compression.type": codec})  # type: ignore[arg-type]
    rows = reader(spark, cluster, topic, includeHeaders="true").collect()
    for partition in range(3):
        expected = [(key, value) for p, key, value in sent if p == partition]
        found = sorted((r.offset, r.key, r.value) for r in rows if r.partition == partition)
        assert [offset for offset, _, _ in found] == list(range(len(expected)))
        assert [(None if k is None else bytes(k), bytes(v)) for _, k, v in found] == expected
    assert {r.topic for r in rows} == {topic}
    assert {r.headers[0].key for r in rows} == {"n"}


def test_offsets_and_splits(spark: Any, cluster: Cluster) -> None:
    topic = make_topic(cluster)
    fill(cluster, topic, 300)
    frame = reader(
        spark,
        cluster,
        topic,
        startingOffsets=json.dumps({topic: {"0": 10, "1": -2, "2": 99}}),
        endingOffsets=json.dumps({topic: {"0": 20, "1": 5, "2": -1}}),
        minPartitions="6",
    )
    counts = {r.partition: r["count"] for r in frame.groupBy("partition").count().collect()}
    assert counts == {0: 10, 1: 5, 2: 1}


def test_an_empty_topic(spark: Any, cluster: Cluster) -> None:
    assert reader(spark, cluster, make_topic(cluster)).collect() == []


def test_a_topic_of_apache_kafka(spark: Any, apache: Cluster) -> None:
    topic = make_topic(apache, replicas=3)
    sent = fill(apache, topic, 300, **{"compression.type": "zstd"})  # type: ignore[arg-type]
    rows = in_order(reader(spark, apache, topic).collect())
    expected = [(p, value) for partition in range(3) for p, _, value in sent if p == partition]
    assert [(r.partition, bytes(r.value)) for r in rows] == expected


def test_filters_narrow_the_ranges(spark: Any, cluster: Cluster) -> None:
    topic = make_topic(cluster)
    fill(cluster, topic, 300)
    frame = reader(spark, cluster, topic)
    assert frame.where("partition = 1 and offset >= 40 and offset < 50").count() == 10
    assert frame.where("timestamp >= timestamp_millis(1700000000290)").count() == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "latest"),
        ({"kafka.enable.auto.commit": "true"}, "checkpoint"),
        ({"columns": "key,nothing"}, "choose from"),
        ({"minPartitions": "0"}, "positive"),
    ],
)
def test_wrong_options_name_the_cure(spark: Any, cluster: Cluster, options: dict[str, str], message: str) -> None:
    topic = make_topic(cluster)
    with pytest.raises(Exception, match=message):
        reader(spark, cluster, topic, **options).collect()


def test_the_replica_in_the_same_rack_is_read(three: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = make_topic(three, 1, replicas=3)
    fill(three, topic, 300, 1)
    with three.client() as client:
        leader = client.topic(topic).partitions[0].leader
    follower = (leader + 1) % 3
    ports: list[int] = []

    class Noted(Connection):
        def __init__(self, host: str, port: int, *rest: Any, **named: Any) -> None:
            ports.append(port)
            super().__init__(host, port, *rest, **named)

    monkeypatch.setattr(fetcher, "Connection", Noted)
    for rack, brokers in ((f"rack-{leader}", [leader]), (f"rack-{follower}", [leader, follower]), ("far", [leader])):
        ports.clear()
        options = {"kafka.bootstrap.servers": three.bootstrap, "subscribe": topic, "kafka.client.rack": rack}
        source = OdradekReader(options)
        (task,) = source.partitions()
        offsets = [offset for batch in source.read(task) for offset in batch.column("offset").to_pylist()]
        assert offsets == list(range(300))
        assert ports == [three.brokers[number].port for number in brokers], rack
