"""Where a broker's CPU goes: every part of produce, consume and small requests of a real client, in one table.

    python -m benchmarks.produce_account [--quick] [--json] [--only TEXT] [--data-dir DIR] [--linger-ms N]

Needs Linux's `perf`. The client (confluent-kafka, as in `benchmarks.data_path`) is this process, the broker another;
while a workload runs `perf` samples all threads of the broker with their native frames. Each sample belongs to one
part: to the system call that it is in, else to the library that it is in. A figure is the part's share of the CPU that
the system counted for the broker, over the records' bytes (s a GB) or over the requests (us). A client that does not
get its share of the cores sends small batches, which cost more a GB; `--linger-ms 200` has it wait for full ones.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.data_path import GB, consume, make_targets, produce_batches, produce_singly
from benchmarks.native_samples import sampled
from benchmarks.targets import Target, cpu_seconds

WARM_UP_SHARE = 0.2


@dataclass(frozen=True)
class Workload:
    """Something that a client does with `count` records of `size` bytes; `done` is what a figure is divided by."""

    name: str
    unit: str
    work: Callable[[Target, str, int, int], float]
    size: int
    count: int

    @property
    def done(self) -> float:
        return self.count / 1e6 if self.unit == "us" else self.count * self.size / GB


def workloads(scale: float, linger_ms: int) -> list[Workload]:
    large, small = int(2_000_000 * scale), int(4_000_000 * scale)
    singly = partial(produce_singly, connections=1)
    batches = partial(produce_batches, linger_ms=linger_ms)
    return [
        Workload("produce 1000 B", "s/GB", batches, 1000, large),
        Workload("consume 1000 B", "s/GB", consume, 1000, large),
        Workload("produce 100 B", "s/GB", batches, 100, small),
        Workload("consume 100 B", "s/GB", consume, 100, small),
        Workload("one record a request", "us", singly, 100, int(100_000 * scale)),
    ]


def measure(target: Target, workload: Workload, topic: str, directory: Path) -> dict[str, Any]:
    """Rate, CPU and its parts. What is consumed was produced into `topic` before."""
    if workload.work is not consume:
        workload.work(target, topic, workload.size, int(workload.count * WARM_UP_SHARE))
    used = seconds = 0.0

    def work() -> None:
        nonlocal used, seconds
        before = cpu_seconds(target.pid)
        seconds = workload.work(target, topic, workload.size, workload.count)
        used = cpu_seconds(target.pid) - before

    counts = sampled(target.pid, work, directory / "samples")
    cost = used / workload.done
    rate = workload.count / seconds * (1 if workload.unit == "us" else workload.size / 1e6)
    return {
        "rate": rate,
        "cpu": cost,
        "unit": workload.unit,
        "samples": counts.total(),
        "parts": {part: cost * count / counts.total() for part, count in counts.most_common()},
    }


def show(found: dict[str, dict[str, Any]]) -> None:
    table = Table(title="CPU of the broker")
    table.add_column("part")
    for name, each in found.items():
        table.add_column(f"{name}, {each['unit']}", justify="right")
    parts = {part: cost for each in reversed(found.values()) for part, cost in each["parts"].items()}
    first = next(iter(found.values()))["parts"]
    for part in sorted(parts, key=lambda part: -first.get(part, 0)):
        costs = (each["parts"].get(part) for each in found.values())
        table.add_row(part, *("" if cost is None else f"{cost:.3f}" for cost in costs))
    table.add_section()
    table.add_row("sum", *(f"{each['cpu']:.2f}" for each in found.values()))
    table.add_row("rate, MB/s or requests/s", *(f"{each['rate']:,.0f}" for each in found.values()))
    table.add_row("samples", *(f"{each['samples']:,}" for each in found.values()))
    Console(width=140).print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.produce_account", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, under a minute")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--only", default="", help="only workloads whose name contains this text")
    parser.add_argument("--linger-ms", type=int, default=5, help="how long the client collects a batch (5)")
    parser.add_argument("--data-dir", type=Path, help="where the broker keeps its data (default: a temporary folder)")
    options = parser.parse_args(arguments)
    found: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.data_dir, prefix="account-")))
        target = make_targets(["odradek"], directory, stack, lambda text: print(text, file=sys.stderr))[0]
        target.start()
        for each in workloads(0.1 if options.quick else 1, options.linger_ms):
            topic = f"account-{each.size}" if each.unit != "us" else "account-singly"
            if each.work is not consume:
                target.create_topic(topic)
            elif options.only and each.name in options.only:
                produce_batches(target, topic, each.size, each.count)
            if options.only in each.name:
                found[each.name] = measure(target, each, topic, directory)
    if options.json:
        print(json.dumps({"load": os.getloadavg()[0], "workloads": found}))
    else:
        print(f"load average {os.getloadavg()[0]:.1f}")
        show(found)


if __name__ == "__main__":
    main()
