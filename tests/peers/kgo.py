"""``python -m tests.peers.kgo``: the tests of franz-go's client, kgo, and of its admin client, kadm.

Needs Go of the version that franz-go names, which fetches both modules. Further arguments go to `go test`:
``-run Txn``. KGO_TEST_RECORDS is how many records each of the tests of groups and transactions moves.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.peers.comparison import Peer, Run, main
from tests.peers.outcomes import Outcomes, of_go
from tests.peers.sources import go_module

VERSION = "v1.22.3"
KADM_VERSION = "v1.20.0"
MODULE = "github.com/twmb/franz-go"
RECORDS = "50000"


def fetch() -> Path:
    return go_module(MODULE, VERSION)


def run(run: Run) -> Outcomes:
    environment = {
        "KGO_SEEDS": run.cluster.bootstrap,
        "KGO_TEST_RF": str(min(3, len(run.cluster.brokers))),
        "KGO_TEST_RECORDS": os.environ.get("KGO_TEST_RECORDS", RECORDS),
        "KGO_LOG_LEVEL": "none",
    }
    command = ["go", "test", "-json", "-count=1", f"-timeout={int(run.seconds)}s", "."]
    run.command(command, environment, run.source / "pkg" / "kgo")
    run.command(command, environment, go_module(f"{MODULE}/pkg/kadm", KADM_VERSION))
    return of_go(run.output)


PEER = Peer("kgo", "franz-go's kgo and kadm", f"{VERSION}, {KADM_VERSION}", fetch, run)

if __name__ == "__main__":
    sys.exit(main(PEER))
