"""Throughput by size, codec, acks and partitions, latency at fixed rates, transactions, and reads that no cache has.

    python -m benchmarks.client_load [--quick] [--json] [--targets sink,odradek,kafka] [--rounds N] [--only TEXT]

Client, targets and turns are those of `benchmarks.data_path`. One thing at a time differs from records of 1 KB, without
a codec, to one partition, with acks=1. Values are half random bytes, half zeros, so codecs have work. Latency is from
handing a record over to its acknowledgement, of records that are due at even distances whether or not the last one has
been acknowledged. A transaction has ten records and is committed before the next begins. Reads from a cold cache come
after the system was told to forget the data files. The sink knows neither transactions nor files nor more than one
partition.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.data_path import GB, NAMES, WAIT_S, Failures, consume, producer, running_targets, send_all
from benchmarks.rounds import Found, Workloads, parser_of, percentiles, report, run_rounds
from benchmarks.targets import BrokerTarget, Target, cpu_seconds

RATES = (500, 5000)
PER_TRANSACTION = 10
SMALL_BYTES = 1000
"""Smaller records cost the client far more a byte: a fifth of the bytes takes about as long."""


@dataclass(frozen=True)
class Load:
    """What a producer sends."""

    size: int = 1000
    codec: str = "none"
    acks: str = "1"
    partitions: int = 1

    @property
    def name(self) -> str:
        where = "" if self.partitions == 1 else f", {self.partitions} partitions"
        return f"produce {self.size} B, {self.codec}, acks={self.acks}{where}"


LOADS = (
    Load(),
    Load(size=100),
    Load(size=10_000),
    Load(codec="lz4"),
    Load(codec="zstd"),
    Load(size=100, codec="lz4"),
    Load(acks="all"),
    Load(partitions=100),
)


@dataclass(frozen=True)
class Scale:
    """How much is done: rounds, bytes and seconds of one measurement, what of the loads."""

    rounds: int
    load_bytes: int
    seconds: float
    loads: tuple[Load, ...] = LOADS


FULL = Scale(3, 250_000_000, 4)
QUICK = Scale(1, 5_000_000, 0.5, (Load(), Load(codec="lz4"), Load(partitions=100)))


def value_of(size: int) -> bytes:
    return os.urandom(size // 2) + bytes(size - size // 2)


def throughput(target: Target, topic: str, load: Load, amount: int) -> Found:
    count = (amount if load.size >= SMALL_BYTES else amount // 5) // load.size
    sender = producer(target.address, acks=load.acks, **{"compression.type": load.codec})
    value = value_of(load.size)
    send_all([sender], topic, value, load.partitions, load.partitions)
    used, began = cpu_seconds(target.pid), time.perf_counter()
    send_all([sender], topic, value, count, load.partitions)
    took, used = time.perf_counter() - began, cpu_seconds(target.pid) - used
    return {"MB/s": count * load.size / took / 1e6, "CPU s/GB": used / (count * load.size) * GB}


def latency(target: Target, topic: str, rate: int, seconds: float) -> Found:
    """Of records of 100 bytes, one a request where the rate allows it."""
    sender = producer(target.address, acks=1, **{"linger.ms": 0})
    value = value_of(100)
    send_all([sender], topic, value, 1)
    took_ms: list[float] = []
    failures = Failures()

    def acknowledged(due: float, error: object, message: object) -> None:
        failures(error, message)
        took_ms.append((time.perf_counter() - due) * 1000)

    began = time.perf_counter()
    count = int(rate * seconds)
    for number in range(count):
        due = began + number / rate
        while (left := due - time.perf_counter()) > 0:
            sender.poll(min(left, 0.001))
        sender.produce(topic, value, partition=0, on_delivery=partial(acknowledged, due))
    if sender.flush(WAIT_S) or failures.count:
        raise RuntimeError(f"{failures.count} of {count} records failed: {failures.last}")
    return percentiles(sorted(took_ms))


def transactions(target: Target, topic: str, seconds: float) -> Found:
    """For so long: a client that has to try again, because the last one is not over, takes a multiple of the time."""
    sender = Producer({"bootstrap.servers": target.address, "transactional.id": f"bench-{topic}", "linger.ms": 0})
    sender.init_transactions(WAIT_S)
    value = value_of(100)
    used, began, count = cpu_seconds(target.pid), time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        sender.begin_transaction()
        for _ in range(PER_TRANSACTION):
            sender.produce(topic, value, partition=0)
        sender.commit_transaction(WAIT_S)
        count += 1
    took, used = time.perf_counter() - began, cpu_seconds(target.pid) - used
    return {"per s": count / took, "CPU ms each": used / count * 1000}


def forget_files(directory: Path, topic: str) -> None:
    """Have the system drop what it holds of a topic's data files."""
    os.sync()
    for path in directory.glob(f"data/{topic}-*/*.log"):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def catch_up(target: BrokerTarget, topic: str, amount: int) -> Found:
    count = amount // 1000
    send_all([producer(target.address)], topic, value_of(1000), count)
    forget_files(target.directory, topic)
    used = cpu_seconds(target.pid)
    took = consume(target, topic, 1000, count)
    return {"MB/s": count / took / 1000, "CPU s/GB": (cpu_seconds(target.pid) - used) / (count * 1000) * GB}


def in_topic(target: Target, topic: str, partitions: int, work: Callable[[], Found]) -> Found:
    """With a topic of its own."""
    target.create_topic(topic, partitions)
    try:
        return work()
    finally:
        target.delete_topic(topic)


def workloads(target: Target, scale: Scale) -> Callable[[int], Workloads]:
    def of_round(number: int) -> Workloads:
        found: dict[str, Callable[[], Found]] = {}

        def add(name: str, work: Callable[..., Found], partitions: int = 1, /, **arguments: object) -> None:
            topic = f"load-{number}-{len(found)}"
            found[name] = partial(in_topic, target, topic, partitions, partial(work, target, topic, **arguments))

        for load in scale.loads:
            if load.partitions == 1 or isinstance(target, BrokerTarget):
                add(load.name, throughput, load.partitions, load=load, amount=scale.load_bytes)
        for rate in RATES:
            add(f"latency at {rate} records/s", latency, rate=rate, seconds=scale.seconds)
        if isinstance(target, BrokerTarget):
            add("transactions of ten records", transactions, seconds=scale.seconds)
            add("catch up, 1000 B, cold cache", catch_up, amount=scale.load_bytes)
        return found

    return of_round


def main() -> None:
    """Run it from the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--targets", default=",".join(NAMES), help="comma-separated, of " + ", ".join(NAMES))
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    with running_targets(options.targets) as targets:
        made = {target.name: workloads(target, scale) for target in targets}
        outcome = run_rounds(made, options.rounds or scale.rounds, options.only)
    report(outcome, options.json)


if __name__ == "__main__":
    main()
