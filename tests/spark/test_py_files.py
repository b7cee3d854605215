"""The zip of ``odradek spark package`` on a real standalone cluster whose Pythons have not our packages, and beside a
user's own files that have the names of ours."""

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

from broker.cli.spark import command as spark_command
from tests.spark.conftest import require_java
from tests.spark.standalone import standalone
from tests.spark.topics import fill, make_topic
from tests.support.cluster import ROOT, Cluster

# Two files of the user's lie beside the job, with names that the source does not need. Three more come to be on the
# executors only, in a folder that stands on their path before the zip.
JOB = """
import json, pathlib, sys
import broker, controller
from pyspark.sql import SparkSession

bootstrap, topic, target, data, many = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
result = {"mine": broker.MINE and controller.MINE}

def load(topic=topic, **options):
    return spark.read.format("odradek").options(
        **{"kafka.bootstrap.servers": bootstrap, "subscribe": topic}, **options).load()

def last_words(batches):
    import os, signal
    for number, batch in enumerate(batches):
        yield batch
        if number == 2:
            try:
                os.close(os.open(f"{many}.killed", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            # Of a worker the parent is Spark's daemon, whose parent is the executor.
            daemon = pathlib.Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)

def places(batches):
    import log, network, spark_jobs, timer
    import broker, controller
    import pyarrow as pa
    for batch in batches:
        names = [log.__file__, network.__file__, spark_jobs.__file__, timer.__file__]
        names += ["mine"] if broker.MINE and controller.MINE else []
        yield pa.RecordBatch.from_pydict({"place": names})

result["rows"] = load().count()
result["segments"] = spark.read.format("odradek-segments").option("subscribe", topic).load(data).count()
result["late"] = load().where("offset >= 90").count()
result["places"] = sorted({row.place for row in load().mapInArrow(places, "place string").collect()})
load().select("key", "value").write.format("odradek").mode("append").option(
    "kafka.bootstrap.servers", bootstrap).option("topic", target).save()
read = load(pathlib.Path(many).name, **{"kafka.max.partition.fetch.bytes": "1000"}).select("partition", "offset")
spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
left = read.mapInArrow(last_words, read.schema).collect()
result["after a kill"] = sorted([row.partition, row.offset] for row in left)
def own(name):
    def write(_):
        place = pathlib.Path("mine", f"{name}.py")
        place.write_text("MINE = True")
        return [str(place.absolute())]
    return write

for name in ("log", "network", "timer"):
    result["files"] = spark.sparkContext.parallelize(range(8), 8).mapPartitions(own(name)).collect()
    try:
        load().count()
    except Exception as error:
        result[name] = str(error)
print("RESULT " + json.dumps(result))
"""


def own_files(directory: Path, *names: str) -> list[Path]:
    """A user's modules with the names of ours."""
    directory.mkdir(exist_ok=True)
    for name in names:
        (directory / f"{name}.py").write_text("MINE = True\n")
    return [directory / f"{name}.py" for name in names]


def result_of(output: str) -> dict[str, Any]:
    (line,) = [each for each in output.splitlines() if each.startswith("RESULT ")]
    found: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
    return found


@pytest.mark.timeout(600)  # starts a cluster of Spark's
def test_the_zip_serves_driver_and_executors_without_the_package(cluster: Cluster, tmp_path: Path) -> None:
    """Nothing of ours is imported by the job: Spark finds the format by the path. An executor is killed when a task has
    given some of its rows; each row is there once in the end."""
    require_java()
    topic, target, many = (make_topic(cluster) for _ in range(3))
    fill(cluster, topic, 300)
    fill(cluster, many, 3000, **{"batch.num.messages": 20})
    directories = [str(broker.data) for broker in cluster.brokers if any(broker.data.glob(f"{topic}-*"))]
    archive = tmp_path / "job" / "odradek-spark.zip"
    done = CliRunner().invoke(spark_command, ["package", str(archive)])
    assert done.exit_code == 0, done.output
    job = tmp_path / "job" / "job.py"
    beside = own_files(job.parent, "broker", "controller")
    own_files(tmp_path / "mine", "nothing_of_note")
    mine = shutil.make_archive(str(tmp_path / "mine"), "zip", tmp_path / "mine")
    job.write_text(JOB)
    with standalone(tmp_path / "cluster") as spark:
        output = spark.submit(
            job,
            *(cluster.bootstrap, topic, target, ",".join(directories), str(tmp_path / many)),
            options=(
                *("--py-files", ",".join(map(str, [archive, *beside]))),
                *("--archives", f"{mine}#mine"),
                # Each task in a process of its own, as what one has imported stays.
                # A lost executor is one failure of its task.
                *("--conf", "spark.python.worker.reuse=false", "--conf", "spark.task.maxFailures=2"),
            ),
            # In the working directory of the driver and, by --py-files, of the executors.
            PYTHONPATH=f"mine:{archive.name}",
        )
        executors = spark.executors()
    result = result_of(output)
    assert (result["mine"], result["rows"], result["late"], result["segments"]) == (True, 300, 30, 300)
    assert (tmp_path / f"{many}.killed").exists()
    assert result["after a kill"] == [[partition, offset] for partition in range(3) for offset in range(1000)]
    assert "mine" in result["places"]
    ours = [place for place in result["places"] if place != "mine"]
    assert len(executors) >= 3
    assert ours
    # Relative to the directory of the executor, where Spark has brought the zip.
    assert all(place.startswith("./odradek-spark.zip/") for place in ours), ours
    for name in ("log", "network", "timer"):
        said = [f"{place}/mine/{name}.py shadows the package {name} of odradek" for place in executors]
        assert any(each in result[name] for each in said), result[name][-2000:]


LOCAL = """
import json, pathlib, sys
from pyspark.sql import SparkSession

bootstrap, topic = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.python.worker.reuse", "false").config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.extraJavaOptions", "%s").getOrCreate()
)
server = {"kafka.bootstrap.servers": bootstrap}

def read():
    spark.read.format("odradek").options(**server, subscribe=topic).load().count()

def write():
    rows = spark.range(3).selectExpr("cast(id as string) value")
    rows.write.format("odradek").mode("append").options(**server, topic=topic).save()

def stream(name, **options):
    frame = spark.readStream.format("rate").load().selectExpr("cast(value as string) value")
    if name == "source":
        frame = spark.readStream.format("odradek").options(**server, subscribe=topic).load()
    sink = frame.writeStream.format("noop" if name == "source" else "odradek").options(**server, topic=topic)
    query = sink.option("checkpointLocation", f"{pathlib.Path.cwd()}/{name}").trigger(availableNow=True).start()
    query.awaitTermination(60)
    query.stop()

result = {}
steps = {"read": read, "write": write, "source": lambda: stream("source"), "sink": lambda: stream("sink")}
for name in ("broker", "controller", "log", "network", "timer"):
    pathlib.Path(f"{name}.py").write_text("MINE = True")
    chosen = {"controller": list(steps), "log": list(steps), "broker": []}.get(name, ["read", "write"])
    for step, run in ((step, steps[step]) for step in chosen):
        try:
            run()
            result[f"{name} {step}"] = "done"
        except Exception as error:
            result[f"{name} {step}"] = str(error)
for name in ("log", "network", "timer"):
    pathlib.Path(f"{name}.py").unlink()
try:
    spark.range(3).selectExpr("'v' value").write.format("odradek").options(**server, topic=topic).save()
except Exception as error:
    result["without a mode"] = str(error)
print("RESULT " + json.dumps(result))
"""


@pytest.mark.timeout(300)
def test_files_in_the_working_directory_of_a_local_job(cluster: Cluster, tmp_path: Path) -> None:
    """Where Spark's own workers look first. Each step, reading or writing, names the file that is in its way."""
    require_java()
    topic = make_topic(cluster)
    job = tmp_path / "job" / "job.py"
    job.parent.mkdir()
    job.write_text(LOCAL % "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    with (tmp_path / "err.log").open("wb") as errors:
        done = subprocess.run(
            [sys.executable, str(job), cluster.bootstrap, topic],
            cwd=job.parent,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
            stdout=subprocess.PIPE,
            stderr=errors,
            timeout=250,
            check=False,
        )
    assert done.returncode == 0, (tmp_path / "err.log").read_text()[-3000:]
    result = result_of(done.stdout.decode())
    # Nothing of ours is in the driver's Python, which alone could name the mode: Spark says which can be named.
    assert "UNSUPPORTED_DATA_SOURCE_SAVE_MODE" in result.pop("without a mode")
    assert len(result) == 12
    wrong = {}
    for step, said in result.items():
        name = step.split()[0]
        expected = "done" if name in ("broker", "controller") else f"{job.parent}/{name}.py shadows the package {name}"
        if expected not in said:
            wrong[step] = said[-600:]
    assert wrong == {}
