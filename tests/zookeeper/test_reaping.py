"""Containers and nodes with a time to live go and stay as on ZooKeeper, which looks at them so often here too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from controller.zk.embedded import codes
from controller.zk.embedded.jute import int_bytes, text_bytes
from tests.support import zookeeper_wire as wire
from tests.support.cluster import CLOCK
from tests.support.zookeeper_wire import WireClient
from tests.zookeeper.conftest import StartServer, java_zookeeper

INTERVAL_MS = 400
CONTAINER, TTL = 4, 5
PLAN: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("/r", codes.CREATE, {}),
    ("/r/never-used", codes.CREATE_CONTAINER, {"flags": CONTAINER}),
    ("/r/used", codes.CREATE_CONTAINER, {"flags": CONTAINER}),
    ("/r/used/child", codes.CREATE, {}),
    ("/r/kept", codes.CREATE_CONTAINER, {"flags": CONTAINER}),
    ("/r/kept/child", codes.CREATE, {}),
    ("/r/short", codes.CREATE_TTL, {"flags": TTL, "ttl": 50}),
    ("/r/long", codes.CREATE_TTL, {"flags": TTL, "ttl": 60_000}),
    ("/r/parent", codes.CREATE_TTL, {"flags": TTL, "ttl": 50}),
    ("/r/parent/child", codes.CREATE_TTL, {"flags": TTL, "ttl": 60_000}),
)


def seen(address: str) -> tuple[object, ...]:
    """What the server takes away by itself: answers, events, what is left, how many transactions it took."""
    client = WireClient(address)
    answers = []
    for path, kind, options in PLAN:
        answers.append(client.call(kind, wire.create_bytes(path, b"", **options))[1])
    client.call(codes.ADD_WATCH, text_bytes("/r") + int_bytes(1))
    before = client.call(codes.DELETE, wire.path_version("/r/used/child", -1))[0]
    limit = CLOCK.monotonic_ms() + 30_000
    gone: set[str] = set()
    while not gone >= {"/r/used", "/r/short"}:
        assert CLOCK.monotonic_ms() < limit, f"only {gone} went"
        client.call(codes.SYNC, text_bytes("/"))
        gone = {path for _, kind, path in client.events if kind == codes.NODE_DELETED}
    # Two more rounds: what has to stay stays.
    end = CLOCK.monotonic_ms() + 3 * INTERVAL_MS
    while CLOCK.monotonic_ms() < end:
        after = client.call(codes.SYNC, text_bytes("/"))[0]
    left = sorted(client.call(codes.GET_CHILDREN, wire.read_bytes("/r"))[2].texts())
    client.close()
    return answers, sorted((kind, path) for _, kind, path in client.events), left, after - before


def test_the_same_nodes_go(start: StartServer, tmp_path: Path) -> None:
    real = java_zookeeper(tmp_path / "java", f"-Dznode.container.checkIntervalMs={INTERVAL_MS}")
    try:
        real.wait_until_ready(CLOCK)
        expected = seen(real.connect)
    finally:
        real.stop()
    assert expected[2] == ["kept", "long", "never-used", "parent"]
    assert seen(start("--in-memory", "--reap-interval-ms", str(INTERVAL_MS)).connect) == expected


def test_containers_that_nobody_uses_go_when_told(start: StartServer, tmp_path: Path) -> None:
    server = start("--in-memory", "--reap-interval-ms", str(INTERVAL_MS), "--container-never-used-ms", "50")
    client = WireClient(server.connect)
    client.call(codes.CREATE_CONTAINER, wire.create_bytes("/unused", b"", CONTAINER))
    limit = CLOCK.monotonic_ms() + 30_000
    while client.call(codes.EXISTS, wire.read_bytes("/unused"))[1] != codes.NO_NODE:
        assert CLOCK.monotonic_ms() < limit, "the container stays"
    client.close()
