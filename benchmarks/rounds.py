"""Workloads of several targets by turns: medians and spread, and one that fails is named while the rest goes on."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

TRIES = 2
SLOW_S = 5.0
"""A workload that takes longer is named."""

Found = dict[str, float]
"""What one workload gives, by unit."""

Workloads = Mapping[str, Callable[[], Found]]
"""By name."""


def log(text: str) -> None:
    """Progress, which is no result."""
    print(text, file=sys.stderr, flush=True)


def told(error: BaseException) -> str:
    """The first line of what went wrong, with its kind where it says little by itself."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Of values in their order."""
    return ordered[int(percent / 100 * (len(ordered) - 1))]


def percentiles(ordered_ms: Sequence[float]) -> Found:
    """Of latencies in their order: the median, the 99th percentile and the 99.9th."""
    return {f"ms, p{percent:g}": percentile(ordered_ms, percent) for percent in (50, 99, 99.9)}


@dataclass(frozen=True)
class Spread:
    """Of the rounds."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        if self.least == self.greatest:
            return f"{self.median:,.2f}"
        return f"{self.median:,.2f} ({self.least:,.2f} to {self.greatest:,.2f})"


@dataclass
class Outcome:
    """By workload, unit and target; what failed, by target and workload."""

    workloads: dict[str, dict[str, dict[str, Spread]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def run_rounds(make: Mapping[str, Callable[[int], Workloads]], rounds: int, only: str = "") -> Outcome:
    """Every workload whose name contains `only`, of each target in turn; one round more warms up.

    `make` gives a target's workloads for a round. A workload that raises twice is not tried again with that target.
    """
    outcome = Outcome()
    failed: Counter[str] = Counter()
    samples: dict[str, dict[str, dict[str, list[float]]]] = {}
    for number in range(rounds + 1):
        for target, workloads in make.items():
            began = time.monotonic()
            slow: list[str] = []
            for name, work in workloads(number).items():
                if only not in name or failed[f"{target}: {name}"] == TRIES:
                    continue
                at = time.monotonic()
                try:
                    found = work()
                except Exception as error:  # whatever it is, it must not take the other figures with it
                    failed[f"{target}: {name}"] += 1
                    outcome.failures[f"{target}: {name}"] = f"{told(error)} (round {number} of {rounds})"
                    log(f"{target}: {name} failed: {told(error)}")
                    continue
                if (took := time.monotonic() - at) > SLOW_S:
                    slow.append(f"{name} {took:.0f} s")
                for unit, value in found.items() if number else ():
                    samples.setdefault(name, {}).setdefault(unit, {}).setdefault(target, []).append(value)
            title = f"round {number} of {rounds}" if number else "warm-up"
            of_it = f", of it {'; '.join(slow)}" if slow else ""
            log(f"{title}: {target}, {time.monotonic() - began:.0f} s{of_it}")
    outcome.workloads = {
        name: {
            unit: {target: Spread.of(values) for target, values in by_target.items()}
            for unit, by_target in units.items()
        }
        for name, units in samples.items()
    }
    return outcome


def report(outcome: Outcome, as_json: bool) -> None:
    """One object on standard output, or a table; 1 is the exit code of a run in which something failed."""
    if as_json:
        print(outcome.to_json(), flush=True)
        return
    by_unit = [each for units in outcome.workloads.values() for each in units.values()]
    targets = list(dict.fromkeys(name for each in by_unit for name in each))
    table = Table(title="median (least to greatest)")
    for column in ("workload", "", *targets):
        table.add_column(column)
    for name, units in outcome.workloads.items():
        for unit, by_target in units.items():
            cells = [by_target.get(target) for target in targets]
            table.add_row(
                name,
                unit,
                *(str(each) if each else "" for each in cells),
            )
    Console(width=140).print(table)
    for name, text in outcome.failures.items():
        print(f"failed: {name}: {text}")
    if outcome.failures:
        sys.exit(1)


def parser_of(doc: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """The options that all of these commands have."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round, under a minute")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--rounds", type=int, help="override the number of rounds")
    parser.add_argument("--only", default="", help="only workloads whose name contains this text")
    parser.set_defaults(**defaults)
    return parser
