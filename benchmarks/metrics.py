"""What a scrape costs: its time, the broker's CPU for it, and what producers feel of it.

    python -m benchmarks.metrics [--quick] [--json] [--partitions 5000] [--scrapes 10]

One broker with so many partitions. A producer sends one record a request (acks 1) throughout; its latencies while
nobody scrapes stand beside those during scrapes, one directly after the other. CPU is that of the broker's process less
what it uses for the producer alone in the same time. The last row renders the same samples with prometheus-client.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.table import Table

from benchmarks.targets import HOST, BrokerTarget, OdradekTarget, cpu_seconds, start_zookeeper
from broker.dev.processes import free_ports
from log.records.record import BatchBuilder
from network.client.connection import Connection
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from timer.clock import SystemClock

PER_TOPIC = 100
WINDOW_S = 5.0


class Producer(threading.Thread):
    """Sends one record after the other until `stop`; `latencies` are in ms."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        host, _, port = address.rpartition(":")
        self._connection = Connection(host, int(port), "benchmark", SystemClock(), 60_000, 60_000)
        self._stopped = threading.Event()
        self.latencies: list[float] = []

    def run(self) -> None:
        builder = BatchBuilder()
        builder.append(0, None, b"x" * 100)
        data = PartitionProduceData(index=0, records=bytes(builder.build()))
        request = ProduceRequest(
            acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name="t-0", partition_data=[data])]
        )
        while not self._stopped.is_set():
            began = time.perf_counter()
            self._connection.call(request, 7)
            self.latencies.append((time.perf_counter() - began) * 1000)

    def stop(self) -> None:
        self._stopped.set()
        self.join()
        self._connection.close()

    def take(self) -> list[float]:
        """The latencies since the last call, in order of size."""
        taken, self.latencies = self.latencies, []
        return sorted(taken)


def create(target: BrokerTarget, partitions: int) -> None:
    host, _, port = target.address.rpartition(":")
    with Connection(host, int(port), "benchmark", SystemClock(), 300_000, 300_000) as connection:
        for number in range(max(1, partitions // PER_TOPIC)):
            topic = CreatableTopic(name=f"t-{number}", num_partitions=min(partitions, PER_TOPIC), replication_factor=1)
            answer = connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=120_000), 5).topics[0]
            if answer.error_code:
                raise RuntimeError(f"no topic: {answer}")


def scrape(port: int) -> tuple[float, bytes]:
    began = time.perf_counter()
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=60) as answer:
        page = answer.read()
    return (time.perf_counter() - began) * 1000, page


def with_the_library(page: bytes) -> float:
    """CPU in ms of prometheus-client for a page of as many samples."""
    registry = CollectorRegistry()
    for family in text_string_to_metric_families(page.decode()):
        labels = sorted({label for sample in family.samples for label in sample.labels})
        gauge = Gauge(family.name, family.documentation, labels, registry=registry)
        for sample in family.samples:
            values = [sample.labels.get(label, "") for label in labels]
            (gauge.labels(*values) if labels else gauge).set(sample.value)
    began = time.process_time()
    generate_latest(registry)
    return (time.process_time() - began) * 1000


def measure(partitions: int, scrapes: int, directory: Path) -> dict[str, float]:
    zookeeper = start_zookeeper(directory)
    (port,) = free_ports(1)
    target = OdradekTarget(directory, zookeeper.connect, {"odradek.http.port": str(port)})
    try:
        target.start()
        create(target, partitions)
        producer = Producer(target.address)
        producer.start()
        first, _ = scrape(port)
        time.sleep(1)
        producer.take()
        began_cpu, began = cpu_seconds(target.pid), time.perf_counter()
        time.sleep(WINDOW_S)
        idle_share = (cpu_seconds(target.pid) - began_cpu) / (time.perf_counter() - began)
        alone = producer.take()
        began_cpu, began = cpu_seconds(target.pid), time.perf_counter()
        walls, page = [], b""
        for _ in range(scrapes):
            wall, page = scrape(port)
            walls.append(wall)
        elapsed = time.perf_counter() - began
        used = cpu_seconds(target.pid) - began_cpu
        during = producer.take()
        producer.stop()
        producer_share = idle_share * (len(during) / elapsed) / (len(alone) / WINDOW_S)
        return {
            "partitions": partitions,
            "lines": page.count(b"\n"),
            "page_kb": len(page) / 1024,
            "first_scrape_ms": first,
            "scrape_ms": sorted(walls)[len(walls) // 2],
            "scrape_cpu_ms": max(0.0, used - producer_share * elapsed) / scrapes * 1000,
            "p50_alone_ms": alone[len(alone) // 2],
            "p50_during_ms": during[len(during) // 2],
            "p99_alone_ms": alone[int(len(alone) * 0.99)],
            "p99_during_ms": during[int(len(during) * 0.99)],
            "prometheus_client_cpu_ms": with_the_library(page),
        }
    finally:
        target.stop()
        zookeeper.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--partitions", type=int, default=5000)
    parser.add_argument("--scrapes", type=int, default=10)
    options = parser.parse_args()
    partitions = 500 if options.quick else options.partitions
    with tempfile.TemporaryDirectory() as directory:
        found = measure(partitions, options.scrapes, Path(directory))
    if options.json:
        print(json.dumps(found))
        return
    table = Table("", "", title="a scrape")
    for name, value in found.items():
        table.add_row(name.replace("_", " "), f"{value:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
