"""The same topic and the same query by Spark's own connector and by ours: the same answers. Differences are bugs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.spark import connector
from tests.spark.topics import fill, in_order, make_topic
from tests.support.cluster import Cluster


@pytest.fixture(autouse=True)
def _with_connector() -> None:
    connector.require()


def both(spark: Any, cluster: Cluster, topic: str, **options: str) -> tuple[Any, Any]:
    """Frames of Spark's connector and of ours."""
    given = {"kafka.bootstrap.servers": cluster.bootstrap, **options}
    if not {"assign", "subscribePattern"} & set(options):
        given["subscribe"] = topic
    frames = [spark.read.format(name).options(**given).load() for name in ("kafka", "odradek")]
    return frames[0], frames[1]


def offsets(topic: str, *numbers: int) -> str:
    return json.dumps({topic: {str(p): n for p, n in enumerate(numbers)}})


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> str:
    topic = make_topic(cluster)
    fill(cluster, topic, 600, **{"compression.type": "lz4"})
    return topic


def test_reads(spark: Any, cluster: Cluster, filled: str) -> None:
    topic = filled
    by_time = json.dumps({topic: {"0": 1_700_000_000_100, "1": 1_700_000_000_200, "2": 1_700_000_000_300}})
    cases: list[dict[str, str]] = [
        {},
        {"includeHeaders": "true"},
        {"startingOffsets": offsets(topic, 5, -2, 190), "endingOffsets": offsets(topic, 100, -1, -1)},
        {"startingTimestamp": "1700000000300", "endingTimestamp": "1700000000500"},
        {"startingOffsetsByTimestamp": by_time, "startingOffsets": offsets(topic, 199, 199, 199)},
        {"startingTimestamp": "1800000000000", "startingOffsetsByTimestampStrategy": "latest"},
        {"assign": json.dumps({topic: [0, 2]})},
        {"subscribePattern": topic[:-1] + "."},
        {"minPartitions": "7"},
        {"maxRecordsPerPartition": "50"},
        {"kafka.isolation.level": "read_committed"},
    ]
    for options in cases:
        theirs, ours = both(spark, cluster, topic, **options)
        assert ours.schema == theirs.schema, options
        rows = in_order(theirs.collect())
        assert in_order(ours.collect()) == rows, options
        # Spark's connector divides no batch read whose ends its tasks look up, so maxRecordsPerPartition does nothing.
        if rows and "maxRecordsPerPartition" not in options:
            assert ours.rdd.getNumPartitions() == theirs.rdd.getNumPartitions(), options
        assert rows or "1800000000000" in options.get("startingTimestamp", "")


def test_both_refuse_the_same(spark: Any, cluster: Cluster, filled: str) -> None:
    cases: list[dict[str, str]] = [
        {"startingOffsets": "latest"},
        {"endingOffsets": "earliest"},
        {"startingOffsets": offsets(filled, 1)},
        {"startingTimestamp": "1800000000000"},
        {"kafka.auto.offset.reset": "earliest"},
        {"kafka.key.deserializer": "x"},
        {"kafka.enable.auto.commit": "true"},
        {"kafka.interceptor.classes": "x"},
        {"assign": "{}", "subscribePattern": "x"},
    ]
    for options in cases:
        for name in ("kafka", "odradek"):
            given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": filled, **options}
            with pytest.raises(Exception):  # noqa: B017, PT012 - each has its own type
                spark.read.format(name).options(**given).load().collect()
                pytest.fail(f"{name} took {options}", pytrace=False)


def test_writes(spark: Any, cluster: Cluster) -> None:
    frame = spark.range(500).selectExpr(
        "if(id % 3 = 0, null, cast(id % 50 as string)) as key",
        "cast(id as string) as value",
        "array(named_struct('key', 'h', 'value', cast('x' as binary))) as headers",
        "if(id % 3 = 0, cast(id % 4 as int), null) as partition",
    )
    rows = []
    for name in ("kafka", "odradek"):
        topic = make_topic(cluster, 4)
        writer = frame.write.format(name).mode("append").option("kafka.bootstrap.servers", cluster.bootstrap)
        writer.option("topic", topic).save()
        ours = both(spark, cluster, topic, includeHeaders="true")[1]
        theirs = both(spark, cluster, topic, includeHeaders="true")[0]
        assert in_order(ours.collect()) == in_order(theirs.collect())
        rows.append(sorted((r.partition, bytes(r.value), r.key, str(r.headers)) for r in ours.collect()))
    assert rows[0] == rows[1]
