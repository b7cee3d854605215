"""What a broker says of itself as a whole: version, start, cluster, disk traffic, and who is controller."""

from __future__ import annotations

from pathlib import Path

from broker.cluster.metadata_cache import MetadataCache
from broker.metrics import MetricsRegistry
from network.version import VERSION

_SERVER = "kafka.server"
_PROCESS_IO = Path("/proc/self/io")
_NO_CONTROLLER = -1


def register_server_gauges(
    metrics: MetricsRegistry, *, broker_id: int, cluster_id: str, cache: MetadataCache, started_ms: int
) -> None:
    """Register them; `started_ms` is the time of day at which the process began."""
    gauge = metrics.gauge
    # A text is a label of a series that is always 1, as `app-info` has it in every dashboard.
    gauge(_SERVER, "KafkaServer", "ClusterId", lambda: 1, clusterId=cluster_id)
    gauge(_SERVER, "app-info", "version", lambda: 1, id=str(broker_id), version=VERSION)
    gauge(_SERVER, "app-info", "start-time-ms", lambda: started_ms, id=str(broker_id))
    gauge(_SERVER, "KafkaServer", "yammer-metrics-count", lambda: len(metrics))
    if _PROCESS_IO.exists():
        gauge(_SERVER, "KafkaServer", "linux-disk-read-bytes", lambda: _process_io("read_bytes"))
        gauge(_SERVER, "KafkaServer", "linux-disk-write-bytes", lambda: _process_io("write_bytes"))

    def controller() -> int:
        found = cache.controller_id
        return _NO_CONTROLLER if found is None else found

    gauge(_SERVER, "MetadataLoader", "CurrentControllerId", controller)


def _process_io(name: str) -> int:
    """Bytes that the process caused to be read from or written to disks."""
    for line in _PROCESS_IO.read_text().splitlines():
        key, _, value = line.partition(": ")
        if key == name:
            return int(value)
    raise ValueError(f"{_PROCESS_IO} has no {name}")
