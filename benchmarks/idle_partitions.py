"""What a partition that nobody uses takes of its broker: memory, descriptors and, in Odradek, whose objects they are.

    python -m benchmarks.idle_partitions [--quick] [--json] [--targets odradek,kafka] [--partitions 1000,5000]

Each number of partitions is one topic on a fresh broker; a broker without any is measured beside it, so that a figure
is the difference divided by the partitions. `resident` is what the system has given the process: for Kafka that is
heap which it has touched and may not need. `objects` is what Python's objects take, counted by tracemalloc in a broker
in this process, by the file of this project that made them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.request_path import running_broker
from benchmarks.rounds import log, told
from benchmarks.targets import CLOCK, HOST, BrokerTarget, KafkaTarget, OdradekTarget, resident_mb, start_zookeeper
from broker.dev.polling import wait_until
from network.client.connection import Connection
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.reference.kafka import libraries
from tests.support.paths import ROOT

TOPIC = "idle"
LIMIT_MS = 300_000
FRAMES = 8
TRACED = 1000  # more take minutes while every allocation is traced
SHOWN = 15
BACKGROUND_S = 3.0


@dataclass
class Held:
    """Of one broker, for each partition."""

    resident_bytes: float
    descriptors: float


@dataclass
class Figures:
    """By number of partitions; `objects` by file, in bytes."""

    brokers: dict[str, dict[int, Held]] = field(default_factory=dict)
    objects: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def make_topic(address: str, partitions: int, name: str = TOPIC) -> None:
    """Returns when each of them has a leader. Raises RuntimeError when they do not get one."""
    host, _, port = address.rpartition(":")
    with Connection(host, int(port), "benchmark", CLOCK, LIMIT_MS, LIMIT_MS) as connection:
        create = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)], timeout_ms=LIMIT_MS
        )
        # A broker that has just started may still wait for the controller.
        codes = {connection.call(create, 5).topics[0].error_code}

        def are_led() -> bool:
            answer = connection.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9).topics[0]
            if answer.error_code:
                codes.add(connection.call(create, 5).topics[0].error_code)
            return len(answer.partitions) == partitions and all(each.leader_id >= 0 for each in answer.partitions)

        if not wait_until(are_led, CLOCK, LIMIT_MS, 100):
            raise RuntimeError(f"{address}: no leaders for {partitions} partitions, errors {sorted(codes)}")


def settled_mb(pid: int) -> float:
    """Resident memory once it has stayed the same for two seconds, within a minute."""
    seen = resident_mb(pid)
    same = 0
    for _ in range(60):
        time.sleep(1)
        now = resident_mb(pid)
        same = same + 1 if abs(now - seen) < 0.2 else 0
        seen = now
        if same == 2:
            break
    return seen


def measure(target: BrokerTarget, partitions: int) -> tuple[float, int]:
    """Resident MB and descriptors of a fresh broker with so many."""
    target.start()
    try:
        if partitions:
            make_topic(target.address, partitions)
        return settled_mb(target.pid), len(os.listdir(f"/proc/{target.pid}/fd"))
    finally:
        target.stop()


def measure_kind(kind: str, counts: list[int], directory: Path, zookeeper: str) -> dict[int, Held]:
    found: dict[int, tuple[float, int]] = {}
    for count in (0, *counts):
        where = directory / f"{kind}-{count}"
        connect = f"{zookeeper}/{count}"
        target = OdradekTarget(where, connect) if kind == "odradek" else KafkaTarget(where, connect, libraries())
        log(f"{kind} with {count} partitions")
        found[count] = measure(target, count)
    base_mb, base_fds = found.pop(0)
    return {
        count: Held((megabytes - base_mb) * 2**20 / count, (fds - base_fds) / count)
        for count, (megabytes, fds) in found.items()
    }


def objects(partitions: int, directory: Path, zookeeper: str) -> dict[str, float]:
    """Bytes of Python objects for each partition, the controller's too, by the file that made them."""
    with running_broker(directory, zookeeper) as (_, port):
        address = f"{HOST}:{port}"
        make_topic(address, 10, "warm-up")
        gc.collect()
        tracemalloc.start(FRAMES)
        before = tracemalloc.take_snapshot()
        make_topic(address, partitions)
        time.sleep(BACKGROUND_S)
        gc.collect()
        after = tracemalloc.take_snapshot()
        tracemalloc.stop()
    found: Counter[str] = Counter()
    for each in after.compare_to(before, "traceback"):
        own = [frame.filename for frame in each.traceback if frame.filename.startswith(str(ROOT))]
        found[own[-1].removeprefix(f"{ROOT}/") if own else "elsewhere"] += each.size_diff
    return {name: size / partitions for name, size in found.most_common()}


def show(figures: Figures) -> None:
    console = Console(width=120)
    table = Table(title="An idle partition")
    for column in ("broker", "partitions", "resident, bytes", "descriptors"):
        table.add_column(column, justify="left" if column == "broker" else "right")
    for kind, held in figures.brokers.items():
        for count, each in held.items():
            table.add_row(kind, f"{count:,}", f"{each.resident_bytes:,.0f}", f"{each.descriptors:.2f}")
    console.print(table)
    if figures.objects:
        console.print(f"Objects of Python in Odradek: {sum(figures.objects.values()):,.0f} bytes, of that by file:")
    for name, size in list(figures.objects.items())[:SHOWN]:
        console.print(f"{size:8,.0f} {name}", markup=False, highlight=False)


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="500 partitions, of Odradek only")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--targets", help="of odradek, kafka (both)")
    parser.add_argument("--partitions", help="numbers of partitions (1000,5000)")
    options = parser.parse_args()
    kinds = (options.targets or ("odradek" if options.quick else "odradek,kafka")).split(",")
    counts = [int(each) for each in (options.partitions or ("500" if options.quick else "1000,5000")).split(",")]
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="odradek-idle-") as name:
        server = start_zookeeper(Path(name))
        try:
            for kind in kinds:
                try:
                    figures.brokers[kind] = measure_kind(kind, counts, Path(name), f"{server.connect}/{kind}")
                except Exception as error:  # the other kind's figures stay
                    figures.failures[kind] = told(error)
            if "odradek" in kinds:
                log("objects of Python")
                figures.objects = objects(min(TRACED, max(counts)), Path(name) / "here", f"{server.connect}/here")
        finally:
            server.stop()
    if options.json:
        print(json.dumps(asdict(figures)))
    else:
        show(figures)
        if figures.failures:
            sys.exit("\n".join(f"{kind} failed: {text}" for kind, text in figures.failures.items()))


if __name__ == "__main__":
    main()
