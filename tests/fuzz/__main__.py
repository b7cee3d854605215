"""`python -m tests.fuzz --frames N --seed S`: fuzz a broker of its own and the readers of files; tell what was seen.

Ends with 1 if the broker did something that it may not do. The same seed draws the same frames for each kind of
connection.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper
from tests.fuzz.broker_under_fire import UnderFire, under_fire
from tests.fuzz.files import fuzz_files
from tests.support.cluster import CLOCK

ROUND = 20_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=20_000)
    parser.add_argument("--files", type=int, default=2_000, help="log directories and znodes to damage")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        faults = fuzz_files(Path(name) / "files", options.files, options.seed)
        print(f"{options.files} damaged files: {len(faults)} faults", flush=True)
        server = EmbeddedZooKeeper(Path(name) / "zookeeper", free_ports(1)[0], Path(name) / "zookeeper.log")
        try:
            server.wait_until_ready(CLOCK)
            with under_fire(Path(name) / "broker", f"{server.connect}/fuzz") as target:
                faults += _frames(target, options.frames, options.seed)
        finally:
            server.stop()
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


def _frames(target: UnderFire, frames: int, seed: int) -> list[str]:
    found: list[str] = []
    for number, start in enumerate(range(0, frames, ROUND)):
        began = CLOCK.monotonic_ms()
        attacker, seen = target.attack(min(ROUND, frames - start), seed + number * 1_000_003)
        threads, descriptors = target.counts()
        took = (CLOCK.monotonic_ms() - began) / 1000
        print(
            f"{start + ROUND} frames, {took:.0f} s: {dict(attacker.ends)}; {target.memory_mb():.0f} MB, "
            f"{threads} threads, {descriptors} descriptors; bystander: {seen}",
            flush=True,
        )
        found += attacker.faults
    return found + target.tracebacks()


if __name__ == "__main__":
    sys.exit(main())
