"""A failing run with fewer faults: each is left out in turn, and stays out if the promise is still broken."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.real.run import Outcome, Plan, run


def shrink(seed: int, plan: Plan, failing: Outcome) -> Outcome:
    """The shortest failing run that leaving out one fault after the other leads to; `failing` itself at worst."""
    best = failing
    for fault in list(failing.faults):
        fewer = frozenset(best.faults) - {fault}
        tried = run(seed, replace(plan, faults=fewer))
        if tried.problem is not None:
            best = tried
    return best
