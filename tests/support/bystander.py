"""A client that minds its own business while somebody else attacks: how long its requests and logins take meanwhile.

It runs in a process of its own, so that what the attack costs the attacker's interpreter is not measured along.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from network.client.connection import Connection
from network.client.security import client_security
from network.protocol.messages.metadata import MetadataRequest
from tests.support import wire
from tests.support.cluster import CLOCK, HOST, Broker

PAUSE_S = 0.01
LOGIN_EVERY = 50
"""Requests."""
MOST_WAITS = 5


@dataclass
class Seen:
    """Milliseconds."""

    requests: list[float] = field(default_factory=list)
    produced: list[float] = field(default_factory=list)
    logins: list[float] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)
    """When the longest of them began and ended (CLOCK.monotonic_ns, which all processes share); the longest first."""

    @property
    def longest(self) -> float:
        return max(*self.requests, *self.produced, *self.logins)

    def __str__(self) -> str:
        named = {"request": self.requests, "produce": self.produced, "login": self.logins}
        return "; ".join(f"{name} {_summary(values)}" for name, values in named.items())


def _summary(values: list[float]) -> str:
    ordered = sorted(values)
    high = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"{statistics.median(ordered):.1f} / {high:.1f} / {ordered[-1]:.1f} ms of {len(ordered)}"


def _watch(port: int, properties: Mapping[str, str], topic: str, pipe: Pipe) -> None:
    """The other process: until something comes through the pipe. What raises there ends it without an answer."""
    seen = Seen()

    def enter() -> Connection:
        wrap = client_security(properties, CLOCK)
        return Connection(HOST, port, "bystander", CLOCK, wrap=wrap, socket_timeout_ms=wire.TIMEOUT_MS)

    def timed(into: list[float], began_ns: int) -> None:
        ended_ns = CLOCK.monotonic_ns()
        into.append((ended_ns - began_ns) / 1e6)
        if len(seen.waits) < MOST_WAITS or ended_ns - began_ns > seen.waits[-1][1] - seen.waits[-1][0]:
            seen.waits = sorted([*seen.waits, (began_ns, ended_ns)], key=lambda wait: wait[0] - wait[1])[:MOST_WAITS]

    with enter() as connection:
        pipe.send(None)
        while not (seen.logins and pipe.poll()):
            began = CLOCK.monotonic_ns()
            assert connection.call(MetadataRequest(topics=[]), 9).brokers
            timed(seen.requests, began)
            began = CLOCK.monotonic_ns()
            answer = connection.call(wire.produce_request(topic, wire.batch([b"x"])), wire.PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].error_code == 0
            timed(seen.produced, began)
            if len(seen.requests) % LOGIN_EVERY == 1:
                began = CLOCK.monotonic_ns()
                enter().close()
                timed(seen.logins, began)
            wire.pause(PAUSE_S)
    pipe.send(seen)


@contextlib.contextmanager
def watching(port: int, properties: Mapping[str, str], topic: str) -> Iterator[Seen]:
    """Filled when the block is left. A bystander that is not served fails there."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_watch, args=(port, dict(properties), topic, theirs), daemon=True)
    process.start()
    theirs.close()
    seen = Seen()
    try:
        assert ours.poll(60), "the bystander is not let in"
        ours.recv()
        yield seen
        ours.send(None)
        assert ours.poll(60), "the bystander is not served any more"
        found = ours.recv()
        vars(seen).update(vars(found))
    finally:
        process.terminate()
        process.join(30)


def resident_mb(broker: Broker) -> float:
    """Memory of the broker's process."""
    assert broker.process is not None
    status = Path(f"/proc/{broker.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024
