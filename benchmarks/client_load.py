"""Throughput by size, codec and acks, latency at fixed rates, transactions, connections, and reads that no cache has.

    python -m benchmarks.client_load [--quick] [--json] [--targets sink,odradek,kafka] [--rounds N] [--only TEXT]

Client, targets and turns are those of `benchmarks.data_path`; what that measures is not measured here again. Values are
half random bytes, half zeros, so codecs have work. Latency is from handing a record over to its acknowledgement, of
records that are due at even distances whether or not the last one has been acknowledged. A transaction has ten records
and is committed before the next begins. Connections ask for the versions once and stay. Reads from a cold cache come
after the system was told to forget the data files. The sink knows neither transactions nor files.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from benchmarks.data_path import GB, NAMES, WAIT_S, Failures, consume, make_targets, producer, send_all
from benchmarks.targets import CLOCK, BrokerTarget, Target, cpu_seconds, resident_mb
from network.client.connection import Connection
from network.protocol.messages.api_versions import ApiVersionsRequest

SIZES = (100, 1000, 10_000)
CODECS = ("none", "lz4", "zstd")
RATES = (500, 5000)
PER_TRANSACTION = 10


@dataclass(frozen=True)
class Scale:
    """How much is done: rounds, bytes and seconds of one measurement, how many of the rest; what of the matrix."""

    rounds: int
    load_bytes: int
    seconds: float
    transactions: int
    connections: int
    sizes: tuple[int, ...] = SIZES
    codecs: tuple[str, ...] = CODECS


FULL = Scale(3, 100_000_000, 5, 500, 1000)
QUICK = Scale(1, 5_000_000, 0.5, 20, 50, (1000,), ("none", "lz4"))

Found = dict[str, float]
"""What one workload gives, by unit."""


def value_of(size: int) -> bytes:
    return os.urandom(size // 2) + bytes(size - size // 2)


def throughput(target: Target, topic: str, size: int, codec: str, acks: str, amount: int) -> Found:
    count = amount // size
    sender = producer(target.address, acks=acks, **{"compression.type": codec})
    value = value_of(size)
    send_all([sender], topic, value, 1)
    used, began = cpu_seconds(target.pid), time.perf_counter()
    send_all([sender], topic, value, count)
    took, used = time.perf_counter() - began, cpu_seconds(target.pid) - used
    return {"MB/s": count * size / took / 1e6, "CPU s/GB": used / (count * size) * GB}


def latency(target: Target, topic: str, rate: int, seconds: float) -> Found:
    """Of records of 100 bytes, one a request where the rate allows it."""
    sender = producer(target.address, acks=1, **{"linger.ms": 0})
    value = value_of(100)
    send_all([sender], topic, value, 1)
    took: list[float] = []
    failures = Failures()

    def acknowledged(due: float, error: object, message: object) -> None:
        failures(error, message)
        took.append(time.perf_counter() - due)

    began = time.perf_counter()
    count = int(rate * seconds)
    for number in range(count):
        due = began + number / rate
        while (left := due - time.perf_counter()) > 0:
            sender.poll(min(left, 0.001))
        sender.produce(topic, value, partition=0, on_delivery=partial(acknowledged, due))
    if sender.flush(WAIT_S) or failures.count:
        raise RuntimeError(f"{failures.count} of {count} records failed: {failures.last}")
    took.sort()
    return {f"ms, p{percent:g}": took[int(percent / 100 * (count - 1))] * 1000 for percent in (50, 99, 99.9)}


def transactions(target: Target, topic: str, count: int) -> Found:
    sender = Producer({"bootstrap.servers": target.address, "transactional.id": f"bench-{topic}", "linger.ms": 0})
    sender.init_transactions(WAIT_S)
    value = value_of(100)
    used, began = cpu_seconds(target.pid), time.perf_counter()
    for _ in range(count):
        sender.begin_transaction()
        for _ in range(PER_TRANSACTION):
            sender.produce(topic, value, partition=0)
        sender.commit_transaction(WAIT_S)
    took, used = time.perf_counter() - began, cpu_seconds(target.pid) - used
    return {"per s": count / took, "CPU ms each": used / count * 1000}


def connections(target: Target, topic: str, count: int) -> Found:
    """Memory that each takes while it is idle, and how fast they come."""
    host, _, port = target.address.rpartition(":")
    request = ApiVersionsRequest(client_software_name="benchmark", client_software_version="1")
    before = resident_mb(target.pid)
    began = time.perf_counter()
    with ExitStack() as stack:
        for _ in range(count):
            one = stack.enter_context(Connection(host, int(port), "benchmark", CLOCK, 30_000, 30_000))
            one.call(request, 3)
        took = time.perf_counter() - began
        return {"per s": count / took, "KB each": (resident_mb(target.pid) - before) * 1024 / count}


def forget_files(directory: Path) -> None:
    """Have the system drop what it holds of the data files."""
    os.sync()
    for path in directory.glob("data/*/*.log"):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def catch_up(target: BrokerTarget, topic: str, amount: int) -> Found:
    count = amount // 1000
    send_all([producer(target.address)], topic, value_of(1000), count)
    forget_files(target.directory)
    used = cpu_seconds(target.pid)
    took = consume(target, topic, 1000, count)
    return {"MB/s": count / took / 1000, "CPU s/GB": (cpu_seconds(target.pid) - used) / (count * 1000) * GB}


def workloads(target: Target, scale: Scale) -> dict[str, Callable[[str], Found]]:
    """By name; each is given a topic of its own."""
    found: dict[str, Callable[[str], Found]] = {}
    for size in scale.sizes:
        # Small records cost the client far more a byte.
        amount = scale.load_bytes // (5 if size < 1000 else 1)
        for codec in scale.codecs:
            for acks in ("1", "all"):
                name = f"produce {size} B, {codec}, acks={acks}"
                found[name] = partial(throughput, target, size=size, codec=codec, acks=acks, amount=amount)
    for rate in RATES:
        found[f"latency at {rate} records/s"] = partial(latency, target, rate=rate, seconds=scale.seconds)
    if isinstance(target, BrokerTarget):
        found["connections"] = partial(connections, target, count=scale.connections)
        found["transactions of ten records"] = partial(transactions, target, count=scale.transactions)
        found["catch up, 1000 B, cold cache"] = partial(catch_up, target, amount=scale.load_bytes)
    return found


def run(targets: Sequence[Target], scale: Scale, only: str, log: Callable[[str], None]) -> dict[str, dict[str, object]]:
    """By workload and unit: for each target the median, the least and the greatest. The first round warms up."""
    samples: dict[tuple[str, str], dict[str, list[float]]] = {}
    for target in targets:
        target.start()
    for number in range(scale.rounds + 1):
        for target in targets:
            log(f"{'warm-up' if number == 0 else f'round {number} of {scale.rounds}'}: {target.name}")
            for place, (name, work) in enumerate(workloads(target, scale).items()):
                if only not in name:
                    continue
                topic = f"load-{number}-{place}"
                target.create_topic(topic)
                result = work(topic)
                target.delete_topic(topic)
                for unit, value in result.items() if number else ():
                    samples.setdefault((name, unit), {}).setdefault(target.name, []).append(value)
    found: dict[str, dict[str, object]] = {}
    for (name, unit), by_target in samples.items():
        found.setdefault(name, {})[unit] = {
            each: {"median": statistics.median(values), "least": min(values), "greatest": max(values)}
            for each, values in by_target.items()
        }
    return found


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round of few workloads")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--targets", default=",".join(NAMES), help="comma-separated, of " + ", ".join(NAMES))
    parser.add_argument("--rounds", type=int, help="override the number of rounds")
    parser.add_argument("--only", default="", help="only workloads whose name contains this text")
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    if options.rounds:
        scale = replace(scale, rounds=options.rounds)

    def log(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="client-load-")))
        targets = make_targets(options.targets.split(","), directory, stack, log)
        found = run(targets, scale, options.only, log)
    if options.json:
        print(json.dumps(found))
        return
    table = Table(title="median (least to greatest)")
    for column in ("workload", "", *(target.name for target in targets)):
        table.add_column(column)
    for name, units in found.items():
        for unit, by_target in units.items():
            assert isinstance(by_target, dict)
            cells = [by_target.get(target.name) for target in targets]
            texts = [
                f"{each['median']:,.2f} ({each['least']:,.2f} to {each['greatest']:,.2f})" if each else ""
                for each in cells
            ]
            table.add_row(name, unit, *texts)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
