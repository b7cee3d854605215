"""From `pytest` on the command line to the first consumed record: our plugin, and Kafka 3.9.1 with its ZooKeeper.

    python -m benchmarks.first_record [--quick] [--json] [--rounds 3]

Both run the same test in a project of its own, in alternation: make a topic, produce a record with acks=all, read it.
Kafka's fixture starts ZooKeeper and then one broker, as this project's tests do. The stop afterwards is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import entry_points
from pathlib import Path

from tests.support.paths import ROOT

TEST = """\
import pathlib, time
import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

def test_first_record(kafka):
    address = {"bootstrap.servers": kafka.bootstrap_servers}
    admin = AdminClient(address)
    admin.create_topics([NewTopic("t", 1)])["t"].result(30)
    producer = confluent_kafka.Producer({**address, "acks": "all"})
    producer.produce("t", b"first")
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer({**address, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
    assert consumer.poll(30).value() == b"first"
    pathlib.Path("done").write_text(str(time.time()))
    consumer.close()
"""
KAFKA_FIXTURE = """\
import types, pathlib
import pytest
from tests.support.cluster import running_cluster
from tests.support.zookeeper_servers import ZooKeepers

@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    servers = ZooKeepers(tmp_path_factory)
    try:
        with running_cluster(["kafka"], tmp_path_factory.mktemp("kafka"), servers.address("java") + "/k") as cluster:
            yield types.SimpleNamespace(bootstrap_servers=cluster.bootstrap)
    finally:
        servers.stop()
"""
PLUGIN = "odradek.pytest_plugin"
KINDS = {"odradek": None, "kafka": KAFKA_FIXTURE}


def measure(fixture: str | None) -> float:
    """Seconds until the record was there."""
    with tempfile.TemporaryDirectory(prefix="odradek-first-") as name:
        project = Path(name)
        (project / "test_first.py").write_text(TEST)
        if fixture is not None:
            (project / "conftest.py").write_text(fixture)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_first.py"]
        if fixture is None and not any(each.value == PLUGIN for each in entry_points(group="pytest11")):
            command += ["-p", PLUGIN]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        began = time.time()
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stdout[-3000:])
        return float((project / "done").read_text()) - began


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--rounds", type=int, help="override the number of rounds (3)")
    options = parser.parse_args()
    runs: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(options.rounds or (1 if options.quick else 3)):
        for kind, fixture in KINDS.items():
            runs[kind].append(measure(fixture))
    if options.json:
        print(json.dumps(runs))
        return
    for kind, each in runs.items():
        print(f"{kind}: median {statistics.median(each):.2f} s of {', '.join(f'{s:.2f}' for s in each)}")


if __name__ == "__main__":
    main()
