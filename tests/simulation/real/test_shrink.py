"""A failing run is made smaller: what is not needed for the failure is left out, and what is needed stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.real import shrink
from tests.simulation.real.run import Outcome, Plan

FAULTS = [2, 5, 7, 9]
STEPS = {"p1": 40, "p2": 31, "t1": 12}


class Runs:
    """Fails while fault 5 is in it, and 17 steps of p1 or more, and any step of t1."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, seed: int, plan: Plan | None = None) -> Outcome:
        assert plan is not None
        self.count += 1
        limits = dict(plan.steps)
        steps = {name: min(count, limits.get(name, count)) for name, count in STEPS.items()}
        faults = [each for each in FAULTS if plan.faults is None or each in plan.faults]
        fails = 5 in faults and steps["p1"] >= 17 and steps["t1"] >= 1
        return Outcome(seed, [], "lost" if fails else None, faults, steps, 0, 0, 0, 0)


def test_faults_and_steps_that_are_not_needed_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs()
    monkeypatch.setattr(shrink, "run", runs)
    failing = runs(3, Plan())
    least = shrink.shrink(3, Plan(), failing)
    assert least.problem == "lost"
    assert least.faults == [5]
    assert least.steps == {"p1": 17, "p2": 0, "t1": 1}
    assert runs.count < 25


def test_a_run_that_needs_all_of_it_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(seed: int, plan: Plan | None = None) -> Outcome:
        assert plan is not None
        whole = plan.faults == frozenset(FAULTS) and not plan.steps
        return Outcome(seed, [], "lost" if whole else None, FAULTS, STEPS, 0, 0, 0, 0)

    monkeypatch.setattr(shrink, "run", run)
    failing = Outcome(3, [], "lost", FAULTS, STEPS, 0, 0, 0, 0)
    assert shrink.shrink(3, replace(Plan(), faults=frozenset(FAULTS)), failing) is failing
