"""`python -m tests.fuzz.connections`: 10,000 connections to one broker, and what they cost it and a bystander.

For each kind of broker: silent ones (no byte ever comes), ones that have asked once, readers that ask for a megabyte
and read none of it, writers that send a frame a byte at a time, and a storm of those that come and go; then what
holds at `max.connections`, at `max.connections.per.ip`, and after `connections.max.idle.ms`. Ends with 1 if a
bystander is not served, a slow writer not answered, or a limit not kept.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper
from network.protocol.header import RequestHeader, encode_request
from tests.fuzz.crowd import QUESTION, SMALL_BUFFER, Crowd, allow_descriptors, storm
from tests.support import wire
from tests.support.bystander import resident_mb, watching
from tests.support.cluster import CLOCK, Broker, Kind, running_cluster

TOPIC, LARGE = "bystanders", "large"
SETTINGS = {"socket.listen.backlog.size": "1000"}
IDLE_MS = 5_000
STORM_S = 10.0
MOST_READERS = 1_000
"""What they do not read stays in the system's memory, two hundred kilobytes each."""
RECORD = b"x" * 900_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.connections", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--kinds", default="odradek,kafka")
    options = parser.parse_args()
    allow_descriptors(options.count)
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        server = EmbeddedZooKeeper(Path(name) / "zookeeper", free_ports(1)[0], Path(name) / "zookeeper.log")
        try:
            server.wait_until_ready(CLOCK)
            for kind in options.kinds.split(","):
                faults += crowds(kind, Path(name) / kind, f"{server.connect}/{kind}", options.count)
                faults += limits(kind, Path(name) / f"{kind}-limits", f"{server.connect}/{kind}-limits", options.count)
        finally:
            server.stop()
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def crowds(kind: Kind, directory: Path, zookeeper: str, count: int) -> list[str]:
    """Print what each sort of them costs; returns what is wrong."""
    faults: list[str] = []
    with running_cluster([kind], directory, zookeeper, SETTINGS) as cluster:
        broker = cluster.brokers[0]
        wire.create_topic(cluster, TOPIC)
        wire.create_topic(cluster, LARGE)
        wire.produce(broker, LARGE, wire.batch([RECORD]))
        with _measured(broker, "nobody else", 0):
            wire.pause(3)
        for name, number, attack in (
            ("silent", count, _silent),
            ("have asked once", count, _asked),
            ("do not read", min(count, MOST_READERS), _do_not_read),
            ("a byte at a time", count, _byte_by_byte),
        ):
            before = _descriptors(broker)
            with Crowd(broker.port) as crowd, _measured(broker, name, number):
                faults += [f"{kind}: {name}: {fault}" for fault in attack(crowd, number)]
                wire.pause(3)
                _wait(lambda: _descriptors(broker) >= before + number * 0.99)  # noqa: B023
            _wait(lambda: _descriptors(broker) < before + 50)  # noqa: B023
        with _measured(broker, "come and go", 0) as note:
            note.append(f"{storm(broker.port, STORM_S) / STORM_S:.0f} a second")
        if not _wait(lambda: _descriptors(broker) < before + 50):
            faults.append(f"{kind}: descriptors stay behind")
    return faults


def _silent(crowd: Crowd, count: int) -> list[str]:
    crowd.enter(count)
    return []


def _asked(crowd: Crowd, count: int) -> list[str]:
    crowd.enter(count)
    crowd.say(QUESTION)
    answered = crowd.heard()
    return [] if answered == count else [f"{answered} of {count} are answered"]


def _do_not_read(crowd: Crowd, count: int) -> list[str]:
    crowd.enter(count, receive_buffer=SMALL_BUFFER)
    request = encode_request(RequestHeader(1, wire.FETCH_VERSION, 1, "slow"), wire.fetch_request(LARGE, 0))
    crowd.say(request * 3)
    return []


def _byte_by_byte(crowd: Crowd, count: int) -> list[str]:
    crowd.enter(count)
    for at in range(len(QUESTION)):
        crowd.say(QUESTION[at : at + 1])
    answered = crowd.heard()
    return [] if answered == count else [f"{answered} of {count} are answered"]


def limits(kind: Kind, directory: Path, zookeeper: str, count: int) -> list[str]:
    """What holds at the bounds on connections."""
    faults = []
    most, one_address = max(100, count // 10), max(30, count // 100)
    settings = {
        **SETTINGS,
        "max.connections": str(most),
        "max.connections.per.ip": str(most * 10),
        "max.connections.per.ip.overrides": f"127.0.0.1:{most * 10},127.0.0.250:{one_address}",
        "connections.max.idle.ms": str(IDLE_MS),
    }
    with running_cluster([kind], directory, zookeeper, settings) as cluster:
        port = cluster.brokers[0].port
        with Crowd(port) as crowd:
            crowd.enter(2 * one_address, address="127.0.0.250")
            crowd.say(QUESTION)
            refused = crowd.closed(1)
        print(f"{kind}: {2 * one_address} from an address that may have {one_address}: {refused} closed", flush=True)
        if refused != one_address:
            faults.append(f"{kind}: max.connections.per.ip: {refused} of {2 * one_address} closed")
        began = CLOCK.monotonic_ms()
        with Crowd(port) as crowd:
            crowd.enter(most + 200)
            crowd.say(QUESTION)
            served = crowd.heard(1)
            waiting = len(crowd.sockets) - served
            print(f"{kind}: {most + 200} where {most} may be: {served} served, {waiting} wait", flush=True)
            if not most * 0.9 <= served <= most:
                faults.append(f"{kind}: max.connections: {served} of {most} served")
            closed = crowd.closed(2 * IDLE_MS / 1000)
            took = (CLOCK.monotonic_ms() - began) / 1000
            print(
                f"{kind}: idle for {IDLE_MS} ms: {closed} of {most + 200} closed, the last within {took:.1f} s",
                flush=True,
            )
            if closed != most + 200:
                faults.append(f"{kind}: connections.max.idle.ms: {closed} closed")
    return faults


def _descriptors(broker: Broker) -> int:
    assert broker.process is not None
    return len(list(Path(f"/proc/{broker.process.pid}/fd").iterdir()))


def _wait(condition: Callable[[], bool]) -> bool:
    for _ in range(300):
        if condition():
            return True
        wire.pause(0.1)
    return False


@contextlib.contextmanager
def _measured(broker: Broker, name: str, count: int) -> Iterator[list[str]]:
    """Print memory and what a bystander saw; what is put into the list is printed along."""
    before, began = resident_mb(broker), CLOCK.monotonic_ms()
    notes: list[str] = []
    with watching(broker.port, {}, TOPIC) as seen:
        yield notes
        during = resident_mb(broker)
    each = f", {(during - before) * 1024 / count:.1f} KB each" if count else ""
    took = (CLOCK.monotonic_ms() - began) / 1000
    said = "; ".join([f"{before:.0f} MB, then {during:.0f}{each}", f"{took:.0f} s", *notes, f"bystander: {seen}"])
    print(f"{broker.kind}: {count or ''} {name}: {said}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
