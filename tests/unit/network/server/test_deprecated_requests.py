"""Clients name themselves; the series they can make are bounded."""

from __future__ import annotations

from broker.metrics import Meter, MetricsRegistry
from network.server.deprecated_requests import MAX_CLIENTS, OTHER, DeprecatedRequests


def test_clients_above_the_bound_count_together() -> None:
    registry = MetricsRegistry()
    deprecated = DeprecatedRequests(registry, "kafka.network", "RequestMetrics")
    for number in range(MAX_CLIENTS + 3):
        deprecated.mark("Fetch", 3, ("client", str(number)), 2)
    deprecated.mark("Fetch", 3, ("client", "0"), 5)
    counts = {
        dict(key.tags)["clientSoftwareVersion"]: metric.count
        for key, metric in registry.items()
        if isinstance(metric, Meter)
    }
    assert len(counts) == MAX_CLIENTS + 1
    assert counts["0"] == 7
    assert counts[OTHER[1]] == 6
