"""`python -m tests.soak --hours H`: one broker at steady work, sampled; ends with 1 if something of it grows.

`--csv FILE` keeps the samples as they come, `--plot FILE` draws them, and `--from FILE` judges and draws those of an
earlier run. What is allowed to grow between the first quarter and the end is told with each figure.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import urllib.request
from pathlib import Path

from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper
from tests.soak.samples import SECONDS, Sample, SampleFile, judge, plot, read_samples
from tests.soak.work import Work
from tests.support import wire
from tests.support.bystander import resident_mb
from tests.support.cluster import CLOCK, HOST, Broker, running_cluster

SETTINGS = {
    "log.cleaner.backoff.ms": "2000",
    "log.retention.check.interval.ms": "5000",
    "log.segment.delete.delay.ms": "1000",
    "log.initial.task.delay.ms": "2000",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
_SERIES = {
    "delayed_operations": ("kafka_server_delayedoperationpurgatory_numdelayedoperations", ""),
    "purgatory_keys": ("kafka_server_delayedoperationpurgatory_purgatorysize", ""),
    "produce_p99_ms": ("kafka_network_requestmetrics_totaltimems", 'request="Produce",quantile="0.99"'),
}


def sample(broker: Broker, port: int) -> Sample:
    """The figures now, by the names of `samples.ALLOWED`."""
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
    parser.add_argument("--csv", type=Path, help="where the samples go, each as it is taken")
    parser.add_argument("--plot", type=Path, help="an SVG of the figures over time")
    parser.add_argument("--from", type=Path, dest="source", help="judge and plot the samples of this CSV, run nothing")
    options = parser.parse_args()
    if options.source is not None:
        samples = read_samples(options.source, options.every)
    else:
        samples = soak(options.hours, options.every, options.csv)
    if options.plot is not None:
        options.plot.write_text(plot(samples))
    return judge(samples)


def soak(hours: float, every: float, path: Path | None) -> list[Sample]:
    """Run for so long, and return what was seen."""
    samples: list[Sample] = []
    kept = SampleFile(path)
    with tempfile.TemporaryDirectory() as name:
        zookeeper = EmbeddedZooKeeper(Path(name) / "zookeeper", free_ports(1)[0], Path(name) / "zookeeper.log")
        try:
            zookeeper.wait_until_ready(CLOCK)
            (port,) = free_ports(1)
            settings = {**SETTINGS, "odradek.http.port": str(port)}
            with running_cluster(["odradek"], Path(name) / "broker", f"{zookeeper.connect}/soak", settings) as cluster:
                work = Work(cluster)
                began = CLOCK.monotonic_ms()
                until = began + hours * 3_600_000
                while CLOCK.monotonic_ms() < until:
                    wire.pause(every)
                    work.check()
                    seconds = round((CLOCK.monotonic_ms() - began) / 1000)
                    samples.append({SECONDS: seconds, **sample(cluster.brokers[0], port)})
                    kept.add(samples[-1])
                work.close()
                print(f"{hours} hours, {len(samples)} samples: {work.done}")
        finally:
            zookeeper.stop()
            kept.close()
    return samples


if __name__ == "__main__":
    sys.exit(main())
