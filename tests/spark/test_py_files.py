"""The zip of ``odradek spark package`` by ``spark-submit --py-files``, with executors in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from click.testing import CliRunner

from broker.cli.spark import command as spark_command
from tests.spark.conftest import require_java
from tests.spark.topics import fill, make_topic
from tests.support.cluster import Cluster

JOB = """
import json, sys
from pyspark.sql import SparkSession
from spark_jobs.source import register

bootstrap, topic, target = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
register(spark)

def places(batches):
    import log, network, spark_jobs, timer
    import pyarrow as pa
    for batch in batches:
        names = [log.__file__, network.__file__, spark_jobs.__file__, timer.__file__]
        yield pa.RecordBatch.from_pydict({"place": names})

frame = (
    spark.read.format("odradek")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topic)
    .load()
)
rows = frame.count()
places = sorted({row.place for row in frame.mapInArrow(places, "place string").collect()})
frame.select("key", "value").write.format("odradek").mode("append").option(
    "kafka.bootstrap.servers", bootstrap
).option("topic", target).save()
late = frame.where("offset >= 90").count()
print("RESULT " + json.dumps({"rows": rows, "places": places, "late": late}))
"""


@pytest.mark.timeout(600)  # starts two executors
def test_the_zip_serves_driver_and_executors(cluster: Cluster, tmp_path: Path) -> None:
    require_java()
    topic, target = make_topic(cluster), make_topic(cluster)
    fill(cluster, topic, 300)
    archive = tmp_path / "odradek-spark.zip"
    done = CliRunner().invoke(spark_command, ["package", str(archive)])
    assert done.exit_code == 0, done.output
    # Workers write below SPARK_HOME: one of our own, with links to the installed one.
    home = tmp_path / "spark"
    home.mkdir()
    installed = Path(pyspark.__file__).parent
    for name in ("bin", "jars", "python"):
        (home / name).symlink_to(installed / name)
    elsewhere = tmp_path / "job"
    elsewhere.mkdir()
    job = elsewhere / "job.py"
    job.write_text(JOB)
    ours = ("PYTHONPATH", "SPARK_", "PYSPARK_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    environment |= {
        "SPARK_HOME": str(home),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONSAFEPATH": "1",
        "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
    }
    command = [str(installed / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]"]
    command += ["--conf", "spark.executor.memory=512m", "--conf", "spark.ui.enabled=false"]
    command += ["--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
    command += ["--conf", "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
    command += ["--py-files", str(archive), str(job), cluster.bootstrap, topic, target]
    with (tmp_path / "err.log").open("wb") as errors:
        ended = subprocess.run(
            command, cwd=elsewhere, env=environment, stdout=subprocess.PIPE, stderr=errors, timeout=400, check=False
        )
    log = (tmp_path / "err.log").read_text()
    assert ended.returncode == 0, f"{ended.stdout.decode()[:3000]}\n{log[-2000:]}"
    (line,) = [each for each in ended.stdout.decode().splitlines() if each.startswith("RESULT ")]
    result = json.loads(line.removeprefix("RESULT "))
    assert (result["rows"], result["late"]) == (300, 30)
    assert result["places"]
    assert all("odradek-spark.zip/" in place for place in result["places"]), result["places"]
    executors = {place.parent for place in (home / "work").glob("app-*/*/stderr")}
    assert len(executors) >= 2
