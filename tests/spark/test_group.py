"""A streaming query's progress in a consumer group: committed batch by batch, a start for others, and no danger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition

from broker.cli.groups import command as groups_command
from broker.dev.polling import wait_until
from spark_jobs.lag import LagListener, described
from spark_jobs.lag_metrics import prometheus_text
from tests.spark.test_stream import read_back, run_available_now, stream
from tests.spark.topics import fill, make_topic, reader
from tests.support.cluster import CLOCK, Cluster

EARLIEST = {"startingOffsets": "earliest"}


def committed(cluster: Cluster, group: str, topic: str, partitions: int = 3) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        return [each.offset for each in consumer.committed([TopicPartition(topic, p) for p in range(partitions)], 30)]
    finally:
        consumer.close()


def test_every_batch_is_shown_and_the_lag_is_told(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    topic, group = make_topic(cluster), f"shown-{tmp_path.name}"
    fill(cluster, topic, 300)
    listener = LagListener()
    spark.streams.addListener(listener)
    query = None
    try:
        limited = {**EARLIEST, "maxOffsetsPerTrigger": "120", "odradek.group.id": group}
        both = stream(spark, cluster, topic, **limited).union(stream(spark, cluster, topic, **EARLIEST))
        query = both.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "two")).start()
        # The last batch of a query is committed while nothing follows it.
        assert wait_until(lambda: committed(cluster, group, topic) == [100] * 3, CLOCK, 120_000)
        fill(cluster, topic, 3)
        assert wait_until(lambda: committed(cluster, group, topic) == [101] * 3, CLOCK, 60_000)
        id_ = str(query.id)
        assert wait_until(lambda: {(id_, 0), (id_, 1)} <= set(listener.by_source), CLOCK, 60_000)
        assert set(listener.by_source[id_, 0].by_partition) == {(topic, p) for p in range(3)}
        text = prometheus_text(listener)
        assert f'query_id="{id_}",query="",source="1",topic="{topic}",partition="2"' in text
        first = described(query.recentProgress[-1])["sources"][0]
        assert int(first["metrics"]["groupCommits"]) >= 3
        assert first["metrics"]["groupCommitFailures"] == "0"
        told = CliRunner().invoke(groups_command, ["describe", group, "-b", cluster.bootstrap])
        rows = [line.split() for line in told.output.splitlines() if topic in line]
        assert sorted(row[row.index(topic) + 1 :][:4] for row in rows) == [
            [str(p), "101", "101", "0"] for p in range(3)
        ], told.output
    finally:
        if query is not None:
            query.stop()
        spark.streams.removeListener(listener)


def test_a_start_at_a_group_and_then_the_checkpoint_wins(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    topic, group = make_topic(cluster), f"start-{tmp_path.name}"
    fill(cluster, topic, 300)
    with_group = {"odradek.group.id": group}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 90), TopicPartition(topic, 1, 95)], asynchronous=False)
    frame = stream(spark, cluster, topic, startingOffsets="group", **with_group)
    expected = [(0, n) for n in range(90, 100)] + [(1, n) for n in range(95, 100)] + [(2, n) for n in range(100)]
    batch = reader(spark, cluster, topic, startingOffsets="group", **with_group)
    assert sorted((r.partition, r.offset) for r in batch.select("partition", "offset").collect()) == expected
    run_available_now(frame, tmp_path)
    assert read_back(spark, tmp_path) == expected
    assert committed(cluster, group, topic) == [100] * 3
    # Somebody sets the group back: a query that has a checkpoint is not led astray.
    consumer.commit(offsets=[TopicPartition(topic, p, 3) for p in range(3)], asynchronous=False)
    consumer.close()
    fill(cluster, topic, 3)
    run_available_now(frame, tmp_path)
    assert read_back(spark, tmp_path) == sorted([*expected, *((p, 100) for p in range(3))])
    assert committed(cluster, group, topic) == [101] * 3


def test_a_group_in_use_does_not_end_the_query(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    topic, group = make_topic(cluster), f"taken-{tmp_path.name}"
    fill(cluster, topic, 30)
    member = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "latest"})
    member.subscribe([topic])
    try:
        assert wait_until(lambda: member.poll(0.1) is None and bool(member.assignment()), CLOCK, 60_000)
        query = run_available_now(stream(spark, cluster, topic, **EARLIEST, **{"odradek.group.id": group}), tmp_path)
    finally:
        member.close()
    assert len(read_back(spark, tmp_path)) == 30
    assert query.exception() is None
