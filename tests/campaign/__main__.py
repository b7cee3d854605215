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

from tests.campaign import isolation, java_client
from tests.campaign.run import left_out, run
from tests.support.cluster import CLOCK


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=str(__doc__).splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run-seconds", type=float, default=180, help="faults of one run")
    parser.add_argument("--brokers", type=int, help="so many of Odradek's in every run, instead of what the seed draws")
    options = parser.parse_args()
    java_client.missing()  # Fetches Kafka's jars if need be; inside there is no network to fetch them by.
    isolation.enter("tests.campaign")
    for line in left_out():
        print(line, flush=True)
    until = CLOCK.monotonic_ms() + options.minutes * 60_000
    seed, transfers, commits = options.seed, 0, 0
    records: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    orders: Counter[str] = Counter()
    while True:
        directory = Path(tempfile.mkdtemp(prefix="odradek-campaign-"))
        seconds = min(options.run_seconds, max(10, (until - CLOCK.monotonic_ms()) / 1000))
        try:
            result = run(directory, seed, seconds, ["odradek"] * options.brokers if options.brokers else None)
        except BaseException:
            print(f"seed {seed}, logs: {directory}", file=sys.stderr)
            raise
        print(result, flush=True)
        if result.problems:
            print("\n".join(result.problems[:20]), f"\nlogs: {directory}", sep="\n", file=sys.stderr)
            return 1
        shutil.rmtree(directory)
        seed, transfers, commits = seed + 1, transfers + result.transfers, commits + result.commits
        records.update(result.acknowledged)
        faults.update(result.faults)
        orders.update(result.orders)
        if CLOCK.monotonic_ms() >= until:
            break
    print(
        f"{seed - options.seed} runs, {records.total()} records {dict(records)}, {transfers} transfers, "
        f"{commits} commits, {faults.total()} faults {dict(faults)}, {orders.total()} orders {dict(orders)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
