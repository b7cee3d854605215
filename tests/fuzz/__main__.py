"""`python -m tests.fuzz --frames N --seed S`: fuzz a broker of its own and the readers of files; tell what was seen.

Ends with 1 if the broker did something that it may not do, or if a bystander waits more than twice as long as beside as
many good frames. The same seed draws the same frames for each kind of
connection.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from pathlib import Path

from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper
from tests.fuzz.alone import Alone
from tests.fuzz.broker_under_fire import UnderFire, under_fire
from tests.fuzz.files import fuzz_files
from tests.fuzz.latency import Latency
from tests.support import wire
from tests.support.cluster import CLOCK

MEMORY = Path("/dev/shm")
"""Where damaged files need not wait for a disk."""
ROUND = 20_000
CONTROL = 4
"""One good frame for so many bad ones."""
QUIET_S = 3
STALL_MS = 60
"""Of the bystander, from which on it is told what was under way."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=20_000)
    parser.add_argument("--files", type=int, default=2_000, help="log directories and znodes to damage")
    parser.add_argument("--alone", type=int, default=0, help="frames sent one by one, to see what each costs others")
    parser.add_argument("--large", action="store_true", help="large frames, one by one, to see what each costs others")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        faults = fuzz_files(Path(name) / "files", options.files, options.seed)
    with tempfile.TemporaryDirectory() as name:
        print(f"{options.files} damaged files: {len(faults)} faults", flush=True)
        server = EmbeddedZooKeeper(Path(name) / "zookeeper", free_ports(1)[0], Path(name) / "zookeeper.log")
        try:
            server.wait_until_ready(CLOCK)
            with under_fire(Path(name) / "broker", f"{server.connect}/fuzz") as target:
                ports = target.guarded.ports[0]
                costs = Alone(ports, options.seed).run(options.alone) if options.alone else []
                for cost in itertools.chain(
                    costs, Alone(ports, options.seed).large(options.seed) if options.large else ()
                ):
                    print(cost, flush=True)
                if options.frames:
                    faults += _frames(target, options.frames, options.seed)
        finally:
            server.stop()
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


def _frames(target: UnderFire, frames: int, seed: int) -> list[str]:
    found: list[str] = []
    latency = Latency()
    for number, start in enumerate(range(0, frames, ROUND)):
        count, own_seed = min(ROUND, frames - start), seed + number * 1_000_003
        with target.watched() as seen:
            wire.pause(QUIET_S)
        latency.add("quiet", seen, 0, QUIET_S)
        began = CLOCK.monotonic_ms()
        _, seen = target.attack(count // CONTROL, own_seed, harmless=True)
        latency.add("good", seen, count // CONTROL, (CLOCK.monotonic_ms() - began) / 1000)
        began = CLOCK.monotonic_ms()
        attacker, seen = target.attack(count, own_seed)
        took = (CLOCK.monotonic_ms() - began) / 1000
        latency.add("bad", seen, count, took)
        latency.note_stalls(seen, attacker.sent, STALL_MS)
        threads, descriptors = target.counts()
        print(
            f"{start + count} frames, {took:.0f} s: {dict(attacker.ends)}; {target.memory_mb():.0f} MB, "
            f"{threads} threads, {descriptors} descriptors, {target.replicas()} replicas; bystander: {seen}",
            flush=True,
        )
        found += attacker.faults
    for line in (*latency.lines(), latency.suspects()):
        print(line, flush=True)
    print(f"{target.forget_made()} replicas without the topics that frames made, {target.counts()[1]} descriptors")
    return found + latency.faults() + target.tracebacks()


if __name__ == "__main__":
    sys.exit(main())
