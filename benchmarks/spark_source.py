"""The Spark source and sink beside Spark's own connector, in one run.

Measures wall and CPU seconds (driver's JVM, Python, broker), rows/s, MB/s and peak memory of: our source over the
network, from segments, Spark's connector as its batch default (V1) and as in streams (V2), a ready Arrow batch repeated
(the interface's own ceiling), AvailableNow streams, short queries and the sink. Ratios are to V2.

    python -m benchmarks.spark_source [--quick] [--json] [--broker odradek|kafka] [--master local[2]]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from broker.dev.processes import free_ports
from broker.dev.zookeeper import ZooKeeperServer
from tests.spark import connector
from tests.support.cluster import CLOCK, Cluster, python_environment, running_cluster

TICKS = os.sysconf("SC_CLK_TCK")
BATCHES = {
    "16KB": {"batch.size": 16_384},
    "10000": {"batch.size": 16_000_000, "batch.num.messages": 10_000, "message.max.bytes": 20_000_000},
}


@dataclass
class Measured:
    """One query: seconds, and bytes of memory at the peak."""

    name: str
    wall: float
    jvm_cpu: float
    python_cpu: float
    broker_cpu: float
    rows: int
    mb: float
    jvm_memory: int
    python_memory: int

    @property
    def client_cpu(self) -> float:
        """CPU seconds beside the broker's."""
        return self.jvm_cpu + self.python_cpu


def children(pid: int) -> list[int]:
    """All processes below one."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += [int(child), *children(int(child))]
    return found


def cpu_seconds(pid: int) -> float:
    """Own CPU time and that of children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


def peak_memory(pid: int) -> int:
    """Largest resident set so far, in bytes."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    return 0


class Meter:
    """Measures queries of one session and its broker."""

    def __init__(self, spark: Any, cluster: Cluster, repeats: int) -> None:
        self._jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
        process = cluster.brokers[0].process
        assert process is not None
        self._broker = process.pid
        self._repeats = repeats

    def measure(self, name: str, rows: int, mb: float, query: Callable[[], object]) -> Measured:
        """The fastest of some runs, after one that is not measured."""
        query()
        best: Measured | None = None
        for _ in range(self._repeats):
            before = self._cpu()
            start = CLOCK.monotonic_ns()
            query()
            wall = (CLOCK.monotonic_ns() - start) / 1e9
            jvm, python, broker = (b - a for a, b in zip(before, self._cpu(), strict=True))
            workers = [peak_memory(pid) for pid in children(self._jvm)]
            found = Measured(name, wall, jvm, python, broker, rows, mb, peak_memory(self._jvm), max(workers, default=0))
            if best is None or found.wall < best.wall:
                best = found
        assert best is not None
        return best

    def _cpu(self) -> tuple[float, float, float]:
        python = sum(cpu_seconds(pid) for pid in children(self._jvm))
        return cpu_seconds(self._jvm), python, cpu_seconds(self._broker)


class Ceiling(DataSource):
    """A ready Arrow batch, repeated: what the interface itself costs."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> StructType:
        from spark_jobs.options import ALL_COLUMNS
        from spark_jobs.source import spark_schema

        return spark_schema(ALL_COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        return CeilingReader(int(self.options["rows"]), int(self.options["size"]))


class CeilingReader(DataSourceReader):
    """Gives rows of random bytes in batches of 10,000, in four tasks."""

    def __init__(self, rows: int, size: int) -> None:
        self._rows, self._size = rows, size

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(n) for n in range(4)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import numpy as np
        import pyarrow as pa

        from spark_jobs.decode.columns import arrow_schema, constant, timestamps
        from spark_jobs.options import ALL_COLUMNS

        count = 10_000
        columns = [
            pa.nulls(count, pa.binary()),
            pa.array([os.urandom(self._size)] * count, pa.binary()),
            constant("t", pa.string(), count),
            constant(0, pa.int32(), count),
            pa.array(np.arange(count)),
            timestamps(np.full(count, 1_700_000_000_000)),
            constant(0, pa.int32(), count),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(ALL_COLUMNS))
        for _ in range(self._rows // 4 // count):
            yield batch


def session(master: str, directory: Path) -> Any:
    """A session with both sources."""
    from pyspark.sql import SparkSession

    from spark_jobs.source import register

    os.environ.update(python_environment())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(master)
        .appName("benchmark")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.jars", ",".join(map(str, connector.jars())))
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    spark.dataSource.register(Ceiling)
    return spark


def fill(bootstrap: str, topic: str, rows: int, size: int, codec: str, batching: str) -> None:
    """A topic of four partitions with random, half compressible values."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    config = {"max.message.bytes": "20000000", "retention.ms": "-1"}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, 4, 1, config=config)]).values():
        future.result(30)
    settings = {"linger.ms": 200, "compression.type": codec, "queue.buffering.max.messages": 200_000}
    producer = Producer({"bootstrap.servers": bootstrap, **settings, **BATCHES[batching]})
    values = [os.urandom(size // 2) + bytes(size - size // 2) for _ in range(1000)]
    for n in range(rows):
        while True:
            try:
                producer.produce(topic, values[n % 1000], partition=n % 4)
                break
            except BufferError:
                producer.poll(0.1)
        if not n % 1000:
            producer.poll(0)
    assert producer.flush(120) == 0


class Queries:
    """The queries of one session."""

    def __init__(self, spark: Any, cluster: Cluster, directory: Path) -> None:
        self.spark, self.cluster, self.directory = spark, cluster, directory
        self._runs = 0

    def read(self, format_: str, topic: str, v1: bool = True) -> Callable[[], object]:
        """A full read into nowhere."""

        def query() -> None:
            self.spark.conf.set("spark.sql.sources.useV1SourceList", "kafka" if v1 else "")
            frame = (
                self.spark.read.format(format_)
                .option("kafka.bootstrap.servers", self.cluster.bootstrap)
                .option("subscribe", topic)
                .load()
            )
            frame.write.format("noop").mode("overwrite").save()

        return query

    def segments(self, topic: str) -> Callable[[], object]:
        """The same from the broker's directory."""
        path = str(self.cluster.brokers[0].data)
        reader = self.spark.read.format("odradek-segments").option("subscribe", topic)
        return lambda: reader.load(path).write.format("noop").mode("overwrite").save()

    def ceiling(self, rows: int, size: int) -> Callable[[], object]:
        """A ready batch repeated."""
        reader = self.spark.read.format("ceiling").option("rows", rows).option("size", size)
        return lambda: reader.load().write.format("noop").mode("overwrite").save()

    def stream(self, format_: str, topic: str) -> Callable[[], object]:
        """AvailableNow from the beginning."""

        def query() -> None:
            self._runs += 1
            stream = (
                self.spark.readStream.format(format_)
                .option("kafka.bootstrap.servers", self.cluster.bootstrap)
                .option("subscribe", topic)
                .option("startingOffsets", "earliest")
                .load()
            )
            writer = stream.writeStream.format("noop").trigger(availableNow=True)
            writer.option("checkpointLocation", str(self.directory / f"run-{self._runs}")).start().awaitTermination()

        return query

    def write(self, format_: str, topic: str, rows: int, size: int) -> Callable[[], object]:
        """Rows into a topic."""
        frame = self.spark.range(rows).selectExpr("cast(id as string) key", f"repeat('x', {size}) value")
        writer = frame.write.format(format_).mode("append").option("kafka.bootstrap.servers", self.cluster.bootstrap)
        return lambda: writer.option("topic", topic).save()


def run_case(
    queries: Queries, meter: Meter, title: str, rows: int, size: int, codec: str, batching: str
) -> list[Measured]:
    """All reads of one topic."""
    topic = f"bench-{title}".replace(" ", "-")
    fill(queries.cluster.bootstrap, topic, rows, size, codec, batching)
    mb = rows * size / 1e6
    plan = {
        "connector V2": queries.read("kafka", topic, v1=False),
        "connector V1": queries.read("kafka", topic),
        "odradek": queries.read("odradek", topic),
        "segments": queries.segments(topic),
        "ceiling": queries.ceiling(rows, size),
        "stream connector": queries.stream("kafka", topic),
        "stream odradek": queries.stream("odradek", topic),
    }
    return [meter.measure(f"{title}: {name}", rows, mb, query) for name, query in plan.items()]


def small_and_sink(queries: Queries, meter: Meter, rows: int) -> list[Measured]:
    """Short queries and the sinks."""
    found = []
    fill(queries.cluster.bootstrap, "bench-short", 100, 100, "none", "16KB")
    for name, format_ in (("connector V2", "kafka"), ("odradek", "odradek")):
        found.append(meter.measure(f"short: {name}", 100, 0.01, queries.read(format_, "bench-short", v1=False)))
    fill(queries.cluster.bootstrap, "bench-out", 1, 1, "none", "16KB")
    for name, format_ in (("connector V2", "kafka"), ("odradek", "odradek")):
        query = queries.write(format_, "bench-out", rows, 100)
        found.append(meter.measure(f"sink 100 B: {name}", rows, rows * 100 / 1e6, query))
    return found


def show(results: list[Measured]) -> None:
    """A table; ratios to the connector of the same case."""
    print(
        f"{'query':<44}{'wall s':>8}{'rows/s':>12}{'MB/s':>8}{'x':>7}{'jvm cpu':>9}{'py cpu':>8}"
        f"{'broker':>8}{'jvm MB':>8}{'py MB':>7}"
    )
    reference = 1.0
    for each in results:
        if "connector" in each.name and "V1" not in each.name:
            reference = each.wall
        elif each.name.endswith(": odradek") or "V1" in each.name:
            pass
        print(
            f"{each.name:<44}{each.wall:>8.2f}{each.rows / each.wall:>12,.0f}{each.mb / each.wall:>8.1f}"
            f"{reference / each.wall:>7.2f}{each.jvm_cpu:>9.2f}{each.python_cpu:>8.2f}{each.broker_cpu:>8.2f}"
            f"{each.jvm_memory / 1e6:>8.0f}{each.python_memory / 1e6:>7.0f}"
        )


def main() -> None:
    """Run the cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small case, under a minute")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--broker", choices=["odradek", "kafka"], default="odradek")
    parser.add_argument("--master", default="local[2]", help="local[2] or local[4]")
    options = parser.parse_args()
    if options.quick:
        cases = [("100 B", 200_000, 100, "none", "16KB")]
    else:
        cases = [
            (f"{size} B {codec} {batching}", rows, size, codec, batching)
            for rows, size in ((5_000_000, 100), (1_000_000, 1000))
            for codec in ("none", "lz4", "zstd")
            for batching in BATCHES
        ]
    results: list[Measured] = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        zookeeper = ZooKeeperServer(directory / "zookeeper", free_ports(1)[0])
        try:
            zookeeper.wait_until_ready(CLOCK)
            settings = {"message.max.bytes": "20000000", "log.retention.ms": "-1"}
            with running_cluster([options.broker], directory / "c", zookeeper.connect, settings) as cluster:
                spark = session(options.master, directory)
                queries = Queries(spark, cluster, directory)
                meter = Meter(spark, cluster, 1 if options.quick else 3)
                for case in cases:
                    results += run_case(queries, meter, *case)
                results += small_and_sink(queries, meter, 200_000 if options.quick else 2_000_000)
                spark.stop()
        finally:
            zookeeper.stop()
    if options.json:
        print(json.dumps({"master": options.master, "results": [asdict(each) for each in results]}))
    else:
        show(results)


if __name__ == "__main__":
    main()
