"""The stored bytecodes of a request, and what has grown since they were stored.

`request_path.json` beside this file has, for each minor version of CPython (each compiles to other instructions), for
each workload of `benchmarks.request_path` the bytecodes of every function. A change that makes a path longer on purpose
stores them anew, on every version that the file has, and says both figures in its message:

    python -m benchmarks.request_path --store
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

BOUND_FILE = Path(__file__).with_name("request_path.json")
ALLOWED = 1.005
"""Counts are the same in every run, but for what a clock decides (a line that is due once a second)."""
_NAMED = 12

Functions = Mapping[str, float]
"""Bytecodes a request, by function."""


def this_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def load(path: Path = BOUND_FILE) -> dict[str, dict[str, dict[str, float]]]:
    """By version of CPython, workload and function; empty without the file."""
    found: dict[str, dict[str, dict[str, float]]] = json.loads(path.read_text()) if path.exists() else {}
    return found


def store(measured: Mapping[str, Functions], path: Path = BOUND_FILE) -> None:
    """Replace what is stored of this version of CPython."""
    everything = load(path)
    everything[this_version()] = {
        workload: {name: round(count, 2) for name, count in sorted(functions.items())}
        for workload, functions in measured.items()
    }
    path.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n")


def grown(measured: Mapping[str, Functions], bound: Mapping[str, Functions]) -> list[str]:
    """A line for each workload that needs more bytecodes than stored, and under it the functions that grew."""
    told = []
    for workload, functions in measured.items():
        stored = bound.get(workload)
        if stored is None:
            told.append(f"{workload}: nothing is stored of it")
            continue
        now, before = sum(functions.values()), sum(stored.values())
        if now <= before * ALLOWED:
            continue
        told.append(f"{workload}: {now:,.0f} bytecodes a request, {before:,.0f} are stored")
        more = {name: count - stored.get(name, 0) for name, count in functions.items()}
        for name in sorted(more, key=lambda each: -more[each])[:_NAMED]:
            if more[name] >= 0.5:
                told.append(f"    {more[name]:+7.1f} {name} ({stored.get(name, 0):.1f} before)")
    return told
