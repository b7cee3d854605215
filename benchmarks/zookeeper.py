"""The embedded ZooKeeper beside a real one, in alternation: writes, reads, watches, sessions, start and memory.

    python -m benchmarks.zookeeper [--quick] [--json] [--rounds 3] [--znodes 100000] [--partitions 1000]

Both keep a log with an fsync before each answer, in one file system. The client is one program of raw frames for both.
One create at a time shows the fsync, 64 under way the server. Fan-out: one change that a thousand connections watch,
until the last has heard of it. Memory is resident, after the start and with so many znodes of 100 bytes; "started
again" is that server after a kill, until it serves. A controller failover is one of three Odradek brokers: from the
removal of `/controller` until a topic made after it is known everywhere.
"""

from __future__ import annotations

import argparse
import json
import selectors
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.failover import controller_failover, known_everywhere, limit_s, wait
from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper, ZooKeeperServer
from controller.zk.embedded import codes
from tests.support import zookeeper_wire as wire
from tests.support.cluster import running_cluster
from tests.support.zookeeper_servers import KINDS, ZooKeeperKind, zookeeper_server
from tests.support.zookeeper_wire import WireClient

IN_FLIGHT = 64
BATCH = 1_000
DATA = b"x" * 100
Server = EmbeddedZooKeeper | ZooKeeperServer
# name -> text, digits
ROWS = {
    "start_s": ("start, s", 2),
    "start_mb": ("memory after it, MB", 0),
    "session_ms": ("session opened, ms", 2),
    "create_one": ("creates a second, one at a time", 0),
    "create_many": (f"creates a second, {IN_FLIGHT} under way", 0),
    "read_one": ("reads a second, one at a time", 0),
    "read_many": (f"reads a second, {IN_FLIGHT} under way", 0),
    "fan_out_ms": ("fan-out of one change, ms", 1),
    "fill": ("creates a second in multis of 1,000", 0),
    "filled_mb": ("memory with all znodes, MB", 0),
    "again_s": ("started again with them, s", 2),
    "controller_s": ("controller failover, s", 2),
}


def resident_mb(server: Server) -> float:
    for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no resident size")


def started(kind: ZooKeeperKind, directory: Path, port: int) -> tuple[Server, float]:
    """A server that serves, and the seconds until then."""
    began = time.perf_counter()
    server = zookeeper_server(kind, directory, port)
    while not server.is_ready():
        time.sleep(0.002)
        if time.perf_counter() - began > 300:
            raise RuntimeError(server.process.log_tail())
    return server, time.perf_counter() - began


def rate(client: WireClient, requests: Iterator[tuple[int, bytes]], in_flight: int) -> float:
    """Answers a second."""
    began, count = time.perf_counter(), 0
    under_way: list[int] = []
    for kind, body in requests:
        under_way.append(client.send(kind, body))
        if len(under_way) == in_flight:
            # The first half, so that the server is never without work.
            for xid in under_way[: max(1, in_flight // 2)]:
                assert client.answer(xid)[1] == codes.OK
            del under_way[: max(1, in_flight // 2)]
        count += 1
    for xid in under_way:
        assert client.answer(xid)[1] == codes.OK
    return count / (time.perf_counter() - began)


def fan_out_ms(server: Server, connections: int) -> float:
    """From a change until the last connection has its event."""
    clients = [WireClient(server.connect) for _ in range(connections)]
    owner = WireClient(server.connect)
    owner.call(codes.CREATE, wire.create_bytes("/watched", b""))
    times = []
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
        for _ in range(5):
            for client in clients:
                assert client.call(codes.GET_DATA, wire.read_bytes("/watched", True))[1] == codes.OK
            began, missing = time.perf_counter(), set(clients)
            owner.call(codes.SET_DATA, wire.set_bytes("/watched", DATA, -1))
            while missing:
                for key, _ in selector.select(30):
                    key.data.frame()
                    missing.discard(key.data)
            times.append((time.perf_counter() - began) * 1000)
    for client in [*clients, owner]:
        client.close()
    return statistics.median(times)


def measure(kind: ZooKeeperKind, directory: Path, scale: float, znodes: int, partitions: int) -> dict[str, float]:
    port = free_ports(1)[0]
    server, start_s = started(kind, directory / "zookeeper", port)
    try:
        found = {"start_s": start_s, "start_mb": resident_mb(server)}
        began, sessions = time.perf_counter(), [WireClient(server.connect) for _ in range(int(200 * scale))]
        found["session_ms"] = (time.perf_counter() - began) / len(sessions) * 1000
        for client in sessions:
            client.close()
        client = WireClient(server.connect)
        client.call(codes.CREATE, wire.create_bytes("/n", DATA))

        def creates(name: str, count: float) -> Iterator[tuple[int, bytes]]:
            return ((codes.CREATE, wire.create_bytes(f"/n/{name}{number}", DATA)) for number in range(int(count)))

        def reads(count: float) -> Iterator[tuple[int, bytes]]:
            return ((codes.GET_DATA, wire.read_bytes("/n")) for _ in range(int(count)))

        # A JVM compiles what is called often.
        rate(client, creates("warm", 2_000 * scale), IN_FLIGHT)
        rate(client, reads(10_000 * scale), IN_FLIGHT)
        found["create_one"] = rate(client, creates("one", 1_000 * scale), 1)
        found["create_many"] = rate(client, creates("many", 20_000 * scale), IN_FLIGHT)
        found["read_one"] = rate(client, reads(5_000 * scale), 1)
        found["read_many"] = rate(client, reads(30_000 * scale), IN_FLIGHT)
        found["fan_out_ms"] = fan_out_ms(server, int(1_000 * scale))
        batches = (
            [(codes.CREATE, wire.create_bytes(f"/n/{number}", DATA)) for number in range(start, start + BATCH)]
            for start in range(0, znodes, BATCH)
        )
        found["fill"] = BATCH * rate(client, ((codes.MULTI, wire.multi_bytes(ops)) for ops in batches), 2)
        found["filled_mb"] = resident_mb(server)
        server.process.kill()
        server, found["again_s"] = started(kind, directory / "zookeeper", port)
        if partitions:
            found["controller_s"] = failover(directory / "brokers", f"{server.connect}/failover", partitions)
        return found
    finally:
        server.stop()


def failover(directory: Path, connect: str, partitions: int) -> float:
    """Seconds of a controller failover with so many partitions."""
    from confluent_kafka.admin import AdminClient, NewTopic

    limit = limit_s(partitions)
    settings = {"auto.leader.rebalance.enable": "false"}
    with running_cluster(["odradek"] * 3, directory, connect, settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        many = NewTopic("many", partitions, 3)
        admin.create_topics([many], operation_timeout=limit, request_timeout=limit)["many"].result(limit)
        wait(lambda: known_everywhere(cluster, "many", partitions), limit, f"{partitions} partitions known", 50)
        return controller_failover(cluster, limit)


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, a fifth of everything, no brokers")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument(
        "--server", choices=KINDS, help="only this one; a million znodes are too many for a JVM of 256 MB"
    )
    parser.add_argument("--rounds", type=int, help="times each kind is measured (3)")
    parser.add_argument("--znodes", type=int, help="how many for the memory (100,000)")
    parser.add_argument("--partitions", type=int, help="of the controller failover (1,000); 0: none")
    options = parser.parse_args()
    quick = options.quick
    rounds = options.rounds or (1 if quick else 3)
    znodes = options.znodes or (20_000 if quick else 100_000)
    partitions = options.partitions if options.partitions is not None else (0 if quick else 1_000)
    runs: dict[ZooKeeperKind, list[dict[str, float]]] = {kind: [] for kind in KINDS if options.server in (None, kind)}
    for _ in range(rounds):
        for kind in runs:
            with tempfile.TemporaryDirectory(prefix="odradek-zookeeper-") as name:
                runs[kind].append(measure(kind, Path(name), 0.2 if quick else 1, znodes, partitions))
    medians = {
        kind: {name: statistics.median(run[name] for run in each) for name in ROWS if name in each[0]}
        for kind, each in runs.items()
    }
    if options.json:
        print(json.dumps({"rounds": rounds, "znodes": znodes, "partitions": partitions, **medians}))
        return
    print(f"{znodes} znodes, {partitions} partitions, {rounds} rounds")
    if options.server:
        for name, value in medians[options.server].items():
            print(f"{ROWS[name][0]}: {value:,.{ROWS[name][1]}f}")
        return
    print("| | embedded | ZooKeeper | ratio |\n|---|---|---|---|")
    for name, (text, digits) in ROWS.items():
        if name in medians["embedded"]:
            ours, theirs = medians["embedded"][name], medians["java"][name]
            print(f"| {text} | {ours:,.{digits}f} | {theirs:,.{digits}f} | {ours / theirs:.2f} |")


if __name__ == "__main__":
    main()
