"""The Spark source and sink beside Spark's own connector, in one run.

Measures wall and CPU seconds (driver's JVM, Python, broker), rows/s, MB/s and peak memory of: our source over the
network, from segments, Spark's connector as its batch default (V1) and as in streams (V2), a ready Arrow batch repeated
(the interface's own ceiling), AvailableNow streams, short queries and the sink. Queries take turns; ratios are to V2,
of streams to the connector's stream, in wall time and in CPU seconds of the client (JVM and Python together).

    python -m benchmarks.spark_source [--quick] [--json] [--broker odradek|kafka] [--master local[2]] [--only "1000 B"]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.targets import children
from broker.dev.processes import free_ports
from broker.dev.zookeeper import ZooKeeperServer
from tests.spark import connector
from tests.support.cluster import CLOCK, Cluster, python_environment, running_cluster

TICKS = os.sysconf("SC_CLK_TCK")
BATCHES = {
    "16KB": {"batch.size": 16_384},
    "10000": {"batch.size": 16_000_000, "batch.num.messages": 10_000, "message.max.bytes": 20_000_000},
}


@dataclass(frozen=True)
class Query:
    """What is measured; ``reference`` names the query that the ratio is taken to."""

    run: Callable[[], object]
    rows: int
    mb: float
    reference: str = ""


@dataclass
class Measured:
    """One query: seconds, and bytes of memory at the peak."""

    name: str
    reference: str
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

    def __init__(self, spark: Any, cluster: Cluster) -> None:
        self._jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
        process = cluster.brokers[0].process
        assert process is not None
        self._broker = process.pid

    def measure(self, queries: Mapping[str, Query], rounds: int) -> list[Measured]:
        """The queries in turns, ``rounds`` times, after one that is not measured; of each the fastest run."""
        for each in queries.values():
            each.run()
        best: dict[str, Measured] = {}
        for _ in range(rounds):
            for name, query in queries.items():
                found = self._once(name, query)
                if name not in best or found.wall < best[name].wall:
                    best[name] = found
        return list(best.values())

    def _once(self, name: str, query: Query) -> Measured:
        before = self._cpu()
        start = CLOCK.monotonic_ns()
        query.run()
        wall = (CLOCK.monotonic_ns() - start) / 1e9
        jvm, python, broker = (b - a for a, b in zip(before, self._cpu(), strict=True))
        workers = [peak_memory(pid) for pid in children(self._jvm)]
        memory = peak_memory(self._jvm), max(workers, default=0)
        return Measured(name, query.reference, wall, jvm, python, broker, query.rows, query.mb, *memory)

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
        from spark_jobs.tasks import spark_schema

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


def session(master: str, directory: Path, confs: Sequence[str] = ()) -> Any:
    """A session with both sources; ``confs`` are KEY=VALUE."""
    from pyspark.sql import SparkSession

    from spark_jobs.source import register

    os.environ.update(python_environment())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder
    for each in confs:
        key, _, value = each.partition("=")
        builder = builder.config(key, value)
    spark = (
        builder.master(master)
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


def reads(queries: Queries, case: Case) -> dict[str, Query]:
    """All reads of one topic."""
    topic = f"bench-{case.title}".replace(" ", "-")
    fill(queries.cluster.bootstrap, topic, case.rows, case.size, case.codec, case.batching)
    mb = case.rows * case.size / 1e6
    v1, v2, stream = (f"{case.title}: {name}" for name in ("connector V1", "connector V2", "stream connector"))
    plan = {
        v2: Query(queries.read("kafka", topic, v1=False), case.rows, mb),
        v1: Query(queries.read("kafka", topic), case.rows, mb, v2),
        f"{case.title}: odradek": Query(queries.read("odradek", topic), case.rows, mb, v2),
        f"{case.title}: segments": Query(queries.segments(topic), case.rows, mb, v2),
        stream: Query(queries.stream("kafka", topic), case.rows, mb),
        f"{case.title}: stream odradek": Query(queries.stream("odradek", topic), case.rows, mb, stream),
    }
    if case.ceiling:
        plan[f"{case.title}: ceiling"] = Query(queries.ceiling(case.rows, case.size), case.rows, mb, v2)
    return plan


def short_and_sink(queries: Queries, rows: int) -> dict[str, Query]:
    """Short queries and the sinks."""
    fill(queries.cluster.bootstrap, "bench-short", 100, 100, "none", "16KB")
    fill(queries.cluster.bootstrap, "bench-out", 1, 1, "none", "16KB")
    short, sink = "short: connector V2", "sink 100 B: connector"
    mb = rows * 100 / 1e6
    return {
        short: Query(queries.read("kafka", "bench-short", v1=False), 100, 0.01),
        "short: odradek": Query(queries.read("odradek", "bench-short", v1=False), 100, 0.01, short),
        sink: Query(queries.write("kafka", "bench-out", rows, 100), rows, mb),
        "sink 100 B: odradek": Query(queries.write("odradek", "bench-out", rows, 100), rows, mb, sink),
    }


@dataclass(frozen=True)
class Case:
    """A topic to read."""

    title: str
    rows: int
    size: int
    codec: str
    batching: str
    ceiling: bool = True


def show(results: list[Measured]) -> None:
    """A table; ratios to the connector of the same case, in wall time and in CPU of the client."""
    by_name = {each.name: each for each in results}
    print(
        f"{'query':<40}{'wall s':>8}{'rows/s':>12}{'MB/s':>8}{'x wall':>8}{'x cpu':>7}{'jvm cpu':>9}{'py cpu':>8}"
        f"{'broker':>8}{'jvm MB':>8}{'py MB':>7}"
    )
    for each in results:
        reference = by_name.get(each.reference, each)
        print(
            f"{each.name:<40}{each.wall:>8.2f}{each.rows / each.wall:>12,.0f}{each.mb / each.wall:>8.1f}"
            f"{reference.wall / each.wall:>8.2f}{reference.client_cpu / max(each.client_cpu, 0.01):>7.2f}"
            f"{each.jvm_cpu:>9.2f}{each.python_cpu:>8.2f}{each.broker_cpu:>8.2f}"
            f"{each.jvm_memory / 1e6:>8.0f}{each.python_memory / 1e6:>7.0f}"
        )


def cases_of(options: argparse.Namespace) -> list[Case]:
    """The topics to read: one small, or all of the matrix."""
    if options.quick:
        return [Case("100 B", 200_000, 100, "none", "16KB", ceiling=False)]
    return [
        Case(f"{size} B {codec} {batching}", round(rows * options.scale), size, codec, batching)
        for batching in BATCHES
        for codec in ("none", "lz4", "zstd")
        for rows, size in ((5_000_000, 100), (1_000_000, 1000))
        if options.only in f"{size} B {codec} {batching}"
    ]


def measure_all(options: argparse.Namespace, directory: Path, cluster: Cluster) -> tuple[list[Measured], list[str]]:
    """Results, and the cases that there was no time for."""
    deadline = CLOCK.monotonic_ms() + options.minutes * 60_000
    spark = session(options.master, directory, options.conf)
    try:
        queries = Queries(spark, cluster, directory)
        meter = Meter(spark, cluster)
        rounds = 1 if options.quick else options.rounds
        written = 100_000 if options.quick else round(2_000_000 * options.scale)
        results = [] if options.only else meter.measure(short_and_sink(queries, written), rounds)
        left_out = []
        for case in cases_of(options):
            if CLOCK.monotonic_ms() >= deadline:
                left_out.append(case.title)
                continue
            results += meter.measure(reads(queries, case), rounds)
            print(f"{case.title}: done", file=sys.stderr)
        return results, left_out
    finally:
        spark.stop()


def main() -> None:
    """Run the cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small case, under a minute")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--broker", choices=["odradek", "kafka"], default="odradek")
    parser.add_argument("--master", default="local[2]", help="local[2] or local[4]")
    parser.add_argument("--rounds", type=int, default=3, help="measured runs of each query, in turns (3)")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the full number of rows (1)")
    parser.add_argument("--only", default="", help="only topics whose title has this, as '100 B none 16KB'")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="of Spark; repeatable")
    parser.add_argument("--minutes", type=float, default=40, help="no case begins after so many (40)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the brokers end too
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        zookeeper = ZooKeeperServer(directory / "zookeeper", free_ports(1)[0])
        try:
            zookeeper.wait_until_ready(CLOCK)
            settings = {"message.max.bytes": "20000000", "log.retention.ms": "-1"}
            with running_cluster([options.broker], directory / "c", zookeeper.connect, settings) as cluster:
                load_before = os.getloadavg()[0]
                results, left_out = measure_all(options, directory, cluster)
                load = {"before": load_before, "after": os.getloadavg()[0]}
        finally:
            zookeeper.stop()
    if options.json:
        found = {"master": options.master, "load": load, "results": [asdict(each) for each in results]}
        print(json.dumps({**found, "left_out": left_out}))
        return
    show(results)
    print(f"load average {load['before']:.1f} before, {load['after']:.1f} after, on {os.cpu_count()} cores")
    if left_out:
        print(f"no time for: {', '.join(left_out)}")


if __name__ == "__main__":
    main()
