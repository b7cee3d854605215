"""How many shuffle partitions a job gets, and that all jobs take the same options."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark.sql.datasource")

from spark_jobs.jobs import JOBS
from spark_jobs.jobs.sizing import SETTING, TASK_BYTES, fit_shuffle, local_bytes, shuffle_partitions, topic_bytes


@pytest.mark.parametrize(
    ("total", "cores", "expected"),
    [(0, 2, 2), (1, 0, 1), (2 * TASK_BYTES, 2, 2), (2 * TASK_BYTES + 1, 2, 3), (TASK_BYTES * 10**6, 2, 10_000)],
)
def test_one_a_core_until_tasks_grow_too_large(total: int, cores: int, expected: int) -> None:
    assert shuffle_partitions(total, cores) == expected


@pytest.mark.parametrize(("given", "expected"), [({}, {SETTING: "8"}), ({SETTING: "200"}, {})])
def test_what_the_user_has_set_stays(given: dict[str, str], expected: dict[str, str]) -> None:
    made: dict[str, str] = {}
    context = SimpleNamespace(getConf=lambda: SimpleNamespace(contains=given.__contains__), defaultParallelism=8)
    fit_shuffle(SimpleNamespace(sparkContext=context, conf=SimpleNamespace(set=made.__setitem__)), 1000)
    assert made == expected


def test_only_topics_that_are_read_count() -> None:
    sizes = {("clicks", 0): 10, ("clicks", 1): 20, ("other", 0): 400}
    server = {"kafka.bootstrap.servers": "h:1"}
    assert topic_bytes({**server, "subscribe": "clicks"}, sizes) == 30
    assert topic_bytes({**server, "subscribePattern": r"[\p{Lower}&&[^k]]+"}, sizes) == 400


@pytest.mark.parametrize("job", JOBS)
def test_every_job_takes_the_options_of_spark(job: str) -> None:
    main = importlib.import_module(f"spark_jobs.jobs.{job.replace('-', '_')}").main
    names = {parameter.name for parameter in main.params}
    assert {"master", "confs", "as_json"} <= names
    if "paths" not in names:
        assert "bootstrap_server" in names


def test_bytes_of_paths(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "1").write_bytes(b"123")
    (tmp_path / "2").write_bytes(b"12345")
    assert local_bytes(str(tmp_path)) == local_bytes(f"file://{tmp_path}/a", str(tmp_path / "2")) == 8
    assert local_bytes(str(tmp_path), "hdfs://there/archive") is None
