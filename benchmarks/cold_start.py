"""What a process pays before it decodes and encodes its first record, and when a fresh stream shows its first batch.

Three parts, of which ``--only`` chooses one:

- process: CPU seconds of a fresh Python that imports our decoder and encoder and uses each once, from a folder and from
  a copy of the zip of ``odradek spark package`` at a new path each time, so nothing that was kept by path helps;
- stream: for our source and Spark's own connector in alternation, each time in a new session with a new JVM, from the
  start of a stream over a small topic until its first batch is there, and until a second stream's is;
- example: the first query of docs/spark.md over 1,000 records, from the start of its Python to its first batch.

The last two tell seconds, and CPU seconds of Python, the JVM and its workers up to then: those hold on a busy machine.

    python -m benchmarks.cold_start [--only process|stream|example] [--script] [--rounds 3] [--broker odradek|kafka]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.spark_source import fill
from broker.dev.processes import free_ports
from broker.dev.zookeeper import ZooKeeperServer
from spark_jobs.package import build_zip, write_script
from tests.spark import connector
from tests.support.cluster import CLOCK, Kind, python_environment, running_cluster
from tests.support.paths import ROOT

PYTHON = {"PYSPARK_PYTHON": sys.executable}
"""Of Spark's own processes."""
PROCESS = """
import sys, time
sys.path.insert(0, sys.argv[1])
start = time.process_time()
import numpy as np
import pyarrow as pa
from spark_jobs.decode.decoder import Decoder
from spark_jobs.encode.encoder import Columns, Headers, Slices, encode_batches
values = Slices.of(pa.array([b"value"]))
columns = Columns(Slices.nulls(1), values, Headers.of(None, 1), np.array([1_700_000_000_000]))
(batch,) = encode_batches(columns, np.arange(1), 1000, 0)
batch.stamp(-1, -1, -1)
(rows,) = Decoder("t", 0, 0, 1, ("value",)).decode(bytes(batch.data))
assert rows.to_pylist() == [{"value": b"value"}]
print("FIGURES", time.process_time() - start)
"""
# CPU seconds of this Python, its JVM and that one's workers, so far.
CPU = """
import time
from benchmarks.spark_source import cpu_seconds
from benchmarks.targets import children
def cpu(spark):
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    return time.process_time() + sum(cpu_seconds(pid) for pid in [jvm, *children(jvm)])
"""
STREAM = """
import sys
from pyspark.sql import SparkSession
format_, bootstrap, topic, jars = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2").getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
spark.range(1).count()
for _ in range(2):
    frame = spark.readStream.format(format_).option("kafka.bootstrap.servers", bootstrap)
    frame = frame.option("subscribe", topic).option("startingOffsets", "earliest").load()
    seen = []
    start, spent = time.perf_counter(), cpu(spark)
    query = frame.writeStream.foreachBatch(lambda batch, _: seen.append(batch.count())).start()
    query.processAllAvailable()
    print("FIGURES", time.perf_counter() - start, cpu(spark) - spent, flush=True)
    assert sum(seen) == 1000, seen
    query.stop()
spark.stop()
"""
# After the code of the page, which is the first that needs Spark.
EXAMPLE = """
query.processAllAvailable()
print("FIGURES", time.time() - float(sys.argv[1]), cpu(spark), flush=True)
query.stop()
"""


class Told:
    """Figures by name, each said on standard error as it comes."""

    def __init__(self) -> None:
        self.found: dict[str, list[float]] = {}

    def add(self, name: str, value: float) -> None:
        """One more."""
        self.found.setdefault(name, []).append(value)
        print(f"{name}: {value:.2f}", file=sys.stderr, flush=True)


def figures(code: str, *arguments: str, directory: Path) -> list[list[float]]:
    """What a fresh Python prints behind ``FIGURES``, by line."""
    environment = {**os.environ, **python_environment(), **PYTHON}
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    done = subprocess.run(command, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("FIGURES ")]
    return [[float(each) for each in line] for line in lines]


def processes(rounds: int, directory: Path, told: Told) -> None:
    """CPU seconds of fresh processes, from the folder and from zips."""
    for n in range(rounds):
        package = directory / f"path-{n}" / "odradek-spark.zip"
        build_zip(package)
        for name, place in (("folder", ROOT), ("zip", package)):
            ((spent,),) = figures(PROCESS, str(place), directory=directory)
            told.add(f"process, {name}: CPU s", spent)


def streams(rounds: int, directory: Path, told: Told, bootstrap: str) -> None:
    """To the first batch of the first and of the second stream of a session, by format."""
    jars = ",".join(map(str, connector.jars()))
    for _ in range(rounds):
        # The connector has no Python that a script could change.
        for format_ in ("odradek",) if PYTHON["PYSPARK_PYTHON"] != sys.executable else ("kafka", "odradek"):
            lines = figures(CPU + STREAM, format_, bootstrap, "cold", jars, directory=directory)
            for name, (wall, spent) in zip(("first", "second"), lines, strict=True):
                told.add(f"stream, {format_}, {name}: s", wall)
                told.add(f"stream, {format_}, {name}: CPU s", spent)


def example(rounds: int, directory: Path, told: Told, bootstrap: str) -> None:
    """The first program of the page, as it stands there but for its address and its end."""
    page = (ROOT / "docs" / "spark.md").read_text()
    block = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert block is not None
    program = block[1].replace("127.0.0.1:9092", bootstrap).replace('"clicks"', '"cold"')
    program = program.replace("counts.writeStream", "query = counts.writeStream").replace(".awaitTermination()", "")
    for _ in range(rounds):
        code = f"import sys{CPU}{program}{EXAMPLE}"
        ((wall, spent),) = figures(code, str(CLOCK.wall_ms() / 1000), directory=directory)
        told.add("example: s", wall)
        told.add("example: CPU s", spent)


@contextlib.contextmanager
def brokers(kind: Kind, directory: Path) -> Iterator[str]:
    """The address of a broker with the topic ``cold``."""
    zookeeper = ZooKeeperServer(directory / "zookeeper", free_ports(1)[0])
    try:
        zookeeper.wait_until_ready(CLOCK)
        with running_cluster([kind], directory / "c", zookeeper.connect, {}) as cluster:
            fill(cluster.bootstrap, "cold", 1000, 100, "none", "16KB")
            yield cluster.bootstrap
    finally:
        zookeeper.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of processes, no streams")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--broker", choices=["odradek", "kafka"], default="odradek")
    parser.add_argument("--only", choices=["process", "stream", "example"], default=None)
    parser.add_argument("--script", action="store_true", help="Spark's Python is that of `odradek spark python`")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the brokers end too
    told = Told()
    wanted = {options.only} if options.only else {"process"} if options.quick else {"process", "stream", "example"}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        if options.script:
            write_script(directory / "python", sys.executable)
            PYTHON["PYSPARK_PYTHON"] = str(directory / "python")
        if "process" in wanted:
            processes(1 if options.quick else options.rounds, directory, told)
        parts: dict[str, Callable[[int, Path, Told, str], None]] = {"stream": streams, "example": example}
        if chosen := [part for title, part in parts.items() if title in wanted]:
            with brokers(options.broker, directory) as bootstrap:
                for part in chosen:
                    part(options.rounds, directory, told, bootstrap)
    load = os.getloadavg()[0]
    if options.json:
        print(json.dumps({"figures": told.found, "load": load}))
        return
    for what, values in told.found.items():
        listed = ", ".join(f"{value:.2f}" for value in values)
        print(f"{what:<32} median {statistics.median(values):.2f}  ({listed})")
    print(f"load average {load:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
