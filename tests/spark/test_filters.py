"""Filters that are pushed to the source, null among them, against Spark's own evaluation of the same rows."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.source import PUSHDOWN
from tests.spark.topics import fill, make_topic, reader
from tests.support.cluster import Cluster

# A condition, and what of it explain lists as pushed.
CONDITIONS = [
    ("offset in (1, null)", "In(offset, ["),
    ("offset in (1, 5, 2000000)", "In(offset, ["),
    ("not (offset in (1, null))", None),
    ("not (offset in (1, 2))", "Not(In(offset, ["),
    ("offset = null", None),
    ("offset <=> null", "IsNull(offset)"),
    ("offset <=> 3", "EqualNullSafe(offset,3)"),
    ("not (offset <=> 3)", "Not(EqualNullSafe(offset,3))"),
    ("offset < null or offset = 4", "EqualTo(offset,4)"),
    ("offset < 3 and not (offset <= 0)", "LessThan(offset,3)"),
    ("offset is null", "IsNull(offset)"),
    ("key is null and offset is not null", "IsNull(key)"),
    ("not (partition = 1)", "Not(EqualTo(partition,1))"),
    ("partition > 0", "GreaterThan(partition,0)"),
    ("partition in (null, 2) and offset >= 4", "In(partition, ["),
    ("topic = '{topic}' and partition = 0", "EqualTo(topic,{topic})"),
    ("topic <> '{topic}'", "Not(EqualTo(topic,{topic}))"),
    ("topic > 'a' and partition between 1 and 5", "GreaterThan(topic,a)"),
    ("timestamp >= timestamp_millis(1700000000020)", "GreaterThanOrEqual(timestamp"),
    ("timestamp < timestamp_micros(1700000000010001)", "LessThan(timestamp"),
    ("timestamp in (timestamp_millis(1700000000003), null)", "In(timestamp"),
    ("partition = 1 or offset = 2", None),
    ("timestampType = 0 and offset = 2", "EqualTo(timestampType,0)"),
]


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    name = make_topic(cluster)
    fill(cluster, name, 30)
    return name


def test_null_and_all_else_in_filters(spark: Any, cluster: Cluster, topic: str, pushdown: None) -> None:
    rows = reader(spark, cluster, topic).collect()
    assert len(rows) == 30
    conditions = [text.format(topic=topic) for text, _ in CONDITIONS]
    columns = [f"{condition} as c{number}" for number, condition in enumerate(conditions)]
    here = spark.createDataFrame(rows, reader(spark, cluster, topic).schema)
    evaluated = here.selectExpr("partition", "offset", *columns).collect()
    formatted = spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    empty = 0
    missed = []
    for number, (condition, (_, pushed)) in enumerate(zip(conditions, CONDITIONS, strict=True)):
        frame = reader(spark, cluster, topic).where(condition)
        found = sorted((r.partition, r.offset) for r in frame.collect())
        assert found == sorted((r.partition, r.offset) for r in evaluated if r[f"c{number}"]), condition
        empty += not found
        plan = frame._jdf.queryExecution().explainString(formatted)
        if pushed is not None and "LocalTableScan" not in plan:
            told = "".join(line for line in plan.splitlines() if line.startswith("PushedFilters"))
            if pushed.format(topic=topic) not in told:
                missed.append((condition, told))
    assert missed == []
    assert 5 <= empty <= 9


def test_partitions_that_filters_leave_out_are_not_read(
    spark: Any, cluster: Cluster, topic: str, pushdown: None
) -> None:
    def tasks(condition: str) -> int:
        return int(reader(spark, cluster, topic).where(condition).rdd.getNumPartitions())

    assert tasks("true") == 3
    assert tasks("partition > 1") == 1
    assert tasks(f"topic = '{topic}' and partition <> 0") == 2
    assert tasks("timestamp >= timestamp_millis(1700000000029)") == 1


def test_a_frame_that_is_used_again_has_all_its_rows(spark: Any, cluster: Cluster, topic: str) -> None:
    """As Spark plans several uses of one frame with the filters of the last, nothing is pushed unless it is asked for;
    and a reader that could push is taken nevertheless."""
    assert spark.conf.get(PUSHDOWN) == "false"
    frame = reader(spark, cluster, topic)
    assert frame.where("partition = 1").count() == 10
    assert frame.count() == 30
    assert frame.where("partition = 0").union(frame.where("partition = 1")).count() == 20
    assert frame.where("offset in (1, null)").count() == 3
