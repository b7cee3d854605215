"""The segments source: what it reads from the broker's directory is what the broker gives."""

from __future__ import annotations

from typing import Any

from tests.spark.topics import fill, in_order, make_topic, reader
from tests.support.cluster import Cluster

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


def test_directories_give_what_the_broker_gives(spark: Any, cluster: Cluster, pushdown: None) -> None:
    topic = make_topic(cluster, 2, **{"segment.bytes": "16384"})  # type: ignore[arg-type]
    fill(cluster, topic, 900, 2, **{"compression.type": "lz4", "batch.num.messages": 20})  # type: ignore[arg-type]
    # Two partitions are on two of the three brokers; a directory without any partition is refused.
    directories = ",".join(str(broker.data) for broker in cluster.brokers if any(broker.data.glob(f"{topic}-*")))
    source = spark.read.format("odradek-segments").options(subscribe=topic, includeHeaders="true", pieceBytes="4096")
    frame = source.load(directories)
    assert frame.rdd.getNumPartitions() > 4
    broker = reader(spark, cluster, topic, includeHeaders="true")
    assert frame.schema == broker.schema
    assert in_order(frame.select(COLUMNS).collect()) == in_order(broker.select(COLUMNS).collect())
    assert source.load(directories).where("offset < 0").collect() == []
    narrow = source.load(directories).where("partition = 1 and offset >= 40 and offset < 50")
    assert sorted(r.offset for r in narrow.collect()) == list(range(40, 50))
    assert narrow.rdd.getNumPartitions() < frame.rdd.getNumPartitions()
