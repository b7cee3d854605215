"""Logs are closed and become snapshots while clients write; killed in the midst of it, everything is there again."""

from __future__ import annotations

import threading
from pathlib import Path

from controller.zk.embedded import codes
from controller.zk.embedded.snapshots import files
from tests.support import zookeeper_wire as wire
from tests.support.zookeeper_wire import WireClient
from tests.zookeeper.conftest import StartServer

LOG_BYTES = 20_000
ROUNDS = 3


def test_logs_become_snapshots_under_writes(start: StartServer, tmp_path: Path) -> None:
    directory = tmp_path / "data"
    server = start("--data-dir", str(directory), "--log-bytes", str(LOG_BYTES))
    acknowledged: list[str] = []
    snapshots: set[int] = set()
    for number in range(ROUNDS):
        client = WireClient(server.connect)
        names = client.call(codes.GET_CHILDREN, wire.read_bytes("/"))[2].texts()
        assert {name for name in names if name != "zookeeper"} >= set(acknowledged), "an acknowledged node is lost"
        enough = threading.Event()
        killer = threading.Thread(target=lambda done=enough, it=server.process: (done.wait(120), it.kill()))
        killer.start()
        seen_before = len(snapshots)
        written = 0
        try:
            while True:
                name = f"n-{number}-{written}"
                assert client.call(codes.CREATE, wire.create_bytes(f"/{name}", b"x" * 100))[1] == codes.OK
                acknowledged.append(name)
                written += 1
                if written % 100 == 0:
                    snapshots.update(zxid for zxid, _ in files(directory, "snapshot"))
                    if len(snapshots) > seen_before:
                        enough.set()
        except (EOFError, OSError):
            pass
        killer.join()
        assert enough.is_set(), "no snapshot was made"
        server.start()
    client = WireClient(server.connect)
    assert set(client.call(codes.GET_CHILDREN, wire.read_bytes("/"))[2].texts()) >= set(acknowledged)
    # Logs before a snapshot are removed: far less is left than was written.
    written_bytes = len(acknowledged) * 150
    assert sum(path.stat().st_size for _, path in files(directory, "log")) < max(written_bytes, 10 * LOG_BYTES)
    client.close()
