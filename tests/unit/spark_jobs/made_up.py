"""A made-up cluster for the tests of planning."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from spark_jobs.options import EARLIEST, Partition, ReadOptions
from timer.clock import ManualClock

BASE = {"kafka.bootstrap.servers": "h:1"}


class PassingClock(ManualClock):
    """Time passes as soon as somebody waits for it."""

    def wait(self, condition: threading.Condition, timeout_ms: float | None) -> bool:
        self._now_ns += round((timeout_ms or 0) * 1_000_000)
        return False


def read_options(streaming: bool = False, **options: str) -> ReadOptions:
    """Options with a bootstrap server and the topic ``t``."""
    given = {**BASE, **options}
    if not {"subscribe", "subscribePattern", "assign"} & set(given):
        given["subscribe"] = "t"
    return ReadOptions.parse(given, streaming=streaming)


@dataclass
class MadeUpCluster:
    """First and end offsets by partition, and (timestamp, offset) pairs."""

    begins: dict[Partition, int] = field(default_factory=dict)
    ends: dict[Partition, int] = field(default_factory=dict)
    times: dict[Partition, list[tuple[int, int]]] = field(default_factory=dict)
    asked: int = 0
    group: dict[Partition, int] = field(default_factory=dict)

    def partitions(self, options: ReadOptions, *, tolerate_missing: bool = False) -> list[Partition]:
        return sorted(p for p in self.ends if options.subscription.matches(p[0]))

    def offsets(self, wanted: Mapping[Partition, int]) -> dict[Partition, int]:
        self.asked += 1
        return {
            p: self.begins.get(p, 0) if mark == EARLIEST else self.ends[p]
            for p, mark in wanted.items()
            if p in self.ends
        }

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return {p: self.group[p] for p in partitions if p in self.group}

    def offsets_by_timestamp(self, wanted: Mapping[Partition, int]) -> dict[Partition, int | None]:
        return {
            p: next((offset for time, offset in self.times.get(p, []) if time >= timestamp), None)
            for p, timestamp in wanted.items()
        }
