"""What becomes of ZooKeeper sessions and their connections: `kafka.server:type=SessionExpireListener`."""

from __future__ import annotations

from timer.metrics import NULL_METRICS, Metrics

_GROUP, _TYPE = "kafka.server", "SessionExpireListener"


class SessionMeters:
    """One meter for each state that Kafka's ZooKeeper client counts and ours can be in."""

    def __init__(self, metrics: Metrics = NULL_METRICS) -> None:
        self.connects = metrics.meter(_GROUP, _TYPE, "ZooKeeperSyncConnectsPerSec")
        self.disconnects = metrics.meter(_GROUP, _TYPE, "ZooKeeperDisconnectsPerSec")
        self.expires = metrics.meter(_GROUP, _TYPE, "ZooKeeperExpiresPerSec")
        self.auth_failures = metrics.meter(_GROUP, _TYPE, "ZooKeeperAuthFailuresPerSec")
