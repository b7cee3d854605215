"""``python -m tests.peers.sarama``: sarama's functional tests, behind toxiproxy on five brokers.

Needs Go of the version that sarama names, which fetches sarama and toxiproxy, and the ports that the tests name: 8474
and 29091 to 29095 of 127.0.0.1. Further arguments go to `go test`, as ``-run FuncTxn``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

from broker.dev.polling import wait_until
from broker.dev.processes import ManagedProcess, free_ports, is_listening
from tests.peers.comparison import Peer, Run, main
from tests.peers.compose import docker
from tests.peers.outcomes import Outcomes, of_go
from tests.peers.sources import go_module, kept
from tests.reference import kafka
from tests.support.cluster import CLOCK, HOST, Cluster

VERSION = "v1.61.1"
TOXIPROXY = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0"
CONTROL_PORT = 8474
FIRST_PORT = 29091
# As its docker-compose.yml and the server.properties of Kafka's distribution have them.
SETTINGS = {
    "default.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "auto.create.topics.enable": "false",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,LOCAL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}


def fetch() -> Path:
    folder = kept("toxiproxy-2.12.0")
    if not (folder / "server").exists():
        subprocess.run(["go", "install", TOXIPROXY], env={**os.environ, "GOBIN": str(folder)}, check=True)
    return go_module("github.com/IBM/sarama", VERSION)


def prepare(cluster: Cluster) -> None:
    """Ids and racks from 1 on; a listener for brokers, and one for clients that say the proxy's address."""
    for number, (broker, port) in enumerate(zip(cluster.brokers, free_ports(len(cluster.brokers)), strict=True)):
        broker.broker_id = number + 1
        broker.settings |= {
            "broker.id": str(broker.broker_id),
            "broker.rack": str(broker.broker_id),
            "listeners": f"INTERNAL://{broker.address},LOCAL://{HOST}:{port}",
            "advertised.listeners": f"INTERNAL://{broker.address},LOCAL://{HOST}:{FIRST_PORT + number}",
        }


def proxies(run: Run) -> ManagedProcess:
    """A running toxiproxy with a way to each broker."""
    command = [str(kept("toxiproxy-2.12.0") / "server"), "-host", HOST, "-port", str(CONTROL_PORT)]
    process = ManagedProcess("toxiproxy", command, run.directory / "proxies.log")
    assert wait_until(lambda: is_listening(HOST, CONTROL_PORT), CLOCK, 10_000), process.log_tail()
    for number, broker in enumerate(run.cluster.brokers):
        upstream = broker.settings["listeners"].rpartition("://")[2]
        way = {"name": f"kafka{number + 1}", "listen": f"{HOST}:{FIRST_PORT + number}", "upstream": upstream}
        body = json.dumps(way | {"enabled": True}).encode()
        urllib.request.urlopen(f"http://{HOST}:{CONTROL_PORT}/proxies", body, timeout=10).close()
    return process


def run(run: Run) -> Outcomes:
    files = run.source.glob("functional_*_test.go")
    tests = [name for file in files for name in re.findall(r"^func (Test\w+)\(t ", file.read_text(), re.MULTILINE)]
    process = proxies(run)
    try:
        with docker(run.cluster, run.directory) as programs:
            # Without TOXIPROXY_ADDR, it takes the cluster for its own and runs what goes into a container, too.
            environment = {"KAFKA_VERSION": kafka.VERSION, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
            command = ["go", "test", "-json", "-count=1", "-tags=functional", f"-timeout={int(run.seconds)}s"]
            run.command([*command, f"-run=^({'|'.join(tests)})$", "."], environment)
    finally:
        process.stop()
    return of_go(run.output)


PEER = Peer("sarama", "sarama", VERSION, fetch, run, SETTINGS, prepare, brokers=5)

if __name__ == "__main__":
    sys.exit(main(PEER))
