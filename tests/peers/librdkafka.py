"""``python -m tests.peers.librdkafka``: librdkafka's own test runner, in its quick mode, without what needs no broker.

Needs git, a C and a C++ compiler, and the headers that librdkafka wants; `--source` takes an unpacked release instead
of git's tag. The runner's variables work, too: ``TESTS=0081,0082 SUBTESTS=ListOffsets TEST_LEVEL=3``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.peers.comparison import Peer, Run, main
from tests.peers.outcomes import Outcomes
from tests.peers.sources import git_tag
from tests.peers.tools import tools
from tests.reference import kafka

VERSION = "v2.14.2"
# As its own harness configures brokers.
SETTINGS = {
    "num.partitions": "4",
    "broker.rack": "RACK1",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    # 0052 writes records of 1970, which the first look at retention, 30 s after a broker's start, would take.
    "log.retention.ms": "-1",
}
# Each number by itself, as one that crashes takes the others of its process along; what has been begun and is not told
# to have ended then has failed.
EACH = """printf '%s\\n' {numbers} | xargs -P {jobs} -I NUMBER sh -c '
TESTS=NUMBER ./test-runner -Q -L -p1 -S -V {version}; echo "=== Process of NUMBER is over ===" >&2'"""
JOBS = 4
_BEGUN = re.compile(r"=+ Running test (\S+) =+")
_ENDED = re.compile(r"=+ Test (\S+) (PASSED|FAILED|SKIPPED) =+")
_FAILED = re.compile(r'### Test "(\S+)" failed')
_OVER = re.compile(r"=== Process of (\d+) is over ===")


def fetch() -> Path:
    return git_tag("https://github.com/confluentinc/librdkafka.git", VERSION)


def build(source: Path) -> None:
    """The library and the runner, once."""
    if (source / "tests" / "test-runner").exists():
        return
    jobs = f"-j{os.cpu_count()}"
    for command in (["./configure"], ["make", jobs, "libs"], ["make", jobs, "-C", "tests", "build"]):
        subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL)


def of_runner(output: Path) -> Outcomes:
    """By what the runner says as it goes, as its report is missing when time is over."""
    found: Outcomes = {}
    for line in output.read_text(encoding="utf-8", errors="replace").splitlines():
        if match := _BEGUN.search(line):
            found.setdefault(match[1], "unfinished")
        elif match := _ENDED.search(line):
            found[match[1]] = match[2].lower()
        elif match := _FAILED.search(line):
            found[match[1]] = "failed"
        elif match := _OVER.search(line):
            crashed = [test for test, ended in found.items() if test.startswith(match[1]) and ended == "unfinished"]
            found |= dict.fromkeys(crashed, "failed")
    return found


def run(run: Run) -> Outcomes:
    tools(run.directory)
    config = run.directory / "test.conf"
    config.write_text(f"metadata.broker.list={run.cluster.bootstrap}\ntest.timeout.multiplier=2\n")
    environment = {
        "RDKAFKA_TEST_CONF": str(config),
        "BROKERS": run.cluster.bootstrap,
        "KAFKA_PATH": str(run.directory),
        "LD_LIBRARY_PATH": "../src:../src-cpp",
    }
    chosen = os.environ.get("TESTS")
    # Those from 1000 on are for people who look on.
    files = (run.source / "tests").glob("0[0-9][0-9][0-9]-*.c*")
    numbers = chosen.split(",") if chosen else sorted({file.name[:4] for file in files})
    script = EACH.format(numbers=" ".join(numbers), jobs=JOBS, version=kafka.VERSION)
    run.command(["sh", "-c", script], environment, run.source / "tests")
    return of_runner(run.output)


PEER = Peer(
    "librdkafka",
    "librdkafka",
    VERSION,
    fetch,
    run,
    SETTINGS,
    build=build,
    brokers=3,
    minutes=30,
    explained={"0084_destroy_flags": "it gives the client 200 ms to end, which a busy machine may not have"},
)

if __name__ == "__main__":
    sys.exit(main(PEER))
