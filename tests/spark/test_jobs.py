"""The report, the audit and the plan on a running cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from spark_jobs.jobs import reassignment_plan, segment_audit, sizing, topic_report
from tests.spark.topics import fill, make_topic
from tests.support.cluster import Cluster


def test_topic_report(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    topic = make_topic(cluster)
    sent = fill(cluster, topic, 600)
    source = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic}
    numbers = topic_report.measure(spark, source, sizing.sizes_on_disk(source))
    (row,) = numbers["topics"]
    assert row["records"] == 600
    assert row["bytes"] == sum(len(key or b"") + len(value) for _, key, value in sent)
    assert row["keys"] == len({key for _, key, _ in sent if key})
    assert row["late"] == 0
    assert row["missing_offsets"] == 0
    assert [p["records"] for p in numbers["partitions"]] == [200, 200, 200]
    assert all(0.5 < p["compression"] < 2 for p in numbers["partitions"])
    assert sum(numbers["sizes"][topic].values()) == sum(numbers["times"][topic].values()) == 600
    fill(cluster, topic, 3)
    (late,) = topic_report.measure(spark, source, {})["topics"]
    assert late["late"] == 3
    page = topic_report.report(numbers)
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == 4
    assert "src=" not in page


def test_segment_audit_finds_an_injected_fault(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    topic = make_topic(cluster)
    fill(cluster, topic, 300)
    paths = [str(broker.data / f"{topic}-{p}") for broker in cluster.brokers for p in range(3)]
    mine = [path for path in paths if Path(path).is_dir()]
    rows = segment_audit.run(spark, mine)
    assert [row for row in rows if row["severity"] == "error"] == []
    assert sum(row["records"] for row in rows if row["severity"] == "totals") == 300
    log = next(Path(mine[1]).glob("*.log"))
    data = bytearray(log.read_bytes())
    data[len(data) - 3] ^= 1
    log.write_bytes(data)
    (error,) = [row for row in segment_audit.run(spark, mine) if row["severity"] == "error"]
    assert error["path"] == str(log)
    assert "checksum" in error["message"]
    assert error["offset"] is not None


def test_reassignment_plan(cluster: Cluster, tmp_path: Path) -> None:
    topic = make_topic(cluster)
    fill(cluster, topic, 300)
    page = tmp_path / "plan.html"
    arguments = ["-b", cluster.bootstrap, "--topics", topic, "--html", str(page)]
    done = CliRunner().invoke(reassignment_plan.main, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    plan = json.loads(done.stdout)
    assert plan["version"] == 1
    assert all(len(entry["replicas"]) == 1 for entry in plan["partitions"])
    assert "bytes travel" in page.read_text()
