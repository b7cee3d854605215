"""``python -m tests.peers.kafkajs``: kafkajs' tests, on three brokers at the ports that they name: 9092 to 9100.

Its package on npm carries no tests, its repository does. Needs git, node and npm. Further arguments go to jest:
``src/admin``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.peers.comparison import Peer, Run, main
from tests.peers.listeners import SETTINGS, add_listeners
from tests.peers.outcomes import Outcomes, of_lines
from tests.peers.sources import git_tag
from tests.peers.tools import script, tools
from tests.support.cluster import Cluster

VERSION = "v2.2.4"
USERS = {"test": "testtest", "bob": "bobbob", "alice": "alicealice"}
SCRAM = "SCRAM-SHA-256=[iterations=8192,password=testtestscram=256],SCRAM-SHA-512=[password=testtestscram=512]"

# jest writes its reports at the end, which a bound of time may cut off: this one says how a file's tests ended at once.
REPORTER = """const fs = require('fs')
module.exports = class {
  onTestResult(test, { testFilePath, testResults }) {
    const file = require('path').relative(process.cwd(), testFilePath)
    for (const { fullName, status } of testResults) {
      fs.appendFileSync(process.env.PEER_REPORT, JSON.stringify([`${file}: ${fullName}`, status]) + '\\n')
    }
  }
}
"""
# A test adds partitions with a tool of Kafka 2.4 in a container; this one runs it here, at a broker.
DOCKER = """[ "$1" = exec ] || exec echo kafka1
exec sh -c "$(echo "$5" | sed 's/^kafka-topics --zookeeper [^ ]*/kafka-topics.sh --bootstrap-server {broker}/')\""""

# They join with a rebalance timeout of 0, as kafkajs writes one that it is not told: the time for their SyncGroup is
# over at once, on both, and the quicker one decides how they end. tests/contract has it.
HURRIED = {
    f"src/{test}": "a rebalance timeout of 0"
    for test in (
        "broker/__tests__/heartbeat.spec.js: Broker > Heartbeat request",
        "broker/__tests__/offsetCommit.spec.js: Broker > OffsetCommit request",
        "broker/__tests__/offsetCommit.spec.js: Broker > OffsetCommit request with metadata",
        "broker/__tests__/offsetFetch.spec.js: Broker > OffsetFetch request",
        "consumer/__tests__/errorRecovery.spec.js: Consumer recovers from offset out of range",
    )
}


def prepare(cluster: Cluster) -> None:
    ports = {
        broker.broker_id: dict(zip(("PLAINTEXT", "SSL", "SASL_SSL"), range(first, first + 3), strict=True))
        for broker, first in zip(cluster.brokers, range(9092, 9101, 3), strict=True)
    }
    add_listeners(cluster, USERS, ports, "localhost")


def build(source: Path) -> None:
    """Its dependencies, without what they would run at their installation."""
    if not (source / "node_modules").is_dir():
        command = ["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--legacy-peer-deps"]
        subprocess.run(command, cwd=source, check=True)


def run(run: Run) -> Outcomes:
    programs = tools(run.directory)
    config = [str(programs / "kafka-configs.sh"), "--bootstrap-server", run.cluster.bootstrap, "--alter"]
    config += ["--add-config", SCRAM, "--entity-type", "users", "--entity-name", "testscram"]
    subprocess.run(config, check=True, stdout=subprocess.DEVNULL)
    script(programs / "docker", DOCKER.format(broker=run.cluster.brokers[0].address))
    reporter = run.directory / "reporter.js"
    reporter.write_text(REPORTER)
    report = run.directory / "report.jsonl"
    environment = {
        "NODE_ENV": "test",
        "KAFKA_VERSION": "2.4",
        "KAFKAJS_DEBUG_PROTOCOL_BUFFERS": "1",
        "PEER_REPORT": str(report),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    command = ["node_modules/.bin/jest", "--reporters=default", f"--reporters={reporter}"]
    # Most files of its suite encode and decode, and ask no broker.
    command += ["--testPathIgnorePatterns=/node_modules/|/src/protocol/"]
    # What follows an option that takes a list is taken for the list.
    run.command([*command, "--ci", "--forceExit", "--maxWorkers=2", "--no-watchman"], environment)
    return of_lines(report)


PEER = Peer(
    "kafkajs",
    "kafkajs",
    VERSION,
    lambda: git_tag("https://github.com/tulios/kafkajs.git", VERSION),
    run,
    {**SETTINGS, "num.partitions": "2", "default.replication.factor": "2"},
    prepare,
    build,
    brokers=3,
    minutes=40,
    explained=HURRIED,
)

if __name__ == "__main__":
    sys.exit(main(PEER))
