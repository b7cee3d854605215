"""How throughput grows with the brokers of one machine, each an interpreter of its own.

    python -m benchmarks.scaling [--quick] [--json] [--kinds odradek,kafka] [--brokers 1,2,4] [--rounds N]

One topic without replicas whose partitions lie evenly on all brokers; one client process produces records of 1 KB to
all partitions (acks=1) and reads them again; then a hundred connections, spread over the brokers, send one record a
request with one under way, by a client that costs little, so that it is the brokers that have no more. Clusters take
turns within a round; one round more warms up. Beside the rate stand the CPU seconds of all brokers for a GB, or the
microseconds for a request, which a loaded machine changes less, and how many cores they used while it lasted: what is
above 1 for one broker was done outside the interpreter's lock.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, cast

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.clusters import running_comparable
from benchmarks.data_path import WAIT_S, producer, send_all
from benchmarks.hammer import PRODUCE_ERROR_AT, exchange_with, produce_frame
from benchmarks.rounds import log
from benchmarks.targets import cpu_seconds, start_zookeeper
from tests.support.cluster import Cluster

Kind = Literal["odradek", "kafka"]
TOPIC = "scaling"
PARTITIONS = 4
SIZE = 1000
CONNECTIONS = 100
WORKS = {"produce": ("MB/s", "CPU s/GB"), "consume": ("MB/s", "CPU s/GB"), "requests": ("per s", "CPU us each")}
"""What is measured, with the units of its rate and of its CPU."""


@dataclass(frozen=True)
class Sample:
    """One of `WORKS`: rate and CPU of all brokers in its units, and cores that they used."""

    rate: float
    cpu: float
    cores: float


class Meter:
    """Measures what the brokers do from its making to `stop`."""

    def __init__(self, cluster: Cluster) -> None:
        self._pids = [broker.process.pid for broker in cluster.brokers if broker.process is not None]
        self._cpu = self._used()
        self._began = time.perf_counter()

    def _used(self) -> float:
        return sum(cpu_seconds(pid) for pid in self._pids)

    def stop(self, amount: int) -> Sample:
        """After so many bytes: MB/s, and s/GB."""
        return self._sample(amount, 1e6, 1e9)

    def stop_after_requests(self, count: int) -> Sample:
        """After so many requests: requests/s, and us each."""
        return self._sample(count, 1, 1e6)

    def _sample(self, amount: int, of_rate: float, of_cpu: float) -> Sample:
        took = time.perf_counter() - self._began
        used = self._used() - self._cpu
        return Sample(amount / took / of_rate, used / amount * of_cpu, used / took)


def consume(bootstrap: str, count: int) -> None:
    """Raises RuntimeError when they do not come."""
    settings = {"group.id": "scaling", "enable.auto.commit": False, "queued.min.messages": 1_000_000}
    reader = Consumer({"bootstrap.servers": bootstrap, "fetch.queue.backoff.ms": 1, **settings})
    try:
        reader.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
        deadline, got = time.monotonic() + WAIT_S, 0
        while got < count:
            got += len(reader.consume(10_000, 1.0))
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {got} of {count} records came")
    finally:
        reader.close()


def prepare(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    brokers = len(cluster.brokers)
    where = [[number % brokers] for number in range(PARTITIONS)]
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, replica_assignment=where)])[TOPIC].result(60)
    cluster.wait_topic(TOPIC, PARTITIONS)
    send_all([producer(cluster.bootstrap)], TOPIC, bytes(SIZE), 20_000, PARTITIONS)
    consume(cluster.bootstrap, 20_000)


def exchange_requests(cluster: Cluster, seconds: float) -> int:
    """How many were answered by the brokers that lead the partitions, a connection's always by the same."""
    brokers = len(cluster.brokers)
    partitions = [number % PARTITIONS for number in range(CONNECTIONS)]
    frames = [(cluster.brokers[each % brokers].address, produce_frame(TOPIC, partition=each)) for each in partitions]
    return exchange_with(frames, PRODUCE_ERROR_AT, seconds).count


def measure(cluster: Cluster, megabytes: int, seconds: float) -> dict[str, Sample]:
    count = megabytes * 1000
    sender = producer(cluster.bootstrap)
    meter = Meter(cluster)
    send_all([sender], TOPIC, bytes(SIZE), count, PARTITIONS)
    produced = meter.stop(count * SIZE)
    meter = Meter(cluster)
    consume(cluster.bootstrap, count)
    consumed = meter.stop(count * SIZE)
    meter = Meter(cluster)
    requests = meter.stop_after_requests(exchange_requests(cluster, seconds))
    return {"produce": produced, "consume": consumed, "requests": requests}


def run(
    kinds: list[Kind], brokers: list[int], rounds: int, megabytes: int, seconds: float
) -> dict[str, dict[str, Sample]]:
    """Medians by `KIND x BROKERS`."""
    found: dict[str, dict[str, list[Sample]]] = {}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scaling-")))
        server = start_zookeeper(directory)
        stack.callback(server.stop)
        clusters = {}
        for kind in kinds:
            for count in brokers:
                name = f"{kind} x {count}"
                where = name.replace(" ", "")
                made = running_comparable([kind] * count, directory / where, f"{server.connect}/{where}")
                log(f"starting {name}")
                clusters[name] = stack.enter_context(made)
                prepare(clusters[name])
        for number in range(rounds + 1):
            for name, cluster in clusters.items():
                log(f"round {number} of {rounds}: {name}" if number else f"warm-up: {name}")
                samples = measure(cluster, megabytes, seconds)
                for work, sample in samples.items() if number else ():
                    found.setdefault(name, {}).setdefault(work, []).append(sample)
    return {
        name: {
            work: Sample(*(statistics.median(getattr(one, key) for one in each) for key in ("rate", "cpu", "cores")))
            for work, each in works.items()
        }
        for name, works in found.items()
    }


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of little, of Odradek only")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--kinds", help="of odradek, kafka (both)")
    parser.add_argument("--brokers", default="1,2,4", help="numbers of brokers")
    parser.add_argument("--rounds", type=int, help="override the number of rounds (5)")
    options = parser.parse_args()
    kinds = (options.kinds or ("odradek" if options.quick else "odradek,kafka")).split(",")
    brokers = [int(each) for each in options.brokers.split(",")]
    rounds = options.rounds or (1 if options.quick else 5)
    megabytes, seconds = (20, 0.5) if options.quick else (200, 3.0)
    found = run(cast(list[Kind], kinds), brokers, rounds, megabytes, seconds)
    if options.json:
        print(json.dumps({name: {work: asdict(each) for work, each in works.items()} for name, works in found.items()}))
        return
    table = Table(title=f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
    table.add_column()
    for work, (rate, cpu) in WORKS.items():
        for column in (f"{work} {rate}", cpu, "cores"):
            table.add_column(column, justify="right")
    for name, works in found.items():
        table.add_row(name, *(f"{value:,.2f}" for work in WORKS for value in asdict(works[work]).values()))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
