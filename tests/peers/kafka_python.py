"""``python -m tests.peers.kafka_python``: kafka-python's integration tests, on a cluster that is there already.

Further arguments go to pytest: ``-k admin``. Its tests of SASL and TLS start brokers of their own and do not run
then; tests/contract has kafka-python over both.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.peers.comparison import Peer, Run, main
from tests.peers.listeners import SETTINGS
from tests.peers.outcomes import Outcomes, of_junit
from tests.peers.sources import needed, source_distribution
from tests.reference import kafka

VERSION = "3.0.12"
NEEDED = (
    "pytest-mock==3.17.0",
    "py==1.11.0",
    "lz4==4.4.5",
    "python-snappy==0.7.3",
    "zstandard==0.25.0",
    "crc32c==2.9.post0",
)
# The distribution lacks what its tests import of their own harness: a service that runs elsewhere needs nothing of it.
SERVICE = '''"""Services that run already."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def stop(self):
        pass

    def dump_logs(self):
        pass


SpawnedService = None
'''


def build(source: Path) -> None:
    """What is missing in the distribution."""
    (source / "test" / "__init__.py").touch()
    service = source / "test" / "service.py"
    if not service.exists():
        service.write_text(SERVICE)


def run(run: Run) -> Outcomes:
    report = run.directory / "report.xml"
    environment = {
        "KAFKA_URI": f"kafka://{run.cluster.brokers[0].address}",
        "KAFKA_VERSION": kafka.VERSION,
        "KAFKA_ROOT": str(run.directory),
        "PYTHONPATH": os.pathsep.join([str(run.source), str(needed("kafka-python", NEEDED))]),
    }
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", f"--junitxml={report}", "test/integration"]
    run.command(command, environment)
    return of_junit(report)


PEER = Peer(
    "kafka_python",
    "kafka-python",
    VERSION,
    lambda: source_distribution("kafka-python", VERSION),
    run,
    {**SETTINGS, "num.partitions": "4"},
    build=build,
)

if __name__ == "__main__":
    sys.exit(main(PEER))
