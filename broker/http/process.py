"""The last lines of the page: the process, its garbage collector and its interpreter, under prometheus-client's names.

The library's own collector of the process lists every open file to count them: 33 ms of CPU with the 15,000 of 5,000
partitions. Here the kernel is asked for their number. Imported when first asked for: a broker that nobody scrapes does
without the library.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_PROC = Path("/proc/self")
_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessFigures(Collector):
    """Memory, CPU and open files; nothing where there is no `/proc`."""

    def collect(self) -> Iterator[Metric]:
        try:
            # From the third field on, for the name in the second may hold anything (proc(5)).
            stat = (_PROC / "stat").read_bytes().rpartition(b")")[2].split()
            opened = open_files()
            boot_s = next(int(line[6:]) for line in Path("/proc/stat").read_text().splitlines() if line[:6] == "btime ")
        except (OSError, StopIteration):
            return
        user, system, started, virtual, resident = (float(stat[place]) for place in (11, 12, 19, 20, 21))
        gauges = {
            "virtual_memory_bytes": ("Virtual memory size in bytes.", virtual),
            "resident_memory_bytes": ("Resident memory size in bytes.", resident * resource.getpagesize()),
            "start_time_seconds": ("Start time of the process since unix epoch in seconds.", boot_s + started / _TICKS),
            "open_fds": ("Number of open file descriptors.", opened),
            "max_fds": ("Maximum number of open file descriptors.", resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"process_{name}", text, value=value)
        text = "Total user and system CPU time spent in seconds."
        yield CounterMetricFamily("process_cpu_seconds_total", text, value=(user + system) / _TICKS)


def open_files(directory: Path = _PROC / "fd") -> int:
    """Their number; the size of the directory is that from Linux 6.2 on and 0 before."""
    return directory.stat().st_size or len(os.listdir(directory))


def _registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(ProcessFigures())
    GCCollector(registry)
    PlatformCollector(registry)
    return registry


_REGISTRY = _registry()


def process_page() -> bytes:
    """The lines, as they stand in the page."""
    return bytes(generate_latest(_REGISTRY))
