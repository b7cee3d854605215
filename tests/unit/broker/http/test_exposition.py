"""The page as Prometheus' own client library reads it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from broker.http import exposition as exposition_module
from broker.http.exposition import CONTENT_TYPE, Exposition
from broker.http.messages import HttpRequest
from broker.http.series import Series, series_of
from broker.metrics import Metric, MetricName, MetricsRegistry
from tests.support.paths import ROOT

ASKED = HttpRequest("/metrics", {}, {})


def page(exposition: Exposition) -> str:
    async def read() -> bytes:
        response = await exposition.handle(ASKED)
        assert response.content_type == CONTENT_TYPE
        assert isinstance(response.body, AsyncIterator)
        return b"".join([piece async for piece in response.body])

    return asyncio.run(read()).decode()


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(text: str, name: str, **labels: str) -> float:
    return samples(text)[name, frozenset(labels.items())]


def registry() -> MetricsRegistry:
    metrics = MetricsRegistry()
    metrics.meter("kafka.server", "BrokerTopicMetrics", "BytesInPerSec").mark(5)
    for topic in ("a", "b"):
        metrics.meter("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", topic=topic).mark(3)
        metrics.gauge("kafka.log", "Log", "Size", lambda: 2**53, topic=topic, partition="0")
    metrics.histogram("kafka.network", "RequestMetrics", "TotalTimeMs", request="Fetch").update(4)
    return metrics


def test_every_sample_is_read() -> None:
    text = page(Exposition(registry()))
    assert value(text, "kafka_server_brokertopicmetrics_bytesin_total") == 5
    assert value(text, "kafka_server_brokertopicmetrics_bytesin_total", topic="b") == 3
    assert value(text, "kafka_log_log_size", topic="a", partition="0") == 2**53
    assert value(text, "kafka_network_requestmetrics_totaltimems", request="Fetch", quantile="0.99") == 4
    assert value(text, "kafka_network_requestmetrics_totaltimems_count", request="Fetch") == 1


def test_a_family_is_described_once_and_stands_together() -> None:
    text = page(Exposition(registry()))
    kinds = {family.name: family.type for family in text_string_to_metric_families(text)}
    assert kinds["kafka_server_brokertopicmetrics_bytesin"] == "counter"
    assert kinds["kafka_network_requestmetrics_totaltimems"] == "summary"
    assert kinds["kafka_log_log_size"] == "gauge"
    names = [line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    runs = [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name]
    ours = [name for name in runs if name.startswith("kafka_log")]
    assert len(ours) == len(set(ours))
    assert text.count("# TYPE kafka_log_log_size ") == 1


def test_the_process_and_its_collector_are_shown() -> None:
    text = page(Exposition(MetricsRegistry()))
    assert value(text, "process_resident_memory_bytes") > 1_000_000
    assert value(text, "process_open_fds") > 0
    assert ("python_gc_collections_total", frozenset({("generation", "2")})) in samples(text)
    theirs = samples(generate_latest(REGISTRY).decode())
    ours = {key: each for key, each in samples(text).items() if key[0].startswith(("process_", "python_"))}
    assert ours.keys() == {key for key in theirs if not key[0].endswith("_created")}
    for name in ("process_open_fds", "process_max_fds", "process_start_time_seconds", "process_cpu_seconds_total"):
        assert ours[name, frozenset()] == pytest.approx(theirs[name, frozenset()], abs=3)


COUNTS = """
import os
from pathlib import Path
from broker.http.process import open_files
counts = [open_files(), len(os.listdir("/proc/self/fd")) - 1]  # without that of the listing
with open("/dev/null"):
    counts.append(open_files() - 1)
print(*counts, open_files(Path("/proc/self/task")), len(os.listdir("/proc/self/task")))
"""


def test_open_files_are_counted_by_either_way() -> None:
    """In a process of its own: here threads of other tests open and close files meanwhile. A directory of a file system
    whose directories have no size is one of an older kernel."""
    done = subprocess.run([sys.executable, "-c", COUNTS], cwd=ROOT, check=True, capture_output=True, timeout=60)
    counted, listed, with_another, tasks, listed_tasks = map(int, done.stdout.split())
    assert (counted, with_another) == (listed, listed)
    assert tasks == listed_tasks >= 1


def test_series_of_partitions_can_be_left_out() -> None:
    text = page(Exposition(registry(), partitions=False))
    assert "kafka_log_log_size" not in text
    assert value(text, "kafka_server_brokertopicmetrics_bytesin_total", topic="a") == 3


def test_what_is_added_removed_and_replaced_shows_in_the_next_page() -> None:
    metrics = registry()
    exposition = Exposition(metrics)
    page(exposition)
    metrics.gauge("kafka.log", "Log", "Size", lambda: 1, topic="c", partition="0")
    metrics.gauge("kafka.log", "Log", "Size", lambda: 2, topic="a", partition="0")
    metrics.remove("kafka.log", "Log", "Size", topic="b", partition="0")
    sizes = {
        dict(labels)["topic"]: number
        for (name, labels), number in samples(page(exposition)).items()
        if name == "kafka_log_log_size"
    }
    assert sizes == {"a": 2, "c": 1}


def test_a_metric_that_cannot_be_read_takes_nothing_else_with_it() -> None:
    metrics = registry()

    def broken() -> float:
        raise OSError("the directory is gone")

    metrics.gauge("kafka.log", "Log", "Size", broken, topic="a", partition="0")
    text = page(Exposition(metrics))
    assert value(text, "kafka_log_log_size", topic="b", partition="0") == 2**53
    assert ("kafka_log_log_size", frozenset({("topic", "a"), ("partition", "0")})) not in samples(text)


def test_a_page_longer_than_a_slice_is_whole() -> None:
    metrics = MetricsRegistry()
    for number in range(3000):
        metrics.gauge("kafka.log", "Log", "Size", lambda number=number: number, topic="t", partition=str(number))  # type: ignore[misc]
    found = samples(page(Exposition(metrics)))
    assert [found["kafka_log_log_size", frozenset({("topic", "t"), ("partition", str(n))})] for n in range(3000)] == [
        *range(3000)
    ]


def test_what_is_read_together_is_read_once_and_stands_with_its_family() -> None:
    metrics, asked = MetricsRegistry(), []

    def read(number: int) -> tuple[float, float]:
        asked.append(number)
        return number, -number

    for number in range(700):
        tags = {"topic": "t", "partition": str(number)}
        metrics.gauges_together("kafka.log", "Log", ("Size", "Start"), partial(read, number), **tags)
        metrics.gauge("kafka.log", "Log", "End", lambda number=number: 2 * number, **tags)  # type: ignore[misc]
    metrics.gauge("kafka.log", "Log", "Size", lambda: 7, topic="t", partition="3")
    metrics.remove("kafka.log", "Log", "Start", topic="t", partition="4")
    exposition = Exposition(metrics)
    for _ in range(2):
        asked.clear()
        text = page(exposition)
        found = samples(text)
        for number in range(700):
            labels = frozenset({("topic", "t"), ("partition", str(number))})
            assert found["kafka_log_log_size", labels] == (7 if number == 3 else number)
            assert found.get(("kafka_log_log_start", labels)) == (None if number == 4 else -number)
            assert found["kafka_log_log_end", labels] == 2 * number
        assert text.count("# TYPE kafka_log_log_size ") == 1
        # Two stand at the end of one slice and the beginning of the next.
        assert len(asked) <= 700 + 4


def test_what_is_read_together_and_cannot_be_takes_nothing_else_with_it() -> None:
    def broken() -> tuple[float, float]:
        raise OSError("the directory is gone")

    metrics = registry()
    metrics.gauges_together("kafka.log", "Log", ("Start", "End"), broken, topic="a", partition="0")
    text = page(Exposition(metrics))
    assert value(text, "kafka_log_log_size", topic="b", partition="0") == 2**53
    assert "kafka_log_log_start{" not in text


def test_scrapes_at_the_same_time_show_each_series_with_its_own_value() -> None:
    """One of them works out the page anew while the other is half through it."""
    metrics = MetricsRegistry()
    for number in range(1200):
        metrics.gauge("kafka.log", "Log", "Size", lambda number=number: number, topic="t", partition=str(number))  # type: ignore[misc]
    exposition = Exposition(metrics)
    page(exposition)

    async def both() -> list[str]:
        async def read() -> str:
            body = (await exposition.handle(ASKED)).body
            assert isinstance(body, AsyncIterator)
            return b"".join([piece async for piece in body]).decode()

        first = asyncio.create_task(read())
        await asyncio.sleep(0)  # its values are being read
        for number in range(1000):
            metrics.remove("kafka.log", "Log", "Size", topic="t", partition=str(number))
        return list(await asyncio.gather(first, read()))

    for text, known in zip(asyncio.run(both()), (range(1200), range(1000, 1200)), strict=True):
        sizes = {
            int(dict(labels)["partition"]): number
            for (name, labels), number in samples(text).items()
            if name == "kafka_log_log_size"
        }
        assert sizes == {number: number for number in known}


def test_lines_of_a_family_are_worked_out_once_for_each_object(monkeypatch: pytest.MonkeyPatch) -> None:
    worked_out: list[str] = []

    def noted(key: MetricName, metric: Metric) -> Iterator[Series]:
        worked_out.append(dict(key.tags)["topic"])
        return series_of(key, metric)

    monkeypatch.setattr(exposition_module, "series_of", noted)
    metrics = MetricsRegistry()
    family = metrics.family("kafka.log", "Log", ("topic",), ("Size", "Start"), lambda sizes: sizes)
    family.add((1.0, 2.0), "a")
    exposition = Exposition(metrics)
    page(exposition)
    family.add((3.0, 4.0), "b")
    page(exposition)
    assert worked_out == ["a", "a", "b", "b"]
    family.add((5.0, 6.0), "a")  # a topic that was deleted and made again
    assert value(page(exposition), "kafka_log_log_size", topic="a") == 5
    assert worked_out == ["a", "a", "b", "b", "a", "a"]
