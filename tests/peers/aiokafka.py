"""``python -m tests.peers.aiokafka``: those of aiokafka's tests that ask a broker.

Its wheel is installed apart from the environment; its tests are in its repository alone. Further arguments go to
pytest: ``-k transactional``.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.peers.comparison import Peer, Run, main
from tests.peers.listeners import SETTINGS, add_listeners, port_of, write_client_keys
from tests.peers.outcomes import Outcomes, of_lines
from tests.peers.sources import git_tag, needed
from tests.peers.tools import tools
from tests.reference import kafka
from tests.support.cluster import Cluster

VERSION = "0.14.0"
NEEDED = (f"aiokafka[snappy,lz4,zstd]=={VERSION}", "pytest-mock==3.17.0", "pytest-asyncio==1.5.0")
USERS = {name: name for name in ("admin", "test", "test2")}


def prepare(cluster: Cluster) -> None:
    authority, client = add_listeners(cluster, USERS)
    for broker in cluster.brokers:
        broker.settings["listener.name.ssl.ssl.client.auth"] = "required"
    write_client_keys(cluster.brokers[0].directory.parent / "keys", authority, client)


def run(run: Run) -> Outcomes:
    report = run.directory / "report.jsonl"
    # Apart from the package of the same tree, which is not built.
    suite = run.directory / "suite"
    shutil.copytree(run.source / "tests", suite / "tests")
    shutil.copy(Path(__file__).with_name("aiokafka_plugin.py"), suite)
    cluster = run.cluster
    environment = {
        "PEER_BROKER": cluster.brokers[0].address,
        "PEER_PORTS": " ".join(str(port_of(cluster, each)) for each in ("SSL", "SASL_PLAINTEXT", "SASL_SSL")),
        "PEER_KEYS": str(run.directory / "keys"),
        "PEER_TOOLS": str(tools(run.directory)),
        "PEER_VERSION": kafka.VERSION,
        "PEER_REPORT": str(report),
        "PYTHONPATH": os.pathsep.join([str(suite), str(needed("aiokafka", NEEDED))]),
    }
    command = [sys.executable, "-m", "pytest", "--noconftest", "-p", "aiokafka_plugin", "-q", "--tb=short"]
    command += ["-o", "asyncio_mode=auto", "--timeout=90", "--rootdir", str(suite)]
    run.command([*command, "tests"], environment, suite)
    return of_lines(report)


PEER = Peer(
    "aiokafka",
    "aiokafka",
    VERSION,
    lambda: git_tag("https://github.com/aio-libs/aiokafka.git", f"v{VERSION}"),
    run,
    {**SETTINGS, "num.partitions": "2"},
    prepare,
    minutes=30,
)

if __name__ == "__main__":
    sys.exit(main(PEER))
