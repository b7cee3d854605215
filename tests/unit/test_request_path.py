"""A request needs no more of the interpreter's instructions than are stored (`benchmarks/request_path.json`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.bytecode_bound import grown, load, store, this_version
from tests.support.paths import ROOT

BOUND = {"produce": {"a.py f": 900.0, "b.py g": 100.0}}


def test_no_path_has_grown() -> None:
    if this_version() not in load():
        pytest.skip(f"nothing is stored of CPython {this_version()}")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.request_path", "--check"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_the_stored_paths_are_whole() -> None:
    for workloads in load().values():
        assert set(workloads) == {"produce 1 record", "produce 100 records", "fetch 1 record", "commit 1 offset"}
        assert all(sum(functions.values()) > 1000 for functions in workloads.values())


def test_what_grew_is_named_and_by_how_much() -> None:
    told = grown({"produce": {"a.py f": 890.0, "b.py g": 150.0, "c.py new": 20.0}}, BOUND)
    assert told == [
        "produce: 1,060 bytecodes a request, 1,000 are stored",
        "      +50.0 b.py g (100.0 before)",
        "      +20.0 c.py new (0.0 before)",
    ]


def test_a_path_that_is_as_stored_or_shorter_is_not_named() -> None:
    assert grown(BOUND, BOUND) == []
    assert grown({"produce": {"a.py f": 904.0, "b.py g": 100.0}}, BOUND) == [], "within what a clock decides"
    assert grown({"produce": {"a.py f": 10.0}}, BOUND) == []


def test_a_workload_of_which_nothing_is_stored_is_named() -> None:
    assert grown({"fetch": {"a.py f": 1.0}}, BOUND) == ["fetch: nothing is stored of it"]


def test_storing_leaves_other_interpreters_alone(tmp_path: Path) -> None:
    file = tmp_path / "bound.json"
    file.write_text(json.dumps({"2.7": BOUND, this_version(): {}}))
    store(BOUND, file)
    assert load(file) == {"2.7": BOUND, this_version(): BOUND}
