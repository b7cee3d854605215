"""Runs another project's suite on clusters of both kinds and tells which of its tests end otherwise on ours.

``python -m tests.peers.NAME [--kind odradek|kafka|both] [--brokers N] [--mixed]``; what comes after that goes to the
suite itself. Exit code 1 when a test that passes on Apache Kafka does not pass on ours, unless its peer explains it.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from broker.dev.processes import free_ports
from tests.peers.outcomes import Outcomes
from tests.support.cluster import CLOCK, Cluster, Kind
from tests.support.zookeeper_servers import zookeeper_server

WORDS = ("passed", "failed", "skipped", "unfinished")
MIXED: tuple[Kind, Kind] = ("odradek", "kafka")


@dataclass(frozen=True)
class Run:
    """One run of a suite on one cluster."""

    cluster: Cluster
    source: Path
    """Where the suite is."""
    directory: Path
    """For what it writes."""
    seconds: float
    """After these it is ended."""
    arguments: Sequence[str]
    """Further ones from the command line."""

    @property
    def output(self) -> Path:
        """What its command printed."""
        return self.directory / "output.txt"

    def command(self, command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None) -> None:
        """Run it to its end or for as long as it may; its exit code says nothing that the outcomes do not."""
        with self.output.open("ab") as output:
            process = subprocess.Popen(
                [*command, *self.arguments],
                cwd=folder or self.source,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                process.wait(self.seconds)
            except subprocess.TimeoutExpired:
                print(f"ended after {self.seconds:.0f} s")
            finally:
                # Its children too, also those that outlive it.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@dataclass(frozen=True)
class Peer:
    """A suite: where it is, what it needs and how it is run."""

    command: str
    """The name of its module."""
    name: str
    version: str
    fetch: Callable[[], Path]
    """Its source; not called with --source."""
    run: Callable[[Run], Outcomes]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the brokers."""
    prepare: Callable[[Cluster], None] = lambda cluster: None
    """Changes a cluster before it starts."""
    build: Callable[[Path], None] = lambda source: None
    """Builds what is run, in the source's tree."""
    brokers: int = 1
    """How many, unless the command says it."""
    minutes: float = 20
    explained: Mapping[str, str] = field(default_factory=dict)
    """Tests that may end otherwise, and why."""


def columns(chosen: argparse.Namespace) -> dict[str, list[Kind]]:
    """What the suite is run on: the kinds of brokers by the name of the cluster."""
    kinds: tuple[Kind, ...] = ("odradek", "kafka")
    found: dict[str, list[Kind]] = {}
    for kind in kinds:
        if chosen.kind in (kind, "both"):
            found[kind] = [kind] * chosen.brokers
    if chosen.mixed:
        found["mixed"] = [MIXED[number % 2] for number in range(max(3, chosen.brokers))]
    return found


@contextlib.contextmanager
def workplace(keep: Path | None) -> Iterator[Path]:
    """A directory that is gone afterwards, unless it is to be kept."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="odradek-peer-") as name:
        yield Path(name)


def run_on(
    peer: Peer, kinds: Sequence[Kind], zookeeper: str, directory: Path, run: Callable[[Cluster, Path], Run]
) -> Outcomes:
    """The outcomes on one cluster, which is there for this run alone."""
    cluster = Cluster(kinds, directory, zookeeper, peer.settings)
    peer.prepare(cluster)
    try:
        cluster.start()
        return peer.run(run(cluster, directory))
    finally:
        cluster.stop()


def report(peer: Peer, outcomes: Mapping[str, Outcomes], seconds: Mapping[str, float]) -> bool:
    """Print the table and what differs; whether something is not as it should be."""
    print(f"\n{peer.name} {peer.version}")
    print(f"{'':10}" + "".join(f"{word:>12}" for word in (*WORDS, "seconds")))
    for name, found in outcomes.items():
        counts = collections.Counter(found.values())
        print(f"{name:10}" + "".join(f"{counts[word]:12}" for word in WORDS) + f"{seconds[name]:12.0f}")
    is_wrong = not all(outcomes.values())
    reference = outcomes.get("kafka")
    for test in sorted({test for found in outcomes.values() for test in found}):
        ended = {name: found.get(test, "absent") for name, found in outcomes.items()}
        expected = reference.get(test, "absent") if reference is not None else "passed"
        others = [word for name, word in ended.items() if name != "kafka"]
        differs = len(set(ended.values())) > 1
        bad = expected == "passed" and any(word not in ("passed", "skipped") or differs for word in others)
        if differs or bad:
            why = peer.explained.get(test)
            print(
                f"{test}: " + ", ".join(f"{word} on {name}" for name, word in ended.items()), f"({why})" if why else ""
            )
            is_wrong |= bad and why is None
        elif "failed" in ended.values():
            print(f"{test}: failed on all")
    return is_wrong


def main(peer: Peer) -> int:
    """Exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.peers.{peer.command}")
    parser.add_argument("--kind", choices=["odradek", "kafka", "both"], default="both")
    parser.add_argument("--brokers", type=int, default=peer.brokers)
    parser.add_argument("--mixed", action="store_true", help="on a cluster of both kinds, too")
    parser.add_argument("--source", type=Path, help="a tree of the suite's source, instead of fetching it")
    parser.add_argument("--minutes", type=float, default=peer.minutes, help="bound of each run")
    parser.add_argument("--keep", type=Path, help="where output and logs stay")
    chosen, further = parser.parse_known_args()
    # Who ends this command ends what it started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    source = chosen.source.resolve() if chosen.source else peer.fetch()
    peer.build(source)

    def run(cluster: Cluster, directory: Path) -> Run:
        return Run(cluster, source, directory, chosen.minutes * 60, further)

    outcomes: dict[str, Outcomes] = {}
    seconds: dict[str, float] = {}
    with workplace(chosen.keep) as directory:
        server = zookeeper_server("embedded", directory / "zookeeper", free_ports(1)[0])
        try:
            server.wait_until_ready(CLOCK)
            for name, kinds in columns(chosen).items():
                begun = time.monotonic()
                outcomes[name] = run_on(peer, kinds, f"{server.connect}/{name}", directory / name, run)
                seconds[name] = time.monotonic() - begun
        finally:
            server.stop()
    return report(peer, outcomes, seconds)
