from __future__ import annotations

import pytest

from broker.cluster.metadata_cache import MetadataCache
from broker.config.keys import ConfigError
from broker.fetching.replica_selector import ReplicaView, make_selector, rack_aware
from timer.clock import ManualClock

LEADER = ReplicaView(1, "a", 100, 0)


@pytest.mark.parametrize(
    ("rack", "expected"),
    [("", 1), ("elsewhere", 1), ("a", 1), ("b", 3), ("c", 6)],
)
def test_rack_aware(rack: str, expected: int) -> None:
    replicas = [
        LEADER,
        ReplicaView(2, "b", 90, 0),
        ReplicaView(3, "b", 95, 50),
        ReplicaView(4, "a", 100, 0),
        ReplicaView(5, "c", 80, 10),
        ReplicaView(6, "c", 80, 5),
    ]
    assert rack_aware(rack, LEADER, replicas).broker_id == expected


def test_unknown_selector_is_refused() -> None:
    with pytest.raises(ConfigError, match="com"):
        make_selector("com.example.Selector", MetadataCache(1), 1, ManualClock())
    assert make_selector(None, MetadataCache(1), 1, ManualClock()) is None
