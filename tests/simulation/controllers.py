"""Seeds of the controllers by hand: `python -m tests.simulation.controllers FIRST [COUNT] [--steps N]`; the first that
fails prints its steps."""

from __future__ import annotations

import argparse
import logging

from tests.simulation.cluster import Simulation


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.controllers")
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int, nargs="?", default=1)
    parser.add_argument("--steps", type=int, default=2500)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    for seed in range(options.first, options.first + options.count):
        simulation = Simulation(seed)
        try:
            for _ in range(options.steps):
                simulation.step()
            simulation.heal()
        except Exception as error:
            print(f"seed {seed} failed: {error!r}")
            print("\n".join(simulation.trace))
            return 1
    print(f"{options.count} seeds passed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
