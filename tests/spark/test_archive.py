"""The archive: exactly once whatever is killed, and restored to what it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from broker.dev.polling import wait_until
from spark_jobs.jobs import archive as archive_job
from spark_jobs.jobs import restore as restore_job
from spark_jobs.jobs.archive import Archive
from spark_jobs.jobs.session import Files
from tests.spark.topics import fill, in_order, make_topic, reader
from tests.support.cluster import CLOCK, ROOT, Cluster, python_environment


class CrashError(Exception):
    """Stands for the end of the process."""


def source(cluster: Cluster, topic: str, **options: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, **options}


def archived(spark: Any, path: Path) -> list[tuple[int, int]]:
    rows = Archive(spark, str(path)).read().select("partition", "offset").collect()
    return sorted((r.partition, r.offset) for r in rows)


EVERYTHING = [(p, offset) for p in range(3) for offset in range(100)]


def test_layout_resumption_compaction_and_restore(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    topic, copy = make_topic(cluster), make_topic(cluster)
    fill(cluster, topic, 150)
    first = archive_job.run(spark, str(tmp_path), source(cluster, topic), None, compact=False)
    fill(cluster, topic, 150, first=150)
    archive_job.run(spark, str(tmp_path), source(cluster, topic), None, compact=False)
    assert first["files"] >= 1
    assert archived(spark, tmp_path) == EVERYTHING
    folder = tmp_path / f"topic={topic}" / "date=2023-11-14" / "hour=22"
    before = len(list(folder.glob("*.parquet")))
    assert before >= 2
    gone = Archive(spark, str(tmp_path)).compact()
    assert gone == before - 1
    assert len(list(folder.glob("*.parquet"))) == 1
    assert archived(spark, tmp_path) == EVERYTHING
    (row, *_) = archive_job.summary(spark, str(tmp_path))
    assert row == {"topic": topic, "partition": 0, "records": 100, "first": 0, "last": 99, "missing": 0}
    written = restore_job.run(spark, str(tmp_path), {"kafka.bootstrap.servers": cluster.bootstrap}, target=copy)
    assert written == {"records": 300, "mismatches": []}
    columns = ["key", "value", "headers", "partition", "offset", "timestamp"]
    ends = [reader(spark, cluster, name, includeHeaders="true").select(columns).collect() for name in (topic, copy)]
    assert in_order(ends[0]) == in_order(ends[1])


def test_a_restore_that_is_not_what_was_archived(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    """The topic writes down when a record came, not what time it has."""
    topic, copy = make_topic(cluster), make_topic(cluster, 3, 1, **{"message.timestamp.type": "LogAppendTime"})
    fill(cluster, topic, 30)
    archive_job.run(spark, str(tmp_path), source(cluster, topic), None, compact=False)
    arguments = [str(tmp_path), "--to", copy, "-b", cluster.bootstrap, "--json"]
    done = CliRunner().invoke(restore_job.main, arguments)
    assert done.exit_code == 1, done.output
    differing = [
        {"topic": copy, "partition": p, "differs": "checksum", "archived": 10, "written": 10} for p in range(3)
    ]
    assert json.loads(done.stdout) == {"records": 30, "mismatches": differing}


@pytest.mark.parametrize("step", ["before the manifest", "after the manifest", "in the moves"])
def test_a_crash_in_a_batch(
    spark: Any, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    topic = make_topic(cluster)
    fill(cluster, topic, 300)
    options = source(cluster, topic, maxOffsetsPerTrigger="150")
    crash: dict[str, Any] = {"armed": True}

    def crashing(kind: str, real: Any) -> Any:
        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            hit = "batch-000000000001" in str(arguments) or kind == "move"
            if crash["armed"] and kind == wanted and hit and (kind != "move" or "/batch-" in arguments[0]):
                crash["seen"] = crash.get("seen", 0) + 1
                if kind != "move" or crash["seen"] == 2:
                    crash["armed"] = False
                    raise CrashError(step)
            return real(self, *arguments, **named)

        return call

    wanted = {"before the manifest": "write", "after the manifest": "apply", "in the moves": "move"}[step]
    files = Files
    monkeypatch.setattr(files, "write", crashing("write", files.write))
    monkeypatch.setattr(files, "move", crashing("move", files.move))
    monkeypatch.setattr(Archive, "_apply", crashing("apply", Archive._apply))
    with pytest.raises(Exception, match=step):
        archive_job.run(spark, str(tmp_path), options, None, compact=False)
    assert not crash["armed"]
    archive_job.run(spark, str(tmp_path), options, None, compact=False)
    assert archived(spark, tmp_path) == EVERYTHING


@pytest.mark.parametrize("step", ["before the manifest", "after the manifest", "in the deletions"])
def test_a_crash_in_the_compaction(
    spark: Any, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    topic = make_topic(cluster)
    fill(cluster, topic, 300)
    options = source(cluster, topic, maxOffsetsPerTrigger="75")
    archive_job.run(spark, str(tmp_path), options, None, compact=False)
    folder = tmp_path / f"topic={topic}" / "date=2023-11-14" / "hour=22"
    assert len(list(folder.glob("*.parquet"))) >= 3
    seen: list[str] = []

    def crashing(real: Any, at: int) -> Any:
        def call(self: Any, name: str, *rest: Any) -> Any:
            if "compact-" in name or name.startswith("topic="):
                seen.append(name)
                if len(seen) == at:
                    raise CrashError(step)
            return real(self, name, *rest)

        return call

    place, attribute, at = {
        "before the manifest": (Files, "write", 1),
        "after the manifest": (Archive, "_apply", 1),
        "in the deletions": (Files, "delete", 2),
    }[step]
    with monkeypatch.context() as patch:
        patch.setattr(place, attribute, crashing(getattr(place, attribute), at))
        with pytest.raises(CrashError):
            Archive(spark, str(tmp_path)).compact()
    archive = Archive(spark, str(tmp_path))
    assert archive.recover() == int(step != "before the manifest")
    assert archived(spark, tmp_path) == EVERYTHING
    archive.compact()
    assert len(list(folder.glob("*.parquet"))) == 1
    assert archived(spark, tmp_path) == EVERYTHING


@pytest.mark.timeout(600)  # starts Spark twice
def test_a_killed_job_neither_loses_nor_repeats(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    topic = make_topic(cluster)
    fill(cluster, topic, 300)
    path = tmp_path / "archive"
    command = [sys.executable, "-m", "spark_jobs.jobs.archive", str(path), "--topics", topic]
    command += ["-b", cluster.bootstrap, "--option", "maxOffsetsPerTrigger=12", "--master", "local[2]"]
    with (tmp_path / "job.log").open("wb") as out:
        job = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **python_environment()},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        manifests = path / "_odradek" / "done"
        assert wait_until(lambda: len(list(manifests.glob("*.json"))) >= 3, CLOCK, 200_000), (
            tmp_path / "job.log"
        ).read_text()[-2000:]
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait(30)
    assert len(archived(spark, path)) < 300
    archive_job.run(spark, str(path), source(cluster, topic), None, compact=True)
    assert archived(spark, path) == EVERYTHING
