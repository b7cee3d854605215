"""All benchmarks that compare, one after the other, and one page of what they say: `make bench`.

    python -m benchmarks.suite [--quick] [--parts NAMES] [--against FILE] [--directory build/bench]

About twenty minutes on two cores; `--quick` takes about a minute and only shows that everything runs. Each part is a
module of this package with `--json`. Odradek, Apache Kafka 3.9.1 and, where there is one, the bare sink take turns in
it. Results are kept as `result-TIME.json` in the directory, the page is `index.html` there: first what falls short of
Kafka, then what has changed since the last stored run (or that of `--against`), then each part.

Runs are compared by their ratios to Kafka in the same run, because machines and their other work differ between runs.
A part that fails is named on the page, and the command ends with 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.suite_page import Machine, Results, Row, page
from tests.support.paths import ROOT

LIMIT_S = 1500
DIRECTORY = ROOT / "build" / "bench"


@dataclass(frozen=True)
class Part:
    """One module: its arguments, those of `--quick` (None: it is left out there), and how its JSON is read."""

    name: str
    module: str
    arguments: tuple[str, ...]
    quick: tuple[str, ...] | None
    read: Callable[[dict[str, Any]], Iterator[Row]]


def of_data_path(found: dict[str, Any]) -> Iterator[Row]:
    targets = found["targets"]
    for workload, row in found["workloads"].items():
        values = {name: row[name] for name in targets}
        yield Row(workload, row["unit"], {name: each["rate"] for name, each in values.items()}, more_is_better=True)
        yield Row(f"{workload}, CPU", row["cpu_unit"], {name: each["cpu"] for name, each in values.items()})
    for key, label, unit in (
        ("start_s", "start to serving", "s"),
        ("idle_mb", "memory, idle", "MB"),
        ("busy_mb", "memory after the runs", "MB"),
    ):
        yield Row(label, unit, {name: each[key] for name, each in targets.items() if name != "sink"})


def of_client_load(found: dict[str, Any]) -> Iterator[Row]:
    for workload, units in found.items():
        for unit, by_target in units.items():
            yield Row(
                workload,
                unit,
                {name: each["median"] for name, each in by_target.items()},
                more_is_better=unit in ("MB/s", "per s"),
                spread={name: (each["least"], each["greatest"]) for name, each in by_target.items()},
            )


def of_failover(found: dict[str, Any]) -> Iterator[Row]:
    texts = {
        "create": "topic created and known everywhere",
        "controller": "controller failover until it has made a topic",
        "failover": "leader killed to first acknowledged record",
        "after_session": "of that, after the session ended",
        "stop": "controlled shutdown",
        "restart": "controlled shutdown and start",
    }
    for metric, text in texts.items():
        yield Row(
            f"{text}, {found['partitions']} partitions",
            "s",
            {kind: found[kind][metric] for kind in ("odradek", "kafka")},
        )


def of_idle_partitions(found: dict[str, Any]) -> Iterator[Row]:
    counts = dict.fromkeys(count for held in found["brokers"].values() for count in held)
    for count in counts:
        for key, unit in (("resident_bytes", "bytes"), ("descriptors", "descriptors")):
            values = {kind: held[count][key] for kind, held in found["brokers"].items() if count in held}
            yield Row(f"one of {count} idle partitions", unit, values)
    yield Row("objects of an idle partition", "bytes", {"odradek": sum(found["objects"].values())})


def of_request_path(found: dict[str, Any]) -> Iterator[Row]:
    for name, each in found.items():
        yield Row(name, "CPU us", {"odradek": each["us"]})
        yield Row(name, "bytecodes", {"odradek": each["bytecodes"]})


PARTS = (
    Part("data path", "benchmarks.data_path", ("--rounds", "3"), ("--quick",), of_data_path),
    Part("clients", "benchmarks.client_load", (), ("--quick", "--targets", "sink,odradek"), of_client_load),
    Part("1,000 partitions", "benchmarks.failover", ("--rounds", "1"), None, of_failover),
    Part("5,000 partitions", "benchmarks.failover", ("--rounds", "1", "--partitions", "5000"), None, of_failover),
    Part("idle partitions", "benchmarks.idle_partitions", (), None, of_idle_partitions),
    Part("one request", "benchmarks.request_path", (), ("--quick",), of_request_path),
)


def run_part(part: Part, quick: bool) -> list[Row]:
    """Its rows. Raises RuntimeError with the end of what it said if it fails."""
    arguments = (part.quick or ()) if quick else part.arguments
    command = [sys.executable, "-m", part.module, "--json", *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done within {LIMIT_S} s") from None
    if done.returncode:
        raise RuntimeError("\n".join(done.stderr.strip().splitlines()[-5:]) or f"exit code {done.returncode}")
    return list(part.read(json.loads(done.stdout.strip().splitlines()[-1])))


def run(parts: list[Part], quick: bool) -> Results:
    results = Results(datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ"), quick, Machine.here(), {}, {})
    for part in parts:
        print(f"{part.name}: python -m {part.module} ...", file=sys.stderr, flush=True)
        began = time.monotonic()
        try:
            results.parts[part.name] = run_part(part, quick)
        except (RuntimeError, ValueError, LookupError) as error:
            results.failures[part.name] = str(error)
        print(f"{part.name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return results


def last_stored(directory: Path, quick: bool) -> Results | None:
    """The newest run of the same form."""
    for path in sorted(directory.glob("result-*.json"), reverse=True):
        found = Results.of_json(path.read_text())
        if found.quick is quick:
            return found
    return None


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about a minute, to see that everything runs")
    parser.add_argument("--parts", help="comma-separated, of: " + ", ".join(f"'{part.name}'" for part in PARTS))
    parser.add_argument("--against", type=Path, help="a stored result to compare with (the last one)")
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help="where results and page go")
    options = parser.parse_args()
    # A number in a name has a comma of its own.
    wanted = [part for part in PARTS if options.parts is None or part.name in options.parts]
    if not wanted:
        parser.error(f"no such part: {options.parts}")
    wanted = [part for part in wanted if not options.quick or part.quick is not None]
    options.directory.mkdir(parents=True, exist_ok=True)
    before = Results.of_json(options.against.read_text()) if options.against else None
    before = before or last_stored(options.directory, options.quick)
    results = run(wanted, options.quick)
    (options.directory / f"result-{results.time}.json").write_text(results.to_json())
    where = options.directory / "index.html"
    where.write_text(page(results, before), encoding="utf-8")
    print(where)
    if results.failures:
        print("\n".join(f"{name} failed: {text}" for name, text in results.failures.items()), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
