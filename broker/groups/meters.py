"""What the coordinator counts: the sensors of `kafka.server:type=group-coordinator-metrics`."""

from __future__ import annotations

from timer.metrics import NULL_METRICS, Metrics

_GROUP, _TYPE = "kafka.server", "group-coordinator-metrics"


class GroupMeters:
    """Meters by event; the load time of a partition is in ms."""

    def __init__(self, metrics: Metrics = NULL_METRICS) -> None:
        self.offset_commits = metrics.meter(_GROUP, _TYPE, "offset-commit")
        self.offset_expirations = metrics.meter(_GROUP, _TYPE, "offset-expiration")
        self.offset_deletions = metrics.meter(_GROUP, _TYPE, "offset-deletion")
        self.completed_rebalances = metrics.meter(_GROUP, _TYPE, "group-completed-rebalance")
        self.partition_load_time = metrics.histogram(_GROUP, _TYPE, "partition-load-time")
