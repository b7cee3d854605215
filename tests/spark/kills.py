"""Kills Python workers, executors, the driver's Python and drivers of a query that copies a topic effectively once, and
counts what a reader of committed records finds.

python -m tests.spark.kills --rounds 200 [--broker kafka] [--spark local] [--seed 1]

Each round waits until the query has committed a batch since the last kill, then (every second one) until the next is
being written, lets a random moment pass, and kills one process with SIGKILL. A few rounds are run by
``tests/spark/test_effectively_once.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from tests.spark.standalone import SMALL_JVM, Standalone, standalone
from tests.spark.topics import make_topic
from tests.support.cluster import CLOCK, ROOT, Cluster, Kind, python_environment, running_cluster
from tests.support.until_end import until_end
from tests.support.zookeeper_servers import zookeeper_server

PARTITIONS = 3
ROUND_RECORDS = 3_000
PATIENCE_MS = 180_000

# A query that fails is started again by its driver; a driver that is killed, by us. The shuffle gives tasks that hold
# rows of every partition, and the slow step lets a task last longer than a moment.
DRIVER = """
import sys, time
from pyspark.sql import SparkSession

bootstrap, source, target, checkpoint = sys.argv[1:]
spark = (
    SparkSession.builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.sql.shuffle.partitions", "3")
    .config("spark.sql.execution.arrow.maxRecordsPerBatch", "10").getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")

def slowly(batches):
    for batch in batches:
        time.sleep(0.003)
        yield batch

server = {"kafka.bootstrap.servers": bootstrap}
frame = (
    spark.readStream.format("odradek").options(**server, subscribe=source, startingOffsets="earliest")
    .option("maxOffsetsPerTrigger", "3000").load().select("key", "value").repartition("value")
)
writer = frame.mapInArrow(slowly, frame.schema).writeStream.format("odradek").options(**server, topic=target)
writer = writer.option("odradek.delivery", "effectively-once").option("checkpointLocation", checkpoint)
while True:
    try:
        writer.start().awaitTermination()
    except Exception as error:
        print("FAILED", str(error).replace("\\n", " ")[:2000], flush=True)
"""

# Of what is killed, the command line has this; forks of Spark's Python daemons have it too.
WORKER = "pyspark.daemon pyspark.worker"
COMMITTER = "pyspark.sql.worker.python_streaming_sink_runner"
EXECUTOR = "CoarseGrainedExecutorBackend"
LOCAL = ("worker", "worker", "committer", "driver")
CLUSTER = ("worker", "executor", "worker", "committer", "worker", "executor", "committer", "driver")


@dataclass
class Result:
    """What was killed, and what two readers found."""

    killed: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    written: int = 0
    lost: int = 0
    doubled: int = 0
    uncommitted: int = 0
    failures: list[str] = field(default_factory=list)


class Copy:
    """The query's driver, which is started again whenever it was killed."""

    def __init__(self, cluster: Cluster, directory: Path, spark: Standalone | None) -> None:
        self._cluster = cluster
        self._directory = directory
        self._spark = spark
        self.source = make_topic(cluster, PARTITIONS, replicas=3)
        self.target = make_topic(cluster, PARTITIONS, replicas=3)
        self.job = directory / "driver.py"
        self.job.write_text(DRIVER)
        self.log = directory / "driver.log"
        self._watching = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": "watches", "isolation.level": "read_uncommitted"}
        )
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        arguments = [self._cluster.bootstrap, self.source, self.target, str(self._directory / "checkpoint")]
        environment = {**os.environ, **python_environment(), "PYSPARK_PYTHON": sys.executable}
        if self._spark is None:
            options = f"--master local[2,4] --driver-java-options '{SMALL_JVM}' pyspark-shell"
            command = [sys.executable, str(self.job), *arguments]
            environment["PYSPARK_SUBMIT_ARGS"] = options
        else:
            command = self._spark.command(
                self.job, *arguments, options=("--conf", f"spark.executorEnv.PYTHONPATH={ROOT}")
            )
            environment = {**os.environ, **self._spark.environment(PYTHONPATH=str(ROOT))}
        with self.log.open("ab") as out:
            return subprocess.Popen(
                command, cwd=self._directory, env=environment, stdout=out, stderr=out, start_new_session=True
            )

    def restart(self) -> None:
        """Kill the driver with all that is in its process group, and start it again."""
        self.stop()
        self.process = self._start()

    def stop(self) -> None:
        """Kill it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def close(self) -> None:
        """When nothing is watched any more."""
        self._watching.close()

    def committed(self) -> int:
        """The newest batch that Spark has committed, -1 before the first."""
        commits = self._directory / "checkpoint" / "commits"
        return max((int(each.name) for each in commits.glob("[0-9]*") if each.name.isdigit()), default=-1)

    def wait_batch(self, after: int) -> None:
        """Until a batch after this one is committed."""

        def done() -> bool:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            return self.committed() > after

        assert wait_until(done, CLOCK, PATIENCE_MS, 10), self.log.read_text()[-3000:]

    def wait_written(self, longer_s: float) -> None:
        """Until the next batch is being written, and a little longer."""
        before = self._ends()
        assert wait_until(lambda: self._ends() > before, CLOCK, PATIENCE_MS, 10), self.log.read_text()[-3000:]
        time.sleep(longer_s)

    def _ends(self) -> int:
        partitions = [TopicPartition(self.target, p) for p in range(PARTITIONS)]
        return sum(self._watching.get_watermark_offsets(each, timeout=60)[1] for each in partitions)

    def kill(self, what: str, chance: random.Random) -> bool:
        """Kill one process of this kind; False when there is none at the moment."""
        if what == "driver":
            self.restart()
            return True
        sign = {"worker": WORKER, "committer": COMMITTER, "executor": EXECUTOR}[what]
        roots = [self.process.pid]
        roots += [each.pid for each in self._spark.processes] if self._spark is not None else []
        found = [pid for pid, line in descendants(roots) if sign in line]
        if not found:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(found), signal.SIGKILL)
        return True


def descendants(roots: list[int]) -> Iterator[tuple[int, str]]:
    """Processes below these, with their command lines."""
    parents: dict[int, int] = {}
    lines: dict[int, str] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            lines[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    for pid, line in lines.items():
        above: int | None = parents.get(pid)
        while above is not None and above not in roots:
            above = parents.get(above)
        if above is not None:
            yield pid, line


def feed(producer: Producer, topic: str, first: int) -> None:
    """The records of a round."""
    for n in range(first, first + ROUND_RECORDS):
        producer.produce(topic, b"%d" % n, partition=n % PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0


def read_all(cluster: Cluster, topic: str, isolation: str) -> list[int]:
    """Every value that a reader finds."""
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": "reads", "enable.partition.eof": True}
    consumer = Consumer({**config, "isolation.level": isolation})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    try:
        return [int(message.value() or b"-1") for message in until_end(consumer, PARTITIONS)]
    finally:
        consumer.close()


def run(
    cluster: Cluster,
    directory: Path,
    rounds: int,
    *,
    spark: Standalone | None = None,
    seed: int = 0,
    tell: bool = False,
) -> Result:
    """Kill so often, then let the query come to the end, and count."""
    chance = random.Random(seed)
    result = Result()
    copy = Copy(cluster, directory, spark)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 20})
    victims = LOCAL if spark is None else CLUSTER
    started = time.monotonic()
    try:
        for number in range(rounds):
            before = copy.committed()
            feed(producer, copy.source, number * ROUND_RECORDS)
            copy.wait_batch(before)
            # The rows of the next batch; the kill falls somewhere in it.
            feed(producer, copy.source, (rounds + number) * ROUND_RECORDS)
            if number % 2:
                copy.wait_written(chance.random() * 0.3)
            else:
                time.sleep(chance.random() * 1.5)
            what = victims[number % len(victims)]
            if not copy.kill(what, chance):
                copy.kill("driver", chance)
                what = "driver"
            result.killed[what] += 1
            if tell and number % 10 == 9:
                print(f"{number + 1} kills in {time.monotonic() - started:.0f} s: {dict(result.killed)}", flush=True)
        records = 2 * rounds * ROUND_RECORDS
        found: list[int] = []

        def complete() -> bool:
            found[:] = read_all(cluster, copy.target, "read_committed")
            return len(found) >= records

        assert wait_until(complete, CLOCK, 2 * PATIENCE_MS, 1000), (len(found), copy.log.read_text()[-3000:])
        # Nothing that is under way may add to it.
        copy.wait_batch(copy.committed() - 1)
        result.batches = copy.committed() + 1
    finally:
        copy.stop()
        copy.close()
    found = read_all(cluster, copy.target, "read_committed")
    result.written = len(found)
    result.doubled = len(found) - len(set(found))
    result.lost = len(set(range(records)) - set(found))
    result.uncommitted = len(read_all(cluster, copy.target, "read_uncommitted")) - len(found)
    result.failures = [line for line in copy.log.read_text().splitlines() if line.startswith("FAILED")]
    return result


def main() -> None:
    """Run and print what was found; exit code 1 when a record was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100, help="kills (100)")
    parser.add_argument("--broker", choices=["odradek", "kafka"], default="odradek")
    parser.add_argument(
        "--spark", choices=["standalone", "local"], default="standalone", help="with executors or without"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started ends too
    kind: Kind = options.broker
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        zookeeper = zookeeper_server("embedded", directory / "zookeeper", free_ports(1)[0])
        stack.callback(zookeeper.stop)
        zookeeper.wait_until_ready(CLOCK)
        cluster = stack.enter_context(running_cluster([kind] * 3, directory / "c", f"{zookeeper.connect}/kills"))
        spark = stack.enter_context(standalone(directory / "s")) if options.spark == "standalone" else None
        result = run(cluster, directory, options.rounds, spark=spark, seed=options.seed, tell=True)
    print(f"killed {dict(result.killed)}; {result.batches} batches, {result.written} records read committed")
    print(f"lost {result.lost}, doubled {result.doubled}; {result.uncommitted} records were written and aborted")
    reasons = Counter(line.rpartition("Exception: ")[2][:120] for line in result.failures)
    for reason, count in reasons.most_common(10):
        print(f"the query was started again {count} times after: {reason}")
    sys.exit(1 if result.lost or result.doubled else 0)


if __name__ == "__main__":
    main()
