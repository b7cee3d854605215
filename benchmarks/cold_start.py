"""What a process pays before it decodes and encodes its first record, and when a fresh stream shows its first batch.

Three figures: CPU seconds of a fresh Python that imports our decoder and encoder and uses each once, from a folder and
from a copy of the zip of ``odradek spark package`` at a new path each time (so nothing that was kept by path helps);
and, for our source and Spark's own connector in alternation, each time in a new session with a new JVM, the seconds
from the start of a stream over a small topic until its first batch is there, and until a second stream's is.

    python -m benchmarks.cold_start [--quick] [--json] [--rounds 3] [--broker odradek|kafka]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.spark_source import fill
from broker.dev.processes import free_ports
from broker.dev.zookeeper import ZooKeeperServer
from spark_jobs.package import build_zip
from tests.spark import connector
from tests.support.cluster import CLOCK, python_environment, running_cluster
from tests.support.paths import ROOT

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
print(time.process_time() - start)
"""
STREAM = """
import sys, time
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
    start = time.perf_counter()
    query = frame.writeStream.foreachBatch(lambda batch, _: seen.append(batch.count())).start()
    query.processAllAvailable()
    print(time.perf_counter() - start, flush=True)
    assert sum(seen) == 1000, seen
    query.stop()
spark.stop()
"""


def numbers(code: str, *arguments: str, directory: Path) -> list[float]:
    """What a fresh Python prints, a number a line."""
    environment = {**os.environ, **python_environment(), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    done = subprocess.run(command, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


def processes(rounds: int, directory: Path) -> dict[str, list[float]]:
    """CPU seconds of fresh processes, from the folder and from zips."""
    found: dict[str, list[float]] = {"folder": [], "zip": []}
    for n in range(rounds):
        package = directory / f"path-{n}" / "odradek-spark.zip"
        build_zip(package)
        found["folder"] += numbers(PROCESS, str(ROOT), directory=directory)
        found["zip"] += numbers(PROCESS, str(package), directory=directory)
    return found


def streams(rounds: int, directory: Path, broker: Any) -> dict[str, list[float]]:
    """Seconds to the first batch of the first and of the second stream of a session, by format."""
    found: dict[str, list[float]] = {}
    zookeeper = ZooKeeperServer(directory / "zookeeper", free_ports(1)[0])
    try:
        zookeeper.wait_until_ready(CLOCK)
        with running_cluster([broker], directory / "c", zookeeper.connect, {}) as cluster:
            fill(cluster.bootstrap, "cold", 1000, 100, "none", "16KB")
            jars = ",".join(map(str, connector.jars()))
            for _ in range(rounds):
                for format_ in ("kafka", "odradek"):
                    first, second = numbers(STREAM, format_, cluster.bootstrap, "cold", jars, directory=directory)
                    found.setdefault(f"{format_}, first", []).append(first)
                    found.setdefault(f"{format_}, second", []).append(second)
    finally:
        zookeeper.stop()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of processes, no streams")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--broker", choices=["odradek", "kafka"], default="odradek")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the brokers end too
    with tempfile.TemporaryDirectory() as name:
        found: dict[str, Any] = {"process_cpu_s": processes(1 if options.quick else options.rounds, Path(name))}
        if not options.quick:
            found["first_batch_s"] = streams(options.rounds, Path(name), options.broker)
    found["load"] = os.getloadavg()[0]
    if options.json:
        print(json.dumps(found))
        return
    for title in ("process_cpu_s", "first_batch_s"):
        for what, values in found.get(title, {}).items():
            listed = ", ".join(f"{value:.2f}" for value in values)
            print(f"{title:<14} {what:<16} median {statistics.median(values):.2f}  ({listed})")
    print(f"load average {found['load']:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
