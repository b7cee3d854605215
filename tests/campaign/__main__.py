"""`python -m tests.campaign --minutes M --seed S`: runs one after the other, each with the next seed.

Ends with 1 at the first run in which something is wrong; its directory stays.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.campaign.run import run
from tests.support.cluster import CLOCK


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=str(__doc__).splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run-seconds", type=float, default=120, help="faults of one run")
    options = parser.parse_args()
    until = CLOCK.monotonic_ms() + options.minutes * 60_000
    seed, records, transfers = options.seed, 0, 0
    faults: Counter[str] = Counter()
    while True:
        directory = Path(tempfile.mkdtemp(prefix="odradek-campaign-"))
        result = run(directory, seed, min(options.run_seconds, max(10, (until - CLOCK.monotonic_ms()) / 1000)))
        print(result, flush=True)
        if result.problems:
            print("\n".join(result.problems[:20]), f"\nlogs: {directory}", sep="\n", file=sys.stderr)
            return 1
        shutil.rmtree(directory)
        seed, records, transfers = seed + 1, records + result.acknowledged, transfers + result.transfers
        faults.update(result.faults)
        if CLOCK.monotonic_ms() >= until:
            break
    print(
        f"{seed - options.seed} runs, {records} records, {transfers} transfers, {faults.total()} faults {dict(faults)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
