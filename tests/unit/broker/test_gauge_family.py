"""Gauges that many objects of one kind have each."""

from __future__ import annotations

import sys
import tracemalloc

from broker.gauge_family import GaugeFamily
from broker.metrics import MetricsRegistry


class Owner:
    def __init__(self, value: float) -> None:
        self.value = value


NAMES = ("Value", "Twice")


def read(owner: Owner) -> tuple[float, float]:
    return owner.value, 2 * owner.value


def shown(metrics: MetricsRegistry) -> dict[str, float]:
    """Every gauge as its MBean is called."""
    return {str(key): metric() for key, metric in metrics.items() if callable(metric)}


def test_they_are_what_single_gauges_are() -> None:
    metrics, single = MetricsRegistry(), MetricsRegistry()
    family = metrics.family("g", "t", ("topic", "is-future"), NAMES, read)
    owner = Owner(3)
    family.add(owner, "a", "true")
    single.gauges_together("g", "t", NAMES, lambda: read(owner), topic="a", is_future="true")
    assert shown(metrics) == shown(single)
    assert len(metrics) == len(single) == 2
    owner.value = 5
    assert metrics.value("g", "t", "Twice", topic="a", is_future="true") == 10
    assert metrics.get("g", "t", "Twice", topic="b", is_future="true") is None
    assert metrics.get("g", "t", "Thrice", topic="a", is_future="true") is None
    assert metrics.get("g", "t", "Twice", topic="a") is None


def test_the_last_with_the_same_tags_counts_and_every_change_is_told() -> None:
    metrics = MetricsRegistry()
    family = metrics.family("g", "t", ("topic",), NAMES, read)
    seen = [metrics.changes]
    family.add(Owner(1), "a")
    seen.append(metrics.changes)
    metrics.family("g", "t", ("topic",), NAMES, read).add(Owner(2), "a")
    seen.append(metrics.changes)
    assert metrics.value("g", "t", "Value", topic="a") == 2
    family.remove("a")
    seen.append(metrics.changes)
    assert len(set(seen)) == len(seen)
    family.remove("a")
    assert metrics.changes == seen[-1]
    assert not shown(metrics)


def test_one_more_object_takes_no_more_than_its_tags() -> None:
    names = [f"Gauge{number}" for number in range(10)]
    registry = MetricsRegistry()
    family: GaugeFamily[Owner] = registry.family(
        "g", "t", ("topic", "partition"), names, lambda owner: [owner.value] * 10
    )
    owners = [Owner(number) for number in range(2000)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number, owner in enumerate(owners):
            family.add(owner, "topic", str(number))
        each = (tracemalloc.get_traced_memory()[0] - before) / len(owners)
    finally:
        tracemalloc.stop()
    assert each < 4 * sys.getsizeof(("topic", "1999")) + sys.getsizeof("1999")
