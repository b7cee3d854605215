"""The archive as a table of Delta Lake, in a session of its own that has its jars."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from spark_jobs.jobs import archive as archive_job
from tests.reference.kafka import cache_folder
from tests.spark.conftest import require_java
from tests.spark.topics import fill, make_topic
from tests.support.cluster import ROOT, Cluster, python_environment
from tests.support.fetched import fetched_once

VERSION = "4.4.0"
FETCH_TIMEOUT_S = 900
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>odradek.tests</groupId><artifactId>delta</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>io.delta</groupId><artifactId>delta-spark_4.2_2.13</artifactId><version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

# Archived, more archived, the last batch once more, joined, and brought back.
SCRIPT = """
import json, sys
from tests.spark.topics import fill
from spark_jobs.jobs import archive, restore
from spark_jobs.jobs.session import Launch

bootstrap, topic, copy, path, jars = sys.argv[1:]
launch = archive.with_settings(Launch("local[2]", (f"spark.jars={jars}",)), path, "delta")
spark = launch.open("delta", short=True)
spark.conf.set("spark.sql.shuffle.partitions", "2")
spark.conf.set("spark.databricks.delta.snapshotPartitions", "2")
server = {"kafka.bootstrap.servers": bootstrap}
source = {**server, "subscribe": topic}
result = {"first": archive.run(spark, path, source, None, compact=False, kind="delta")}
class There:
    bootstrap = server["kafka.bootstrap.servers"]
fill(There, topic, 150, first=150)
result["second"] = archive.run(spark, path, source, None, compact=False)
table = archive.open_archive(spark, path)
result["kind"] = type(table).__name__
result["again"] = table.write_batch(table.read().drop("date", "hour").limit(5), result["first"]["batches"] - 1)
result["gone"] = table.compact()
result["summary"] = archive.summary(spark, path)
result["restored"] = restore.run(spark, path, server, target=copy)
print("RESULT " + json.dumps(result))
"""


def jars() -> list[Path]:
    """Delta Lake's jars, fetched once by Maven. Skips without Maven, and fails where the reference is required."""
    folder = cache_folder() / f"delta-{VERSION}"
    return sorted(fetched_once(folder, lambda: _fetch(folder)).glob("*.jar"))


def _fetch(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        if os.environ.get("ODRADEK_REQUIRE_REFERENCE") == "1":
            pytest.fail("Maven is required: apt-get install maven")
        pytest.skip("Maven is not installed: apt-get install maven")
    (folder / "pom.xml").write_text(POM)
    command = [maven, "-q", "-B", "-ntp", "-f", str(folder / "pom.xml"), COPY, f"-DoutputDirectory={folder}"]
    # Spark and what it brings is there already.
    command += ["-DincludeGroupIds=io.delta,io.unitycatalog,org.antlr"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if done.returncode:
        pytest.fail(f"Maven could not fetch Delta Lake {VERSION}: {done.stdout[-500:]}")


@pytest.mark.timeout(600)  # a session of its own
def test_exactly_once_into_a_table_and_back(cluster: Cluster, tmp_path: Path) -> None:
    require_java()
    topic, copy = make_topic(cluster), make_topic(cluster)
    fill(cluster, topic, 150)
    path = tmp_path / "archive"
    arguments = [cluster.bootstrap, topic, copy, str(path), ",".join(map(str, jars()))]
    with (tmp_path / "errors.log").open("wb") as errors:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, *arguments],
            cwd=ROOT,
            env={**os.environ, **python_environment()},
            stdout=subprocess.PIPE,
            stderr=errors,
            timeout=500,
            check=False,
        )
    assert done.returncode == 0, (tmp_path / "errors.log").read_text()[-4000:]
    (line,) = [each for each in done.stdout.decode().splitlines() if each.startswith("RESULT ")]
    result = json.loads(line.removeprefix("RESULT "))
    assert result["kind"] == "DeltaArchive"
    assert result["first"]["files"] >= 1
    assert result["second"]["files"] >= 1
    assert (result["again"], result["gone"] >= 1) == (0, True)
    assert result["summary"] == [
        {"topic": topic, "partition": p, "records": 100, "first": 0, "last": 99, "missing": 0} for p in range(3)
    ]
    assert result["restored"] == {"records": 300, "mismatches": []}
    assert (path / "_delta_log").is_dir()


def test_without_delta_lake_its_package_is_named(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    arguments = [str(tmp_path / "a"), "--topics", "any", "--format", "delta", "-b", cluster.bootstrap]
    done = CliRunner().invoke(archive_job.main, arguments)
    assert done.exit_code == 1
    assert "io.delta:delta-spark_4.2_2.13" in done.output
