"""A failing run with less in it: each fault, and then the steps of each client, as far as the promise stays broken."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.real.run import Outcome, Plan, run


def shrink(seed: int, plan: Plan, failing: Outcome) -> Outcome:
    """The smallest failing run that leaving out one thing after the other leads to; `failing` itself at worst.

    Clients go by halves: none of their steps, half of them, and so on to all but one.
    """
    best = failing
    for fault in list(failing.faults):
        fewer = frozenset(best.faults) - {fault}
        tried = run(seed, replace(plan, faults=fewer))
        if tried.problem is not None:
            best = tried
    plan = replace(plan, faults=frozenset(best.faults))
    for client in sorted(best.steps, key=lambda name: -best.steps[name]):
        limits = {name: count for name, count in plan.steps if name != client}
        low, high = 0, best.steps.get(client, 0)  # fails with `high` steps
        while low < high:
            middle = (low + high) // 2
            fewer_steps = replace(plan, steps=tuple(sorted({**limits, client: middle}.items())))
            tried = run(seed, fewer_steps)
            if tried.problem is None:
                low = middle + 1
            else:
                best, plan, high = tried, fewer_steps, middle
    return best
