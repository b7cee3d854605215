"""What a coordinator bears, over sockets: commits of offsets, and a rebalance of a hundred members.

    python -m benchmarks.group_load [--quick] [--json] [--targets odradek,kafka] [--rounds N] [--only TEXT]

Commits are of one offset each, by consumers of eight groups on eight connections with one request under way; the client
decodes nothing. A rebalance is of 100 members, a connection each, that share 1,000 partitions: from the first JoinGroup
to the last assignment, with `group.initial.rebalance.delay.ms` of 300 ms in it. `benchmarks.groups` looks at the same
things inside Odradek's coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from benchmarks.data_path import running_targets
from benchmarks.groups import rebalance_over_sockets
from benchmarks.hammer import COMMIT_ERROR_AT, commit_frame, exchange, wait_answered
from benchmarks.rounds import Found, Workloads, parser_of, percentile, report, run_rounds
from benchmarks.targets import CLOCK, HOST, Target, cpu_seconds
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient

ROUNDS = 5
CONNECTIONS = 8
SECONDS = 4.0
LIMIT_S = 120.0
DELAY = {"group.initial.rebalance.delay.ms": "300"}
TOPIC = "topic"


def commits(target: Target, seconds: float) -> Found:
    frames = [commit_frame(f"commits-{number}", TopicPartition(TOPIC, 0), 1) for number in range(CONNECTIONS)]
    used = cpu_seconds(target.pid)
    done = exchange(target.address, frames, COMMIT_ERROR_AT, seconds)
    used = cpu_seconds(target.pid) - used
    each = {"CPU us each": used / done.count * 1e6, "ms, p99": percentile(done.latencies_ms, 99)}
    return {"per s": done.count / done.seconds, **each}


def rebalance(target: Target, group: str) -> Found:
    port = int(target.address.rpartition(":")[2])
    used = cpu_seconds(target.pid)
    seconds = asyncio.run(asyncio.wait_for(rebalance_over_sockets(HOST, port, group), LIMIT_S))
    return {"s": seconds, "CPU ms": (cpu_seconds(target.pid) - used) * 1000}


def prepare(target: Target) -> None:
    """A topic to commit offsets of, and a coordinator that has loaded."""
    target.create_topic(TOPIC)
    with ClusterClient(target.address, "benchmark", CLOCK) as client:
        client.coordinator("commits-0")
    wait_answered(target.address, commit_frame("commits-0", TopicPartition(TOPIC, 0), 1), COMMIT_ERROR_AT)


def workloads(target: Target, seconds: float) -> Callable[[int], Workloads]:
    return lambda number: {
        f"offset commits, {CONNECTIONS} connections": partial(commits, target, seconds),
        "rebalance of 100 members": partial(rebalance, target, f"rebalance-{number}"),
    }


def main() -> None:
    """Run it from the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--targets", default="odradek,kafka", help="comma-separated")
    options = parser.parse_args()
    with running_targets(options.targets, DELAY) as targets:
        for target in targets:
            prepare(target)
        made = {target.name: workloads(target, 0.5 if options.quick else SECONDS) for target in targets}
        outcome = run_rounds(made, options.rounds or (1 if options.quick else ROUNDS), options.only)
    report(outcome, options.json)


if __name__ == "__main__":
    main()
