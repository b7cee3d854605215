"""Produce and consume throughput of a broker with a real client, against Apache Kafka and a bare socket sink.

    python -m benchmarks.data_path [--quick] [--json] [--targets sink,odradek,kafka] [--rounds N] [--data-dir DIR]
                                  [--only TEXT]

The client is confluent-kafka (librdkafka) in this process; every target is a process of its own on the same machine, so
rates compare with each other and not with other machines. Targets take turns within each round, after a warm-up of
30 s each (Apache Kafka doubles in that time). A figure is the median of the rounds; beside every rate stand the CPU
seconds that the server used for a GB (or, for one-record requests, the microseconds for a request). `ratio` is the rate
over the sink's: the sink only reads and answers, so it is what this client and machine could reach at best.

Workloads: produce and consume 1000-byte and 100-byte records with default batching (acks=1), and one record a request
with one and with four connections.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from benchmarks.rounds import Spread, log, told
from benchmarks.targets import KafkaTarget, OdradekTarget, SinkTarget, Target, cpu_seconds, resident_mb, start_zookeeper
from tests.reference.kafka import ReferenceUnavailableError, libraries

NAMES = ("sink", "odradek", "kafka")
GB = 1e9
IDLE_WAIT_S = 3.0
WAIT_S = 120.0


@dataclass(frozen=True)
class Scale:
    """How much is done: seconds of warm-up a target, rounds, and bytes and requests of one measurement."""

    warm_up_s: float
    rounds: int
    batch_bytes: int
    requests: int


FULL = Scale(warm_up_s=30, rounds=5, batch_bytes=1_000_000_000, requests=60_000)
QUICK = Scale(warm_up_s=1, rounds=1, batch_bytes=100_000_000, requests=8_000)


@dataclass
class Sample:
    """One measurement: a rate in MB/s or requests/s, and CPU seconds a GB or microseconds a request."""

    rate: float
    cpu: float


@dataclass
class Outcome:
    """What was measured of one target."""

    start_s: float = 0.0
    idle_mb: float = 0.0
    busy_mb: float = 0.0
    samples: dict[str, list[Sample]] = field(default_factory=dict)


def producer(address: str, **settings: Any) -> Producer:
    return Producer(
        {
            "bootstrap.servers": address,
            "acks": 1,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 262_144,
            **settings,
        }
    )


class Failures:
    """Counts deliveries that failed: a rate of lost records is no rate."""

    def __init__(self) -> None:
        self.count = 0
        self.last: object = None

    def __call__(self, error: object, message: object) -> None:
        if error is not None:
            self.count += 1
            self.last = error


def send_all(producers: Sequence[Producer], topic: str, value: bytes, count: int, partitions: int = 1) -> None:
    """Produce `count` records by turns and wait for all of them. Raises RuntimeError when one fails."""
    failures = Failures()
    for number in range(count):
        each = producers[number % len(producers)]
        while True:
            try:
                each.produce(topic, value, partition=number % partitions, on_delivery=failures)
                break
            except BufferError:
                each.poll(0.01)
        if number % 1000 == 0:
            for one in producers:
                one.poll(0)
    for each in producers:
        if each.flush(WAIT_S):
            raise RuntimeError("records were not delivered in time")
    if failures.count:
        raise RuntimeError(f"{failures.count} of {count} records failed: {failures.last}")


def produce_batches(target: Target, topic: str, size: int, count: int, linger_ms: int = 5) -> float:
    """Seconds that it took."""
    sender = producer(target.address, **{"linger.ms": linger_ms})
    send_all([sender], topic, b"w" * size, 1)  # connected, metadata known
    began = time.perf_counter()
    send_all([sender], topic, bytes(size), count)
    return time.perf_counter() - began


def produce_singly(target: Target, topic: str, size: int, count: int, connections: int) -> float:
    """One record a request."""
    settings = {"batch.num.messages": 1, "linger.ms": 0}
    senders = [producer(target.address, **settings) for _ in range(connections)]
    for sender in senders:
        send_all([sender], topic, b"w" * size, 1)
    began = time.perf_counter()
    send_all(senders, topic, bytes(size), count)
    return time.perf_counter() - began


def consume(target: Target, topic: str, size: int, count: int) -> float:
    """Read `count` records from the beginning."""
    reader = Consumer(
        {
            "bootstrap.servers": target.address,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            # Fetch ahead without the pause of up to a second that the client makes when its queue is full.
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 65536,
            "fetch.queue.backoff.ms": 1,
        }
    )
    try:
        reader.assign([TopicPartition(topic, 0, 0)])
        deadline = time.perf_counter() + WAIT_S
        got = len(reader.consume(1, 30))
        began = time.perf_counter()
        while got < count:
            got += len(reader.consume(10_000, 1.0))
            if time.perf_counter() > deadline:
                raise RuntimeError(f"only {got} of {count} records came")
        return time.perf_counter() - began
    finally:
        reader.close()


class Bench:
    """Runs the workloads over the targets."""

    def __init__(self, targets: Sequence[Target], scale: Scale, log: Callable[[str], None], only: str = "") -> None:
        self.targets = targets
        self.scale = scale
        self.only = only
        self.log = log
        self.outcomes = {target.name: Outcome() for target in targets}
        self.failures: dict[str, str] = {}
        self._topics = 0

    def run(self) -> None:
        for target in self.targets:
            target.start()
            outcome = self.outcomes[target.name]
            outcome.start_s = target.start_s
        time.sleep(IDLE_WAIT_S)
        for target in self.targets:
            self.outcomes[target.name].idle_mb = resident_mb(target.pid)
        for target in self.targets:
            self.log(f"warming {target.name} up")
            until = time.monotonic() + self.scale.warm_up_s
            while time.monotonic() < until:
                self.round(target, 0.1, keep=False)
        for number in range(self.scale.rounds):
            for target in self.targets:
                self.log(f"round {number + 1} of {self.scale.rounds}: {target.name}")
                self.round(target, 1.0, keep=True)
        for target in self.targets:
            self.outcomes[target.name].busy_mb = resident_mb(target.pid)

    def round(self, target: Target, share: float, *, keep: bool) -> None:
        """All workloads once."""
        for size in (1000, 100):
            if self.only not in f"produce {size} B, consume {size} B":
                continue
            # Small records cost the client far more a byte; a fifth of the bytes takes about as long.
            count = int(self.scale.batch_bytes * share * (1 if size == 1000 else 0.2)) // size
            topic = self.topic(target, size)
            work = partial(produce_batches, target, topic, size, count)
            self.measure(target, f"produce {size} B", count * size, keep, work)
            work = partial(consume, target, topic, size, count)
            self.measure(target, f"consume {size} B", count * size, keep, work)
            target.delete_topic(topic)
        for connections in (1, 4):
            name = f"one record a request, {connections} conn."
            if self.only not in name:
                continue
            count = int(self.scale.requests * share)
            topic = self.topic(target, 100)
            work = partial(produce_singly, target, topic, 100, count, connections)
            self.measure(target, name, count, keep, work, by_request=True)
            target.delete_topic(topic)

    def topic(self, target: Target, size: int) -> str:
        self._topics += 1
        name = f"bench{self._topics}-{size}"
        target.create_topic(name)
        return name

    def measure(
        self,
        target: Target,
        workload: str,
        amount: int,
        keep: bool,
        work: Callable[[], float],
        *,
        by_request: bool = False,
    ) -> None:
        what = f"{target.name}: {workload}"
        if what in self.failures:
            return
        before = cpu_seconds(target.pid)
        try:
            seconds = work()
        except Exception as error:  # it is named, and the rest goes on
            self.failures[what] = told(error)
            self.log(f"{what} failed: {told(error)}")
            return
        cpu = cpu_seconds(target.pid) - before
        if keep:
            rate = amount / seconds / (1 if by_request else 1e6)
            cost = cpu / amount * (1e6 if by_request else GB)
            self.outcomes[target.name].samples.setdefault(workload, []).append(Sample(rate, cost))


def summary(outcomes: dict[str, Outcome]) -> dict[str, Any]:
    """Medians, ready for JSON."""
    workloads = list(dict.fromkeys(name for outcome in outcomes.values() for name in outcome.samples))
    result: dict[str, Any] = {"targets": {}, "workloads": {}}
    for name, outcome in outcomes.items():
        result["targets"][name] = {
            "start_s": round(outcome.start_s, 3),
            "idle_mb": round(outcome.idle_mb, 1),
            "busy_mb": round(outcome.busy_mb, 1),
        }
    for workload in workloads:
        single = workload.startswith("one record")
        row: dict[str, Any] = {"unit": "requests/s" if single else "MB/s"}
        row["cpu_unit"] = "us/request" if single else "s/GB"
        for name, outcome in outcomes.items():
            if samples := outcome.samples.get(workload):
                rate = Spread.of([each.rate for each in samples])
                row[name] = {
                    "rate": round(rate.median, 1),
                    "least": round(rate.least, 1),
                    "greatest": round(rate.greatest, 1),
                    "cpu": round(statistics.median(each.cpu for each in samples), 2),
                }
        for name in row.keys() & outcomes.keys():
            if "sink" in row:
                row[name]["ratio"] = round(row[name]["rate"] / row["sink"]["rate"], 2)
        result["workloads"][workload] = row
    return result


def show(result: dict[str, Any]) -> None:
    """Two tables."""
    names = list(result["targets"])
    console = Console(width=120)
    rates = Table(title="Rate (CPU of the server), ratio to the sink")
    rates.add_column("workload")
    rates.add_column("unit")
    for name in names:
        rates.add_column(name, justify="right")
    for workload, row in result["workloads"].items():
        cells = []
        for name in names:
            if (cell := row.get(name)) is None:
                cells.append("failed")
                continue
            ratio = f"  {cell['ratio']:.2f}" if "ratio" in cell and name != "sink" else ""
            cells.append(f"{cell['rate']:,.0f} ({cell['cpu']:.2f}){ratio}")
        rates.add_row(workload, f"{row['unit']} ({row['cpu_unit']})", *cells)
    console.print(rates)
    sizes = Table(title="Process")
    sizes.add_column("")
    for name in names:
        sizes.add_column(name, justify="right")
    for key, label in (("start_s", "start to serving, s"), ("idle_mb", "idle, MB"), ("busy_mb", "after the runs, MB")):
        sizes.add_row(label, *(str(result["targets"][name][key]) for name in names))
    console.print(sizes)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.data_path", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one short round, under a minute")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--targets", default=",".join(NAMES), help="comma-separated, of " + ", ".join(NAMES))
    parser.add_argument("--rounds", type=int, help="override the number of rounds")
    parser.add_argument("--warm-up", type=float, help="override the seconds of warm-up of each target")
    parser.add_argument("--share", type=float, default=1, help="of the bytes and requests of a measurement (1)")
    parser.add_argument("--data-dir", type=Path, help="where brokers keep their data (default: a temporary folder)")
    parser.add_argument("--only", default="", help="only workloads whose name contains this text")
    options = parser.parse_args(arguments)
    names = options.targets.split(",")
    unknown = set(names) - set(NAMES)
    if unknown:
        parser.error(f"unknown targets: {', '.join(sorted(unknown))}")
    scale = QUICK if options.quick else FULL
    scale = Scale(
        scale.warm_up_s if options.warm_up is None else options.warm_up,
        options.rounds or scale.rounds,
        int(scale.batch_bytes * options.share),
        int(scale.requests * options.share),
    )
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.data_dir, prefix="data-path-")))
        targets = make_targets(names, directory, stack, log)
        bench = Bench(targets, scale, log, options.only)
        bench.run()
    result = summary(bench.outcomes)
    if options.json:
        print(json.dumps({**result, "failures": bench.failures}), flush=True)
        return
    show(result)
    if bench.failures:
        sys.exit("\n".join(f"{name} failed: {text}" for name, text in bench.failures.items()))


def make_targets(
    names: Sequence[str],
    directory: Path,
    stack: ExitStack,
    log: Callable[[str], None],
    settings: Mapping[str, str] | None = None,
) -> list[Target]:
    """The targets, not started; `stack` stops them. A Kafka that cannot be had is left out."""
    targets: list[Target] = []
    zookeeper = ""
    if set(names) - {"sink"}:
        server = start_zookeeper(directory)
        stack.callback(server.stop)
        zookeeper = server.connect
    for name in names:
        target: Target
        if name == "sink":
            target = SinkTarget()
        elif name == "odradek":
            target = OdradekTarget(directory, zookeeper, settings)
        else:
            try:
                target = KafkaTarget(directory, zookeeper, libraries(), settings)
            except ReferenceUnavailableError as error:
                log(f"without Apache Kafka: {error}")
                continue
        stack.callback(target.stop)
        targets.append(target)
    return targets


@contextmanager
def running_targets(names: str, settings: Mapping[str, str] | None = None) -> Iterator[list[Target]]:
    """Those of a comma-separated list, started, with their data in a temporary folder."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        targets = make_targets(names.split(","), directory, stack, log, settings)
        for target in targets:
            target.start()
        yield targets


if __name__ == "__main__":
    main()
