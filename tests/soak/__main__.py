"""`python -m tests.soak --hours H`: one broker at steady work, sampled; ends with 1 if something of it grows.

`--csv FILE` keeps the samples. What is allowed to grow between the first quarter and the end is told with each figure.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import urllib.request
from pathlib import Path

from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper
from tests.soak.slope import climbs
from tests.soak.work import Work
from tests.support import wire
from tests.support.bystander import resident_mb
from tests.support.cluster import CLOCK, HOST, Broker, running_cluster

ALLOWED = {
    "memory_mb": 15.0,
    "threads": 3.0,
    "descriptors": 20.0,
    "delayed_operations": 30.0,
    "purgatory_keys": 30.0,
    "produce_p99_ms": 50.0,
}
"""Growth that is noise, for each figure in its own unit."""
SETTINGS = {
    "log.cleaner.backoff.ms": "2000",
    "log.retention.check.interval.ms": "5000",
    "file.delete.delay.ms": "1000",
    "log.initial.task.delay.ms": "2000",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
_SERIES = {
    "delayed_operations": ("kafka_server_delayedoperationpurgatory_numdelayedoperations", ""),
    "purgatory_keys": ("kafka_server_delayedoperationpurgatory_purgatorysize", ""),
    "produce_p99_ms": ("kafka_network_requestmetrics_totaltimems", 'request="Produce",quantile="0.99"'),
}


def sample(broker: Broker, port: int) -> dict[str, float]:
    """The figures now, by the names of `ALLOWED`."""
    assert broker.process is not None
    process = Path(f"/proc/{broker.process.pid}")
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    found = {
        "memory_mb": resident_mb(broker),
        "threads": float(len(list((process / "task").iterdir()))),
        "descriptors": float(len(list((process / "fd").iterdir()))),
    }
    for name, (series, label) in _SERIES.items():
        wanted = [part for part in label.split(",") if part]
        values = [
            float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith((series + "{", series + " ")) and all(part in line for part in wanted)
        ]
        assert values, f"no series {series}"
        found[name] = sum(values)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=str(__doc__).splitlines()[0])
    parser.add_argument("--hours", type=float, default=1)
    parser.add_argument("--every", type=float, default=10, help="seconds between samples")
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    samples: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as name:
        zookeeper = EmbeddedZooKeeper(Path(name) / "zookeeper", free_ports(1)[0], Path(name) / "zookeeper.log")
        try:
            zookeeper.wait_until_ready(CLOCK)
            (port,) = free_ports(1)
            settings = {**SETTINGS, "odradek.http.port": str(port)}
            with running_cluster(["odradek"], Path(name) / "broker", f"{zookeeper.connect}/soak", settings) as cluster:
                work = Work(cluster)
                until = CLOCK.monotonic_ms() + options.hours * 3_600_000
                while CLOCK.monotonic_ms() < until:
                    wire.pause(options.every)
                    samples.append(sample(cluster.brokers[0], port))
                work.close()
                print(f"{options.hours} hours, {len(samples)} samples: {work.done}")
        finally:
            zookeeper.stop()
    if options.csv is not None:
        rows = [",".join(ALLOWED), *(",".join(f"{each[key]:g}" for key in ALLOWED) for each in samples)]
        options.csv.write_text("\n".join(rows) + "\n")
    return judge(samples)


def judge(samples: list[dict[str, float]]) -> int:
    """Print each figure; 1 if one grows."""
    grown = 0
    for name, allowed in ALLOWED.items():
        values = [each[name] for each in samples]
        bad = climbs(values, allowed)
        grown += bad
        ends = f"{values[len(values) // 4]:g} after a quarter, {values[-1]:g} at the end, at most {max(values):g}"
        print(f"{name}: {ends} ({allowed:g} more allowed){'  GROWS' if bad else ''}")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
