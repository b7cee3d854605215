"""How benchmarks go on: rounds in turns, modules that are ended in time, and the client that costs nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.bounded import left_behind, run_bounded
from benchmarks.hammer import PRODUCE_ERROR_AT, exchange, produce_frame
from benchmarks.rounds import Found, Workloads, percentile, report, run_rounds
from benchmarks.targets import SinkTarget

CHILD = """\
import os, subprocess, sys, time
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True)
"""


def test_a_workload_that_fails_is_named_and_tried_twice(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[str] = []

    def workloads(number: int) -> Workloads:
        def good() -> Found:
            calls.append(f"good {number}")
            return {"s": float(number)}

        def bad() -> Found:
            calls.append(f"bad {number}")
            raise RuntimeError("no answer\nand more")

        return {"bad": bad, "good": good}

    outcome = run_rounds({"odradek": workloads}, 3)
    assert calls == ["bad 0", "good 0", "bad 1", "good 1", "good 2", "good 3"]
    assert outcome.failures == {"odradek: bad": "RuntimeError: no answer (round 1 of 3)"}
    report(outcome, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["workloads"] == {"good": {"s": {"odradek": {"median": 2.0, "least": 1.0, "greatest": 3.0}}}}
    with pytest.raises(SystemExit):
        report(outcome, as_json=False)
    assert list(run_rounds({"odradek": workloads}, 1, only="goo").workloads) == ["good"]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a module `benched` is found."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def test_a_module_is_ended_in_time_with_all_that_it_started(directory: Path) -> None:
    said: list[str] = []
    told = "print(os.environ['TMPDIR'], file=sys.stderr, flush=True)\n"
    left = "open(os.environ['TMPDIR'] + '/left', 'w').close()\n"
    (directory / "benched.py").write_text(f"{CHILD}{told}{left}time.sleep(60)")
    with pytest.raises(RuntimeError, match="not done within"):
        run_bounded("benched", [], 1.5, said.append, grace_s=5)
    where = Path(said[0])
    assert not where.exists()
    assert left_behind(where) == []


def test_what_a_module_prints_is_returned_and_what_it_says_is_told(directory: Path) -> None:
    said: list[str] = []
    (directory / "benched.py").write_text(
        f"{CHILD}print(sys.argv[1:], os.environ['TMPDIR'])\nprint('round 1', file=sys.stderr)"
    )
    printed = run_bounded("benched", ["--json"], 30, said.append)
    assert printed.startswith("['--json'] ")
    assert said == ["round 1"]
    assert left_behind(Path(printed.split()[-1])) == []


def test_a_module_that_fails_is_quoted(directory: Path) -> None:
    (directory / "benched.py").write_text("raise SystemExit('no broker')")
    with pytest.raises(RuntimeError, match="no broker"):
        run_bounded("benched", [], 30, lambda line: None)


def test_the_client_that_costs_nothing_gets_answers_and_sees_errors() -> None:
    sink = SinkTarget()
    sink.start()
    try:
        done = exchange(sink.address, [produce_frame("t")] * 5, PRODUCE_ERROR_AT, 0.1)
        assert done.count > 5
        assert len(done.latencies_ms) == done.count
        assert 0 < percentile(done.latencies_ms, 50) <= percentile(done.latencies_ms, 99.9)
        assert exchange(sink.address, [produce_frame("t")] * 5, PRODUCE_ERROR_AT, 0).count == 5
        with pytest.raises(RuntimeError, match="an answer with error"):
            # Where the topic's name is: that is no 0.
            exchange(sink.address, [produce_frame("tt")], PRODUCE_ERROR_AT - 4 - 4 - 2, 0)
    finally:
        sink.stop()
