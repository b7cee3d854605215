"""What a group of the consumer protocol costs its coordinator.

`python -m benchmarks.consumer_groups [--quick] [--json]`

Processor time, on a real log, of a group that everybody joins one after the other:

- ms of a join, in which the coordinator makes a new target assignment for all
- ms until all members have their targets and have said so, by member
- µs of a heartbeat in which nothing happens: must not grow with the members

by members, 1,000 partitions, for each assignor (`--quick`: at most 100 members).
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import tempfile
import time
from collections.abc import Mapping, Sized
from pathlib import Path
from typing import Any

from benchmarks.groups import RealLog
from broker.groups.config import GroupConfig
from broker.groups.consumer.assignors.spec import NO_PARTITIONS, Partitions
from broker.groups.consumer.config import ConsumerGroupConfig
from broker.groups.consumer.requests import HeartbeatRequest, HeartbeatResult
from broker.groups.coordinator import GroupCoordinator, Surroundings
from network.protocol.errors import ErrorCode
from timer.chance import SystemChance
from timer.clock import ManualClock
from timer.executor import InlineExecutor
from timer.metrics import NULL_METRICS
from timer.purgatory import Purgatory
from timer.scheduler import ManualScheduler
from timer.timer import SystemTimer

PARTITIONS = 1_000


class OneTopic:
    """A cluster with one topic."""

    layout_version = 1
    topics: Mapping[str, Sized] = {"t": range(PARTITIONS)}
    topic_ids: Mapping[str, bytes] = {"t": b"t" * 16}
    topic_names: Mapping[bytes, str] = {b"t" * 16: "t"}


class Member:
    """Gives up what an answer takes away by the next heartbeat."""

    def __init__(self, core: GroupCoordinator, number: int, assignor: str) -> None:
        self._core = core
        self._id = f"member-{number:05}"
        self._assignor = assignor
        self._epoch = 0
        self.owned: Partitions = NO_PARTITIONS

    def join(self) -> None:
        self._send(rebalance_timeout_ms=60_000, topics=frozenset({"t"}), assignor=self._assignor)

    def beat(self) -> None:
        self._send()

    def _send(self, **fields: Any) -> None:
        request = HeartbeatRequest("g", self._id, self._epoch, owned=self.owned, client_id="bench", **fields)
        self._core.consumer_group_heartbeat(request, self._take)

    def _take(self, result: HeartbeatResult) -> None:
        assert result.error is ErrorCode.NONE
        self._epoch = result.epoch
        if result.assignment is not None:
            self.owned = result.assignment


def make_coordinator(directory: Path) -> GroupCoordinator:
    clock = ManualClock()

    def purgatory(name: str) -> Purgatory[Any]:
        return Purgatory(name, SystemTimer(name, clock, InlineExecutor()), reaper_enabled=False)

    scheduler = ManualScheduler(clock)
    core = GroupCoordinator(
        RealLog(directory),
        1,
        Surroundings(clock, SystemChance(), scheduler, purgatory("Rebalance"), purgatory("Heartbeat"), NULL_METRICS),
        GroupConfig(),
        ConsumerGroupConfig(is_enabled=True),
        topics=OneTopic,
    )
    core.startup()
    core.on_election(0, 0)
    scheduler.tick()
    return core


def measure(members: int, assignor: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        core = make_coordinator(Path(directory))
        group = [Member(core, number, assignor) for number in range(members)]
        joins = [spent(member.join) for member in group]
        settling = 0.0
        while core.describe_consumer_group("g").state != "Stable":
            settling += sum(spent(member.beat) for member in group)
        assert sum(len(member.owned) for member in group) == PARTITIONS
        idle = [spent(member.beat) for member in group for _ in range(max(1, 1_000 // members))]
        core.shutdown()
    return {
        "join_ms": statistics.median(joins) * 1e3,
        "settle_ms_per_member": settling / members * 1e3,
        "idle_heartbeat_us": statistics.median(idle) * 1e6,
    }


def spent(step: Any) -> float:
    started = time.process_time()
    step()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    options = parser.parse_args()
    logging.disable(logging.INFO)
    sizes = (10, 100) if options.quick else (10, 100, 1_000)
    result = {f"{name} {size}": measure(size, name) for name in ("uniform", "range") for size in sizes}
    if options.json:
        print(json.dumps(result))
        return
    print(f"{'assignor, members':<20} {'join, ms':>10} {'settle, ms/member':>20} {'idle heartbeat, µs':>20}")
    for name, row in result.items():
        join, settle, idle = row.values()
        print(f"{name:<20} {join:>10.2f} {settle:>20.2f} {idle:>20.1f}")


if __name__ == "__main__":
    main()
