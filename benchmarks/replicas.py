"""Three brokers: what replicas, acks and partitions cost, and LinkedIn's table of 2014 in its shape.

    python -m benchmarks.replicas [--quick] [--json] [--kinds odradek,kafka] [--rounds N] [--only TEXT]

The first rows produce records of 1 KB (values half random bytes), one thing at a time different. The others are those
of "Benchmarking Apache Kafka: 2 million writes per second (on three cheap machines)": records of 100 bytes, a topic of
six partitions that the records go to by turns, replicas on three brokers; `async` is acks=1, `sync` is acks=all.
There each broker and client had a machine, here all share one, so the figures of 2014 stand beside as what was measured
then and no more. Three producers and three consumers are a process each, from the first one's beginning to the last
one's end. CPU is that of all three brokers, until the followers have everything.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.client_load import value_of
from benchmarks.clusters import running_comparable
from benchmarks.data_path import WAIT_S, send_all
from benchmarks.rounds import Found, Workloads, log, parser_of, report, run_rounds
from benchmarks.scaling import Kind, Meter
from benchmarks.targets import BROKER_SETTINGS, start_zookeeper
from tests.support.cluster import Cluster

BROKERS = 3
SETTINGS = {key: BROKER_SETTINGS[key] for key in ("log.segment.bytes", "log.segment.delete.delay.ms")}
SMALL, LARGE = 100, 1000
CLIENTS = 3
LINKEDIN_PARTITIONS = 6
FIRST_S = 30.0
"""For the first record."""
QUIET_S = 5.0
"""Seconds without a record after which a reader gives up, once it has begun."""


@dataclass(frozen=True)
class Shape:
    """A topic and how it is written to."""

    partitions: int
    replicas: int
    acks: str


@dataclass(frozen=True)
class Scale:
    """Rounds, megabytes of 1 KB records, and records of 100 bytes."""

    rounds: int
    megabytes: int
    small_records: int


FULL = Scale(3, 200, 1_000_000)
QUICK = Scale(1, 10, 20_000)

BY_SHAPE = {
    "1 KB, 1 replica, acks=1, 1 partition": Shape(1, 1, "1"),
    "1 KB, 3 replicas, acks=1, 1 partition": Shape(1, 3, "1"),
    "1 KB, 3 replicas, acks=all, 1 partition": Shape(1, 3, "all"),
    "1 KB, 1 replica, acks=1, 100 partitions": Shape(100, 1, "1"),
    "1 KB, 3 replicas, acks=all, 100 partitions": Shape(100, 3, "all"),
}
LINKEDIN = {
    "single producer, no replication": (Shape(LINKEDIN_PARTITIONS, 1, "1"), 1),
    "single producer, 3x async": (Shape(LINKEDIN_PARTITIONS, 3, "1"), 1),
    "single producer, 3x sync": (Shape(LINKEDIN_PARTITIONS, 3, "all"), 1),
    "three producers, 3x async": (Shape(LINKEDIN_PARTITIONS, 3, "1"), CLIENTS),
}
CONSUMERS = {"single consumer": 1, "three consumers": CLIENTS}
FOR_CONSUMERS = "records to consume"


def send(bootstrap: str, topic: str, value: bytes, count: int, shape: Shape) -> tuple[float, float]:
    """To all partitions by turns; when it began and ended. Raises RuntimeError when a record is not delivered."""
    sender = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": shape.acks,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 262_144,
            "delivery.report.only.error": True,
        }
    )
    send_all([sender], topic, value, 1)
    began = time.monotonic()
    send_all([sender], topic, value, count, shape.partitions)
    return began, time.monotonic()


def read(bootstrap: str, topic: str, partitions: Sequence[int], count: int) -> tuple[float, float]:
    """When it began and ended. Raises RuntimeError when fewer than `count` records come."""
    settings = {"group.id": "replicas", "enable.auto.commit": False, "queued.min.messages": 1_000_000}
    reader = Consumer({"bootstrap.servers": bootstrap, "fetch.queue.backoff.ms": 1, **settings})
    try:
        reader.assign([TopicPartition(topic, number, 0) for number in partitions])
        got = len(reader.consume(1, FIRST_S))
        began = heard = time.monotonic()
        while got < count:
            new = len(reader.consume(10_000, 0.1))
            now = time.monotonic()
            heard = now if new else heard
            got += new
            if now - heard > QUIET_S or now - began > WAIT_S:
                raise RuntimeError(f"only {got} of {count} records came")
        return began, time.monotonic()
    finally:
        reader.close()


def replicated(bootstrap: str, topic: str, partitions: int, count: int) -> list[int]:
    """Waits until consumers may read so many records, which all in-sync replicas have then; how many of each partition.

    Raises RuntimeError when that takes too long.
    """
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    try:
        deadline = time.monotonic() + WAIT_S
        while True:
            found = [reader.get_watermark_offsets(TopicPartition(topic, number), 10) for number in range(partitions)]
            held = [each[1] if each is not None else 0 for each in found]
            if sum(held) >= count:
                return held
            if time.monotonic() > deadline:
                raise RuntimeError(f"the followers have {sum(held)} of {count} records")
            time.sleep(0.05)
    finally:
        reader.close()


class Replicas:
    """The workloads of one cluster; `clients` are processes that have imported all this."""

    def __init__(self, cluster: Cluster, scale: Scale, clients: ProcessPoolExecutor) -> None:
        self._cluster = cluster
        self._scale = scale
        self._clients = clients
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def workloads(self, number: int) -> Workloads:
        small = self._scale.small_records
        found: dict[str, Callable[[], Found]] = {}
        for place, (name, shape) in enumerate(BY_SHAPE.items()):
            work = partial(self._write, f"shape-{number}-{place}", shape, 1, LARGE, self._scale.megabytes * 1000)
            found[name] = work
        for place, (name, (shape, producers)) in enumerate(LINKEDIN.items()):
            found[name] = partial(self._write, f"linkedin-{number}-{place}", shape, producers, SMALL, small)
        for name, consumers in CONSUMERS.items():
            found[name] = partial(self._read, f"{name}-{number}".replace(" ", "-"), consumers, small)
        return found

    def _create(self, topic: str, shape: Shape) -> None:
        where = [[(number + place) % BROKERS for place in range(shape.replicas)] for number in range(shape.partitions)]
        made = NewTopic(topic, shape.partitions, replica_assignment=where, config={"min.insync.replicas": "1"})
        self._admin.create_topics([made])[topic].result(60)
        self._cluster.wait_topic(topic, shape.partitions)

    def _delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(60)

    def _together(self, count: int, calls: Sequence[Callable[[], tuple[float, float]]]) -> float:
        """Records a second of all calls, in processes of their own if there are several."""
        if len(calls) == 1:
            spans = [calls[0]()]
        else:
            spans = [each.result(2 * WAIT_S) for each in [self._clients.submit(call) for call in calls]]
        return count / (max(end for _, end in spans) - min(begin for begin, _ in spans))

    def _write(self, topic: str, shape: Shape, producers: int, size: int, count: int) -> Found:
        self._create(topic, shape)
        try:
            each = count // producers
            one = partial(send, self._cluster.bootstrap, topic, value_of(size), each, shape)
            meter = Meter(self._cluster)
            rate = self._together(each * producers, [one] * producers)
            replicated(self._cluster.bootstrap, topic, shape.partitions, (each + 1) * producers)
            cpu = meter.stop(each * producers * size).cpu
        finally:
            self._delete(topic)
        return _found(rate, size, cpu)

    def _read(self, topic: str, consumers: int, count: int) -> Found:
        shape = Shape(LINKEDIN_PARTITIONS, 3, "1")
        self._create(topic, shape)
        try:
            send(self._cluster.bootstrap, topic, value_of(SMALL), count, shape)
            held = replicated(self._cluster.bootstrap, topic, shape.partitions, count + 1)
            shares = [range(shape.partitions)[first::consumers] for first in range(consumers)]
            calls = [
                partial(read, self._cluster.bootstrap, topic, share, sum(held[number] for number in share))
                for share in shares
            ]
            meter = Meter(self._cluster)
            rate = self._together(sum(held), calls)
            cpu = meter.stop(sum(held) * SMALL).cpu
        finally:
            self._delete(topic)
        return _found(rate, SMALL, cpu)


def _found(rate: float, size: int, cpu: float) -> Found:
    return {**({"records/s": rate} if size == SMALL else {"MB/s": rate * size / 1e6}), "CPU s/GB": cpu}


def main() -> None:
    """Run it from the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--kinds", help="of odradek, kafka (both)")
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    kinds = (options.kinds or ("odradek" if options.quick else "odradek,kafka")).split(",")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="replicas-")))
        server = start_zookeeper(directory)
        stack.callback(server.stop)
        clients = stack.enter_context(ProcessPoolExecutor(CLIENTS, multiprocessing.get_context("spawn")))
        list(clients.map(time.sleep, [0.5] * CLIENTS))  # all of them have started
        made = {}
        for kind in kinds:
            log(f"starting {BROKERS} brokers of {kind}")
            cluster = running_comparable(
                [cast(Kind, kind)] * BROKERS, directory / kind, f"{server.connect}/{kind}", SETTINGS
            )
            made[kind] = Replicas(stack.enter_context(cluster), scale, clients).workloads
        outcome = run_rounds(made, options.rounds or scale.rounds, options.only)
        report(outcome, options.json)


if __name__ == "__main__":
    main()
