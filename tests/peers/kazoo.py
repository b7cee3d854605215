"""``python -m tests.peers.kazoo``: kazoo's own test suite on the embedded ZooKeeper and on a real one.

It takes the source distribution of the installed kazoo from PyPI, runs its tests on one server of each kind and prints
which ended otherwise on the two. Exit code 1 when a test ended otherwise that docs/zookeeper.md does not name. Further
arguments go to pytest: ``-k lock``. Several minutes; not a part of ``make test``.
"""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from kazoo.version import __version__ as VERSION

from tests.peers.outcomes import Outcomes, of_junit
from tests.peers.sources import needed, source_distribution
from tests.support.paths import ROOT

# They restart the server and give the client 5 s to be back: not always enough for a JVM. docs/zookeeper.md names them.
DIFFERENT = {
    "kazoo.tests.test_client.TestClient.test_request_queuing_session_expired",
    "kazoo.tests.test_client.TestClient.test_request_queuing_session_recovered",
}
# What its tests import besides.
NEEDED = ("objgraph", "gevent", "eventlet")
JAVA_OPTIONS = (
    "-Dzookeeper.extendedTypesEnabled=true -Dfile.encoding=UTF-8 "
    "-Dzookeeper.DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU="
)


def run(kind: str, tests: Path, arguments: list[str]) -> Outcomes:
    """Outcome of every test."""
    with tempfile.TemporaryDirectory(prefix="odradek-peer-") as name:
        report = Path(name) / "report.xml"
        environment = {
            **os.environ,
            "ODRADEK_PEER_SERVER": kind,
            "PYTHONPATH": os.pathsep.join(map(str, (tests, ROOT, needed("kazoo", NEEDED)))),
            "ZOOKEEPER_VERSION": "3.9.5",
            "JDK_JAVA_OPTIONS": JAVA_OPTIONS,
        }
        suite = tests / "kazoo" / "tests"
        command = [sys.executable, "-m", "pytest", "-p", "tests.peers.kazoo_plugin", "-q", "--timeout=120"]
        command += ["--tb=short", "-o", "log_cli=false", f"--junitxml={report}", "--rootdir", str(tests), str(suite)]
        # Wants servers with SASL, which its own harness configures.
        command.append(f"--ignore={suite / 'test_sasl.py'}")
        subprocess.run([*command, *arguments], cwd=name, env=environment, check=False)
        return of_junit(report)


def main() -> int:
    """Exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.kazoo")
    parser.add_argument("--server", choices=["embedded", "java", "both"], default="both")
    chosen, arguments = parser.parse_known_args()
    tests = source_distribution("kazoo", VERSION)
    kinds = ["embedded", "java"] if chosen.server == "both" else [chosen.server]
    outcomes = {kind: run(kind, tests, arguments) for kind in kinds}
    for kind, found in outcomes.items():
        counts = collections.Counter(found.values())
        print(f"kazoo {VERSION} on {kind}: " + ", ".join(f"{count} {word}" for word, count in sorted(counts.items())))
    if len(kinds) == 1:
        return 0
    ours, real = outcomes["embedded"], outcomes["java"]
    different = {test for test in ours.keys() | real.keys() if ours.get(test) != real.get(test)}
    for test in sorted(different):
        print(f"{test}: {ours.get(test)} on the embedded server, {real.get(test)} on ZooKeeper")
    return 1 if different - DIFFERENT else 0


if __name__ == "__main__":
    sys.exit(main())
