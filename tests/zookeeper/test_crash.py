"""kill -9 of the embedded server under writes: what it acknowledged is there afterwards."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper
from controller.zk.embedded import codes
from tests.support import zookeeper_wire as wire
from tests.support.cluster import CLOCK
from tests.support.zookeeper_wire import WireClient

ROUNDS = int(os.environ.get("ODRADEK_ZOOKEEPER_KILLS", "3"))
WRITES_BEFORE_A_KILL = 200


def test_acknowledged_writes_survive_kills(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    acknowledged: dict[str, bytes] = {}
    highest = 0
    for number in range(ROUNDS):
        server = EmbeddedZooKeeper(tmp_path / "data", port, tmp_path / "log")
        try:
            server.wait_until_ready(CLOCK)
            client = WireClient(server.connect)
            zxid, _, reader = client.call(codes.GET_CHILDREN, wire.read_bytes("/"))
            assert zxid > highest, "zxids go on"
            assert {f"/{name}" for name in reader.texts()} >= acknowledged.keys()
            for path, data in acknowledged.items():
                assert client.call(codes.GET_DATA, wire.read_bytes(path))[2].buffer() == data
            enough = threading.Event()
            killer = threading.Thread(target=lambda done=enough, it=server: (done.wait(60), it.process.kill()))
            killer.start()
            written = 0
            try:
                while True:
                    path, data = f"/n-{number}-{written}", os.urandom(20)
                    zxid, code, _ = client.call(codes.CREATE, wire.create_bytes(path, data))
                    assert code == codes.OK
                    acknowledged[path], highest = data, zxid
                    written += 1
                    if written == WRITES_BEFORE_A_KILL:
                        enough.set()
            except (EOFError, OSError):
                pass
            killer.join()
            assert written >= WRITES_BEFORE_A_KILL
        finally:
            server.stop()


def test_ephemerals_go_with_their_session_after_a_restart(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    server = EmbeddedZooKeeper(tmp_path / "data", port, tmp_path / "log")
    server.wait_until_ready(CLOCK)
    kept, lost = WireClient(server.connect, 30_000), WireClient(server.connect, 1_000)
    for name, client in (("/kept", kept), ("/lost", lost)):
        assert client.call(codes.CREATE, wire.create_bytes(name, b"", 1))[1] == codes.OK
    server.process.kill()
    server = EmbeddedZooKeeper(tmp_path / "data", port, tmp_path / "log")
    try:
        server.wait_until_ready(CLOCK)
        again = WireClient(server.connect, 30_000, (kept.session_id, kept.password))
        assert again.session_id == kept.session_id
        limit = CLOCK.monotonic_ms() + 30_000
        while again.call(codes.EXISTS, wire.read_bytes("/lost"))[1] != codes.NO_NODE:
            assert CLOCK.monotonic_ms() < limit, "an ephemeral node outlives its session"
        assert again.call(codes.EXISTS, wire.read_bytes("/kept"))[1] == codes.OK
        wrong = WireClient(server.connect, 30_000, (kept.session_id, bytes(16)))
        assert wrong.session_id == 0
    finally:
        server.stop()
