"""Counts by window: append gives each window once, update its last count."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.jobs import windowed_counts
from tests.spark.topics import fill, make_topic, reader
from tests.support.cluster import Cluster


@pytest.mark.parametrize("mode", ["append", "update"])
def test_counts(spark: Any, cluster: Cluster, tmp_path: Path, mode: str) -> None:
    topic, output = make_topic(cluster), make_topic(cluster, 1)
    sent = fill(cluster, topic, 1000)
    server = {"kafka.bootstrap.servers": cluster.bootstrap}
    source = {**server, "subscribe": topic, "startingOffsets": "earliest"}
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    frame = windowed_counts.counts(spark, source, window="100 milliseconds", slide=None, watermark="1 second", by="key")
    checkpoint = str(tmp_path)
    query = windowed_counts.start(frame, {**server, "topic": output}, mode=mode, checkpoint=checkpoint, every=None)
    assert query.awaitTermination(120)
    found: dict[tuple[str, str | None], int] = {}
    for row in reader(spark, cluster, output).orderBy("offset").collect():
        value = json.loads(row.value)
        place = (value["window_start"], value["key"])
        assert mode == "update" or place not in found
        found[place] = value["count"]
    expected = Counter((n // 100, None if key is None else key.decode()) for n, (_, key, _) in enumerate(sent))
    if mode == "update":
        assert {((int(start[20:23]) // 100), key): count for (start, key), count in found.items()} == dict(expected)
    else:
        # The newest event closes no window: the watermark is a second behind it.
        assert found == {}
        fill(cluster, topic, 3, first=10_000)
        query = windowed_counts.start(frame, {**server, "topic": output}, mode=mode, checkpoint=checkpoint, every=None)
        assert query.awaitTermination(120)
        values = [json.loads(row.value) for row in reader(spark, cluster, output).collect()]
        counted = {(int(v["window_start"][20:23]) // 100, v["key"]): v["count"] for v in values}
        assert counted == dict(expected)
        assert len(values) == len(expected)
