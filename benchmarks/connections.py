"""Many connections: what a thousand idle ones take, and what a hundred that all have a request under way get.

    python -m benchmarks.connections [--quick] [--json] [--targets sink,odradek,kafka] [--rounds N] [--only TEXT]

Idle connections ask for the versions once and stay. A busy one sends a record of 100 bytes (acks=1), waits for its
acknowledgement and sends the next; all write to one partition. The client decodes nothing, so that it costs little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from benchmarks.data_path import NAMES, running_targets
from benchmarks.hammer import PRODUCE_ERROR_AT, exchange, produce_frame, wait_answered
from benchmarks.rounds import Found, Workloads, parser_of, percentiles, report, run_rounds
from benchmarks.targets import CLOCK, BrokerTarget, Target, cpu_seconds, resident_mb
from log.files.handles import raise_descriptor_limit
from network.client.connection import Connection
from network.protocol.messages.api_versions import ApiVersionsRequest

ROUNDS = 3
IDLE, BUSY = 1000, 100
SECONDS = 4.0
SPARE_DESCRIPTORS = 200
FEW = 20


def connect(target: Target, count: int) -> Found:
    """So many at once, and what they took of the server."""
    host, _, port = target.address.rpartition(":")
    request = ApiVersionsRequest(client_software_name="benchmark", client_software_version="1")
    before, used = resident_mb(target.pid), cpu_seconds(target.pid)
    began = time.perf_counter()
    with ExitStack() as stack:
        for _ in range(count):
            one = stack.enter_context(Connection(host, int(port), "benchmark", CLOCK, 30_000, 30_000))
            one.call(request, 3)
        took, used = time.perf_counter() - began, cpu_seconds(target.pid) - used
        kilobytes = (resident_mb(target.pid) - before) * 1024 / count
    return {"per s": count / took, "CPU us each": used / count * 1e6, "KB each": kilobytes}


def idle(target: Target, count: int, first: Found) -> Found:
    """`first` keeps the memory of the first time: later ones get what the earlier have given back."""
    if not first:
        connect(target, min(count, FEW))
    found = connect(target, count)
    first.setdefault("KB each", found["KB each"])
    return found | first


def busy(target: Target, topic: str, count: int, seconds: float) -> Found:
    target.create_topic(topic)
    try:
        frames = [produce_frame(topic)] * count
        wait_answered(target.address, frames[0], PRODUCE_ERROR_AT)
        used = cpu_seconds(target.pid)
        done = exchange(target.address, frames, PRODUCE_ERROR_AT, seconds)
        used = cpu_seconds(target.pid) - used
    finally:
        target.delete_topic(topic)
    each = {"per s": done.count / done.seconds, "CPU us each": used / done.count * 1e6}
    return each | percentiles(done.latencies_ms)


def workloads(target: Target, idle_count: int, busy_count: int, seconds: float) -> Callable[[int], Workloads]:
    first: Found = {}

    def of_round(number: int) -> Workloads:
        found: dict[str, Callable[[], Found]] = {}
        if isinstance(target, BrokerTarget):
            found[f"{idle_count:,} idle connections"] = partial(idle, target, idle_count, first)
        name = f"{busy_count} busy connections, one record a request"
        found[name] = partial(busy, target, f"busy-{number}", busy_count, seconds)
        return found

    return of_round


def main() -> None:
    """Run it from the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--targets", default=",".join(NAMES), help="comma-separated, of " + ", ".join(NAMES))
    options = parser.parse_args()
    counts, seconds = ((50, 20), 0.5) if options.quick else ((IDLE, BUSY), SECONDS)
    raise_descriptor_limit(max(counts) + SPARE_DESCRIPTORS)
    with running_targets(options.targets) as targets:
        made = {target.name: workloads(target, *counts, seconds) for target in targets}
        outcome = run_rounds(made, options.rounds or (1 if options.quick else ROUNDS), options.only)
    report(outcome, options.json)


if __name__ == "__main__":
    main()
