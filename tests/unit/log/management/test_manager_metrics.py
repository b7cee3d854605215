from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from log.topic_partition import TopicPartition
from tests.unit.log.harness import append
from tests.unit.log.management.manager_harness import A0, Broker, crash, new
from timer.metrics import NullMetrics


class Times:
    def __init__(self) -> None:
        self.values: list[float] = []

    def update(self, value: float, n: int = 1) -> None:
        self.values.append(value)


class Gauges(NullMetrics):
    def __init__(self) -> None:
        self.found: dict[tuple[str, ...], Callable[[], float]] = {}
        self.times: dict[tuple[str, str, str], Times] = {}

    def histogram(self, group: str, type_: str, name: str, **tags: str) -> Times:
        return self.times.setdefault((group, type_, name), Times())

    def gauge(self, group: str, type_: str, name: str, fn: Callable[[], float], **tags: str) -> None:
        self.found[(type_, name, *(f"{k}={v}" for k, v in sorted(tags.items())))] = fn

    def family(
        self, group: str, type_: str, tags: Sequence[str], names: Sequence[str], read: Callable[[Any], Sequence[float]]
    ) -> GaugesOfMany:
        return GaugesOfMany(self.found, type_, tags, names, read)


class GaugesOfMany:
    def __init__(
        self,
        found: dict[tuple[str, ...], Callable[[], float]],
        type_: str,
        tags: Sequence[str],
        names: Sequence[str],
        read: Callable[[Any], Sequence[float]],
    ) -> None:
        self._found = found
        self._type = type_
        self._tags = tags
        self._names = names
        self._read = read

    def _key(self, name: str, values: tuple[str, ...]) -> tuple[str, ...]:
        return self._type, name, *(f"{k}={v}" for k, v in sorted(zip(self._tags, values, strict=True)))

    def add(self, owner: Any, *values: str) -> None:
        for place, name in enumerate(self._names):
            self._found[self._key(name, values)] = lambda place=place: self._read(owner)[place]  # type: ignore[misc]

    def remove(self, *values: str) -> None:
        for name in self._names:
            self._found.pop(self._key(name, values), None)


def test_metrics(tmp_path: Path) -> None:
    gauges = Gauges()
    manager = Broker(tmp_path / "x", tmp_path / "y", metrics=gauges).start()
    log = new(manager, A0)
    for i in range(30):
        append(log, b"%d" % i)

    def value(*key: str) -> float:
        return gauges.found[key]()

    tags = ("partition=0", "topic=a")
    assert value("Log", "LogEndOffset", *tags) == 30
    assert value("Log", "LogStartOffset", *tags) == 0
    assert value("Log", "NumLogSegments", *tags) == log.number_of_segments > 1
    assert value("Log", "Size", *tags) == log.size
    flushes = gauges.times[("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs")].values
    before = len(flushes)
    log.flush()
    log.flush()  # nothing to do
    assert len(flushes) == before + 1 == log.number_of_segments
    assert all(took >= 0 for took in flushes)
    assert value("LogManager", "OfflineLogDirectoryCount") == 0
    manager.handle_log_dir_failure(log.parent_dir)
    assert value("LogManager", "OfflineLogDirectoryCount") == 1
    assert value("LogManager", "LogDirectoryOffline", f"logDirectory={log.parent_dir}") == 1
    assert not any(key[0] == "Log" for key in gauges.found)


def test_progress_of_a_long_recovery(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Lines with a percentage, and gauges of what is left."""
    manager = Broker(tmp_path).start()
    for partition in range(4):
        log = new(manager, TopicPartition("t", partition))
        for i in range(30):
            append(log, b"%d" % i)
    crash(manager)
    gauges = Gauges()
    broker = Broker(tmp_path, metrics=gauges)
    left: list[float] = []
    ticks = broker.clock.monotonic_ms

    def slow() -> int:
        # Every look at the clock takes two seconds.
        broker.clock.advance(2000)
        left.append(gauges.found[("LogManager", "remainingLogsToRecover", f"dir={tmp_path}")]())
        return ticks()

    broker.clock.monotonic_ms = slow  # type: ignore[method-assign]
    with caplog.at_level("INFO", logger="log.management.log_dir_loading"):
        broker.start()
    percentages = [int(m) for line in caplog.messages for m in re.findall(r"recovered (\d+)%", line)]
    assert len(percentages) > 2
    assert percentages == sorted(percentages)
    assert 0 < percentages[0] < 100
    assert left[0] == 4
    assert gauges.found[("LogManager", "remainingLogsToRecover", f"dir={tmp_path}")]() == 0
    assert gauges.found[("LogManager", "remainingSegmentsToRecover", f"dir={tmp_path}", "threadNum=0")]() == 0
