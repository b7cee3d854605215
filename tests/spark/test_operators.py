"""Stateful operators of Spark on our source, and triggers that need a source in the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql.functions import expr

from tests.spark.test_stream import run_available_now, stream
from tests.spark.topics import make_topic
from tests.support.cluster import Cluster

START = 1_700_000_000_000
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def produce(cluster: Cluster, topic: str, *values: str) -> None:
    """Records a second apart, in one partition."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for n, value in enumerate(values):
        producer.produce(topic, value, partition=0, timestamp=START + 1000 * n)
    assert producer.flush(60) == 0


def text(spark: Any, cluster: Cluster, topic: str, as_: str) -> Any:
    frame = stream(spark, cluster, topic, startingOffsets="earliest").withWatermark("timestamp", "1 minute")
    return frame.selectExpr(f"cast(value as string) {as_}", f"timestamp {as_}_time")


def results(spark: Any, frame: Any, directory: Path) -> list[tuple[Any, ...]]:
    run_available_now(frame, directory)
    return sorted(tuple(row) for row in spark.read.parquet(str(directory / "out")).collect())


def test_drop_duplicates_within_watermark(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    topic = make_topic(cluster, 1)
    produce(cluster, topic, "a", "b", "a", "c", "b", "a")
    frame = text(spark, cluster, topic, "value").dropDuplicatesWithinWatermark(["value"]).select("value")
    assert results(spark, frame, tmp_path) == [("a",), ("b",), ("c",)]


def test_a_join_of_two_streams(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    left, right = make_topic(cluster, 1), make_topic(cluster, 1)
    produce(cluster, left, "a", "b", "c")
    produce(cluster, right, "b", "c", "c", "d")
    condition = "l = r and r_time between l_time - interval 1 minute and l_time + interval 1 minute"
    one, other = text(spark, cluster, left, "l"), text(spark, cluster, right, "r")
    frame = one.join(other, expr(condition)).select("l")
    assert results(spark, frame, tmp_path) == [("b",), ("c",), ("c",)]


def test_transform_with_state(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Count(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._count = handle.getValueState("count", "n int")

        def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
            (before,) = self._count.get() or (0,)
            count = before + sum(1 for _ in rows)
            self._count.update((count,))
            yield Row(value=key[0], n=count)

        def close(self) -> None:
            """Nothing to do."""

    topic = make_topic(cluster, 1)
    produce(cluster, topic, "a", "b", "a")
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    try:
        grouped = text(spark, cluster, topic, "value").groupBy("value")
        frame = grouped.transformWithState(Count(), "value string, n int", "Append", "None")
        assert results(spark, frame, tmp_path) == [("a", 2), ("b", 1)]
        produce(cluster, topic, "a")
        assert results(spark, frame, tmp_path) == [("a", 2), ("a", 3), ("b", 1)]
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.providerClass")


@pytest.mark.parametrize("trigger", [{"continuous": "1 second"}, {"realTime": "5 seconds"}])
def test_triggers_that_need_a_source_in_the_jvm_say_so(
    spark: Any, cluster: Cluster, tmp_path: Path, trigger: dict[str, Any]
) -> None:
    frame = stream(spark, cluster, make_topic(cluster, 1), startingOffsets="earliest").select("value")
    writer = frame.writeStream.format("odradek").option("kafka.bootstrap.servers", cluster.bootstrap)
    writer = writer.option("topic", make_topic(cluster, 1)).option("checkpointLocation", str(tmp_path))

    def run() -> None:
        query = writer.trigger(**trigger).outputMode("update" if "realTime" in trigger else "append").start()
        try:
            query.awaitTermination(60)
        finally:
            query.stop()

    with pytest.raises(Exception, match=r"(?i)continuous|real-?time"):
        run()
