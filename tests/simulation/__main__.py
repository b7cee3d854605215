"""Whole brokers by hand: `python -m tests.simulation SEED [COUNT]`, or `--minutes M` for as many as fit.

The same seed gives the same trace to the byte (`--trace`). A seed that fails is run again with fewer faults, as few as
still break the promise, and that run is printed as a story.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.simulation.real.run import ONE_BROKER, Plan, run
from tests.simulation.real.shrink import shrink


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int, nargs="?", default=1)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--minutes", type=float, help="go on for this long instead of COUNT seeds")
    parser.add_argument("--trace", action="store_true", help="print what happened, failed or not")
    options = parser.parse_args()
    plan = ONE_BROKER if options.brokers == 1 else Plan(options.brokers)
    end = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    seed = options.first
    while time.monotonic() < end if end is not None else seed < options.first + options.count:
        outcome = run(seed, plan)
        if options.trace:
            print("\n".join(outcome.trace))
        if outcome.problem is not None:
            print(f"seed {seed} fails: {outcome.problem}; is there less of it that fails?", flush=True)
            outcome = shrink(seed, plan, outcome)
            print(f"seed {seed} fails with {len(outcome.faults)} faults: {outcome.problem}")
            print("\n".join(outcome.trace))
            return 1
        print(
            f"seed {seed}: {outcome.acked} records acknowledged, {outcome.committed} transactions committed, "
            f"{len(outcome.faults)} faults",
            flush=True,
        )
        seed += 1
    return 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a run
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    raise SystemExit(main())
