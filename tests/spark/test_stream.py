"""Streaming reads through real Spark: limits, restarts, kills, growing topics."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from broker.dev.polling import wait_until
from spark_jobs.lag import Lag, LagListener
from tests.spark.topics import add_partitions, fill, make_topic
from tests.support.cluster import CLOCK, ROOT, Cluster, python_environment


def stream(spark: Any, cluster: Cluster, topic: str, **options: str) -> Any:
    return (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("subscribe", topic)
        .options(**options)
        .load()
    )


def run_available_now(frame: Any, directory: Path) -> Any:
    """Read what is there into Parquet (exactly once by its own log) and stop."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(directory / "out"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert query.exception() is None
    return query


def read_back(spark: Any, directory: Path) -> list[tuple[int, int]]:
    rows = spark.read.parquet(str(directory / "out")).select("partition", "offset").collect()
    return sorted((r.partition, r.offset) for r in rows)


def logged_offsets(directory: Path, batch: int) -> dict[str, dict[str, int]]:
    lines = (directory / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()
    offsets: dict[str, dict[str, int]] = json.loads(lines[-1])
    return offsets


def test_available_now_keeps_the_limit_and_reads_all_once(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    topic = make_topic(cluster)
    fill(cluster, topic, 300)
    listener = LagListener()
    spark.streams.addListener(listener)
    try:
        frame = stream(spark, cluster, topic, startingOffsets="earliest", maxOffsetsPerTrigger="120")
        query = run_available_now(frame, tmp_path)
        # Reports reach a listener some time after their batches; in the last one nothing is left.
        none_left = Lag(0, 0, 0.0)
        assert wait_until(lambda: listener.by_query.get(str(query.id)) == none_left, CLOCK, 60_000)
    finally:
        spark.streams.removeListener(listener)
    assert read_back(spark, tmp_path) == [(p, offset) for p in range(3) for offset in range(100)]
    sizes = [progress.numInputRows for progress in query.recentProgress]
    assert sum(sizes) == 300
    assert max(sizes) <= 120
    assert logged_offsets(tmp_path, 0) == {topic: {"0": 40, "1": 40, "2": 40}}


def test_a_restart_goes_on_and_finds_new_partitions(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    topic = make_topic(cluster, 2)
    fill(cluster, topic, 20, 2)
    frame = stream(spark, cluster, topic, startingOffsets="latest")
    run_available_now(frame, tmp_path)
    add_partitions(cluster, topic, 3)
    fill(cluster, topic, 30, 3)
    run_available_now(frame, tmp_path)
    expected = [(p, offset) for p in range(2) for offset in range(10, 20)]
    assert read_back(spark, tmp_path) == expected + [(2, offset) for offset in range(10)]


def test_a_running_query_finds_new_partitions(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    topic = make_topic(cluster, 1)
    frame = stream(spark, cluster, topic, startingOffsets="earliest")
    query = (
        frame.writeStream.format("memory")
        .queryName(topic.replace("-", "_"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        fill(cluster, topic, 10, 1)
        query.processAllAvailable()
        add_partitions(cluster, topic, 2)
        fill(cluster, topic, 10, 2)
        table = topic.replace("-", "_")

        def seen() -> bool:
            query.processAllAvailable()
            return int(spark.table(table).count()) == 20

        assert wait_until(seen, CLOCK, 60_000)
        assert spark.table(table).where("partition = 1").count() == 5
    finally:
        query.stop()


def test_records_that_went_away_fail_the_query_or_not(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    topic = make_topic(cluster, 1)
    fill(cluster, topic, 10, 1)
    run_available_now(stream(spark, cluster, topic, startingOffsets="earliest"), tmp_path)
    fill(cluster, topic, 10, 1)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 15)]).values():
        future.result(30)
    with pytest.raises(Exception, match="offsets 10 to 14"):
        run_available_now(stream(spark, cluster, topic), tmp_path)
    run_available_now(stream(spark, cluster, topic, failOnDataLoss="false"), tmp_path)
    assert read_back(spark, tmp_path) == [(0, offset) for offset in [*range(10), *range(15, 20)]]


QUERY = """
import sys
from pyspark.sql import SparkSession
from spark_jobs.source import register

bootstrap, topic, directory, trigger = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
register(spark)
writer = (
    spark.readStream.format("odradek").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    .option("startingOffsets", "latest").load().writeStream.format("parquet").option("path", directory + "/out")
    .option("checkpointLocation", directory + "/checkpoint")
)
if trigger == "now":
    writer.trigger(availableNow=True).start().awaitTermination()
else:
    writer.start().awaitTermination()
"""


@pytest.mark.timeout(600)  # starts Spark three times
def test_a_kill_in_the_first_batches_loses_and_repeats_nothing(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    topic = make_topic(cluster, 2)
    stop = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
        n = 0
        while not stop.wait(0.002) and n < 100_000:
            producer.produce(topic, b"x", partition=n % 2)
            producer.poll(0)
            n += 1
        producer.flush(30)

    writing = threading.Thread(target=write)
    writing.start()
    offsets = tmp_path / "checkpoint" / "offsets"
    try:
        for batch in (0, 1):
            with (tmp_path / f"spark-{batch}.log").open("wb") as out:
                killed = subprocess.Popen(
                    [sys.executable, "-c", QUERY, cluster.bootstrap, topic, str(tmp_path), "forever"],
                    cwd=ROOT,
                    env={**os.environ, **python_environment()},
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
            try:
                assert wait_until(lambda batch=batch: (offsets / str(batch)).exists(), CLOCK, 200_000)  # type: ignore[misc]
            finally:
                kill_session(killed)
    finally:
        stop.set()
        writing.join(60)
    begin = logged_offsets(tmp_path, 0)[topic]
    run_available_now(stream(spark, cluster, topic, startingOffsets="latest"), tmp_path)
    found = read_back(spark, tmp_path)
    latest = stream_end(cluster, topic)
    assert found == [(p, offset) for p in range(2) for offset in range(begin[str(p)], latest[p])]
    assert len(found) > 100


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL a driver with its JVM and workers, which share a process group of their own."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def stream_end(cluster: Cluster, topic: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "ends"})
    try:
        return {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=60)[1] for p in range(2)}
    finally:
        consumer.close()
