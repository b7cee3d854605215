"""The parts of `benchmarks.suite`: which modules, with what, how long they take, and how their JSON is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import linkedin
from benchmarks.scaling import WORKS
from benchmarks.suite_results import Row

RATES = ("MB/s", "per s", "records/s", "requests/s")
"""Units of which more is better."""


@dataclass(frozen=True)
class Part:
    """One module: its arguments, those of `--quick` (None: it is left out there), and how its JSON is read.

    `seconds` is how long it takes on two quiet cores; several times as much are allowed.
    """

    name: str
    module: str
    arguments: tuple[str, ...]
    quick: tuple[str, ...] | None
    read: Callable[[dict[str, Any]], Iterator[Row]]
    seconds: int = 60

    @property
    def limit_s(self) -> int:
        """After which it is ended."""
        return 180 + 5 * self.seconds


def of_data_path(found: dict[str, Any]) -> Iterator[Row]:
    targets = found["targets"]
    for workload, row in found["workloads"].items():
        values = {name: row[name] for name in targets if name in row}
        yield Row(
            workload,
            row["unit"],
            {name: each["rate"] for name, each in values.items()},
            more_is_better=True,
            spread={name: (each["least"], each["greatest"]) for name, each in values.items()},
        )
        yield Row(f"{workload}, CPU", row["cpu_unit"], {name: each["cpu"] for name, each in values.items()})
    for key, label, unit in (
        ("start_s", "start to serving", "s"),
        ("idle_mb", "memory, idle", "MB"),
        ("busy_mb", "memory after the runs", "MB"),
    ):
        yield Row(label, unit, {name: each[key] for name, each in targets.items() if name != "sink"})


def of_rounds(found: dict[str, Any]) -> Iterator[Row]:
    """What `benchmarks.rounds` prints."""
    for workload, units in found["workloads"].items():
        for unit, by_target in units.items():
            yield Row(
                workload,
                unit,
                {name: each["median"] for name, each in by_target.items()},
                more_is_better=unit in RATES,
                spread={name: (each["least"], each["greatest"]) for name, each in by_target.items()},
            )


def of_replicas(found: dict[str, Any]) -> Iterator[Row]:
    """With LinkedIn's figures beside its rows."""
    for row in of_rounds(found):
        linkedin.beside(row)
        yield row


def of_failover(found: dict[str, Any]) -> Iterator[Row]:
    texts = {
        "create": ("topic created and known everywhere", "s"),
        "broker_mb": ("memory of a broker with a replica of each", "MB"),
        "controller": ("controller failover until it has made a topic", "s"),
        "failover": ("leader killed to first acknowledged record", "s"),
        "after_session": ("of that, after the session ended", "s"),
        "stop": ("controlled shutdown", "s"),
        "restart": ("controlled shutdown and start", "s"),
        "crash": ("one broker started after a kill until all is in sync", "s"),
        "crash_all": ("all three started after a kill until all is in sync", "s"),
    }
    for metric, (text, unit) in texts.items():
        kinds = [kind for kind in ("odradek", "kafka") if metric in found.get(kind, {})]
        if kinds:
            yield Row(f"{text}, {found['partitions']} partitions", unit, {kind: found[kind][metric] for kind in kinds})


def of_idle_partitions(found: dict[str, Any]) -> Iterator[Row]:
    counts = dict.fromkeys(count for held in found["brokers"].values() for count in held)
    for count in counts:
        for key, unit in (("resident_bytes", "bytes"), ("descriptors", "descriptors")):
            values = {kind: held[count][key] for kind, held in found["brokers"].items() if count in held}
            yield Row(f"one of {count} idle partitions", unit, values)
    if found["objects"]:
        yield Row("objects of an idle partition", "bytes", {"odradek": sum(found["objects"].values())})


def of_request_path(found: dict[str, Any]) -> Iterator[Row]:
    for name, each in found.items():
        yield Row(name, "CPU us", {"odradek": each["us"]})
        yield Row(name, "bytecodes", {"odradek": each["bytecodes"]})


def of_scaling(found: dict[str, Any]) -> Iterator[Row]:
    """By number of brokers and work."""
    by_count: dict[int, dict[str, dict[str, Any]]] = {}
    for name, works in found.items():
        if match := re.fullmatch(r"(\w+) x (\d+)", name):
            by_count.setdefault(int(match[2]), {})[match[1]] = works
    for work, units in WORKS.items():
        for key, unit in zip(("rate", "cpu"), units, strict=True):
            for count, kinds in sorted(by_count.items()):
                values = {kind: works[work][key] for kind, works in kinds.items()}
                name = f"{work}, {count} broker{'s' if count > 1 else ''}"
                yield Row(name, unit, values, more_is_better=unit in RATES)


DATA_PATH = ("--rounds", "3", "--warm-up", "20", "--share", "0.4")
PARTS = (
    Part("data path", "benchmarks.data_path", DATA_PATH, ("--quick", "--share", "0.4"), of_data_path, 180),
    Part("clients", "benchmarks.client_load", (), ("--quick", "--targets", "sink,odradek"), of_rounds, 310),
    Part("connections", "benchmarks.connections", (), ("--quick", "--targets", "sink,odradek"), of_rounds, 75),
    Part("groups", "benchmarks.group_load", (), ("--quick", "--targets", "odradek"), of_rounds, 75),
    Part("three brokers", "benchmarks.replicas", (), ("--quick",), of_replicas, 440),
    Part("1,000 partitions", "benchmarks.failover", ("--rounds", "1"), None, of_failover, 215),
    Part("5,000 partitions", "benchmarks.failover", ("--rounds", "1", "--partitions", "5000"), None, of_failover, 700),
    Part("idle partitions", "benchmarks.idle_partitions", ("--partitions", "5000"), None, of_idle_partitions, 90),
    Part("brokers of one machine", "benchmarks.scaling", ("--rounds", "3"), None, of_scaling, 100),
    Part("one request", "benchmarks.request_path", (), ("--quick",), of_request_path, 20),
)
