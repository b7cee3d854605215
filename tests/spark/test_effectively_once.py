"""The sink that is effectively once through real Spark: streams, batches of foreachBatch, batch jobs, and kills.

Task by task it is tested in tests/contract/test_spark_sink.py; hundreds of kills: ``python -m tests.spark.kills``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.kills import ROUND_RECORDS, run
from tests.spark.test_stream import stream
from tests.spark.topics import fill, make_topic, reader
from tests.support.cluster import Cluster

ONCE = {"odradek.delivery": "effectively-once"}


def seen(spark: Any, cluster: Cluster, topic: str) -> list[str]:
    frame = reader(spark, cluster, topic, **{"kafka.isolation.level": "read_committed"})
    return sorted(row.value for row in frame.selectExpr("cast(value as string) value").collect())


def test_a_batch_that_spark_forgot_is_not_written_again(spark: Any, three: Cluster, tmp_path: Path) -> None:
    """As after a crash between the transactions and Spark's own commit: the newest commit is taken away."""
    source, target = make_topic(three, replicas=3), make_topic(three, replicas=3)
    fill(three, source, 90)
    frame = stream(spark, three, source, startingOffsets="earliest", maxOffsetsPerTrigger="30").selectExpr(
        "concat(partition, '-', offset) value"
    )
    options = {"kafka.bootstrap.servers": three.bootstrap, "topic": target, **ONCE}
    writer = frame.writeStream.format("odradek").options(**options).option("checkpointLocation", str(tmp_path))
    for _ in range(2):
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        newest = max((tmp_path / "commits").glob("[0-9]*"), key=lambda each: int(each.name))
        assert int(newest.name) >= 2
        for each in (newest, newest.with_name(f".{newest.name}.crc")):
            each.unlink(missing_ok=True)
    assert seen(spark, three, target) == sorted(f"{p}-{offset}" for p in range(3) for offset in range(30))


def test_batches_and_their_names(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    """A batch job that is run again under its name, and two writes in one foreachBatch."""
    first, second, third = (make_topic(cluster) for _ in range(3))
    options = {"kafka.bootstrap.servers": cluster.bootstrap, **ONCE}
    rows = spark.range(0, 20, 1, 2).selectExpr("cast(id as string) value")

    def write(frame: Any, topic: str, **more: str) -> None:
        frame.write.format("odradek").mode("append").options(**options, **more).option("topic", topic).save()

    with pytest.raises(Exception, match=r"name the write in odradek\.write\.id"):
        write(rows, first)
    for _ in range(2):
        write(rows, first, **{"odradek.write.id": f"daily-{first}"})
    assert len(seen(spark, cluster, first)) == 20
    with pytest.raises(Exception, match="committed with 10 records and is repeated with 5"):
        write(rows.limit(10).repartition(2), first, **{"odradek.write.id": f"daily-{first}"})

    def both(frame: Any, _: int) -> None:
        values = frame.selectExpr("cast(offset as string) value")
        for _ in range(2):
            write(values, second)
            write(values, third, **{"odradek.write.id": "third"})

    fill(cluster, first, 6)
    frame = stream(spark, cluster, first, startingOffsets="earliest")
    query = frame.writeStream.foreachBatch(both).option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    query = query.start()
    assert query.awaitTermination(120)
    expected = reader(spark, cluster, first).count()
    assert expected == 26
    assert len(seen(spark, cluster, second)) == len(seen(spark, cluster, third)) == expected


@pytest.mark.timeout(600)  # starts Spark three times
def test_kills(cluster: Cluster, tmp_path: Path) -> None:
    result = run(cluster, tmp_path, 4)
    assert (result.lost, result.doubled, result.written) == (0, 0, 8 * ROUND_RECORDS)
    assert result.killed.total() == 4
