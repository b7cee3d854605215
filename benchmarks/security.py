"""What TLS costs: handshakes a second, and records produced and consumed over TLS beside plain text and beside Kafka.

    python -m benchmarks.security [--records N] [--rounds N] [--json]

Each broker has a plain listener and one with TLS 1.3 (a P-256 certificate). Records of 1 KB are produced and consumed
by confluent-kafka in batches of up to 1 MB, both ways in turn, in the same run; `cpu` is the broker's own. A handshake
is a whole connection of a client that keeps no session: connected, shaken hands, closed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from benchmarks.targets import HOST, BrokerTarget, KafkaTarget, OdradekTarget, cpu_seconds, start_zookeeper
from broker.dev.processes import free_ports
from tests.reference import kafka
from tests.support.certificates import Authority, of_listener, server_settings

RECORD = bytes(range(256)) * 4
HANDSHAKE_S = 3.0


@dataclass
class Figure:
    """One workload on one target."""

    target: str
    workload: str
    rate: float
    unit: str
    cpu_s: float


class Secured:
    """A broker with both listeners."""

    def __init__(self, kind: str, directory: Path, zookeeper: str) -> None:
        self.authority = Authority()
        self.port, plain = free_ports(2)
        settings = {
            "listeners": f"PLAINTEXT://{HOST}:{plain},SSL://{HOST}:{self.port}",
            **of_listener("ssl", server_settings(self.authority.issue(), self.authority, directory / kind)),
        }
        brokers = directory / "brokers"
        self.target: BrokerTarget = (
            OdradekTarget(brokers, zookeeper, settings, plain)
            if kind == "odradek"
            else KafkaTarget(brokers, zookeeper, kafka.libraries(), settings, plain)
        )

    def options(self, secure: bool) -> dict[str, Any]:
        if not secure:
            return {"bootstrap.servers": self.target.address}
        return {
            "bootstrap.servers": f"{HOST}:{self.port}",
            "security.protocol": "ssl",
            "ssl.ca.pem": self.authority.pem,
        }

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=self.authority.pem)
        return context


@contextlib.contextmanager
def measured(target: BrokerTarget) -> Iterator[list[float]]:
    """Seconds that passed, and seconds of CPU that the broker used."""
    took = [0.0, 0.0]
    cpu, began = cpu_seconds(target.pid), time.monotonic()
    yield took
    took[:] = [time.monotonic() - began, cpu_seconds(target.pid) - cpu]


def handshakes(secured: Secured) -> Figure:
    context, count = secured.context(), 0
    with measured(secured.target) as took:
        began = time.monotonic()
        while time.monotonic() - began < HANDSHAKE_S:
            with socket.create_connection((HOST, secured.port)) as sock:
                context.wrap_socket(sock, server_hostname=HOST).close()
            count += 1
    return Figure(secured.target.name, "handshakes", count / took[0], "/s", took[1])


def produce(secured: Secured, topic: str, records: int, secure: bool) -> Figure:
    producer = Producer(
        {**secured.options(secure), "linger.ms": 20, "batch.size": 1_000_000, "message.max.bytes": 2_000_000,
         "queue.buffering.max.messages": 200_000}
    )  # fmt: skip
    with measured(secured.target) as took:
        for _ in range(records):
            while True:
                try:
                    producer.produce(topic, RECORD, partition=0)
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.flush()
    return _figure(secured, "produce", secure, records, took)


def consume(secured: Secured, topic: str, records: int, secure: bool) -> Figure:
    consumer = Consumer({**secured.options(secure), "group.id": "unused", "fetch.message.max.bytes": 2_000_000})
    consumer.assign([TopicPartition(topic, 0, 0)])
    left = records
    with measured(secured.target) as took:
        while left > 0:
            left -= len(consumer.consume(10_000, 1.0))
    consumer.close()
    return _figure(secured, "consume", secure, records, took)


def _figure(secured: Secured, what: str, secure: bool, records: int, took: list[float]) -> Figure:
    megabytes = records * len(RECORD) / 1e6
    return Figure(secured.target.name, f"{what} {'TLS' if secure else 'plain'}", megabytes / took[0], "MB/s", took[1])


def measure(secured: Secured, records: int, rounds: int) -> list[Figure]:
    figures = [handshakes(secured) for _ in range(rounds)]
    for number in range(rounds):
        for secure in (False, True):
            topic = f"t-{number}-{secure}"
            secured.target.create_topic(topic)
            figures.append(produce(secured, topic, records, secure))
            figures.append(consume(secured, topic, records, secure))
            secured.target.delete_topic(topic)
    return figures


def summary(figures: Sequence[Figure]) -> list[Figure]:
    """The median of each workload's rates and CPU."""
    names = dict.fromkeys((each.target, each.workload, each.unit) for each in figures)
    found = []
    for target, workload, unit in names:
        own = [each for each in figures if (each.target, each.workload) == (target, workload)]
        rate, cpu = median(each.rate for each in own), median(each.cpu_s for each in own)
        found.append(Figure(target, workload, rate, unit, cpu))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        zookeeper = start_zookeeper(Path(name))
        try:
            for kind in ("odradek", "kafka"):
                secured = Secured(kind, Path(name), zookeeper.connect)
                secured.target.start()
                try:
                    figures += summary(measure(secured, arguments.records, arguments.rounds))
                finally:
                    secured.target.stop()
        finally:
            zookeeper.stop()
    if arguments.json:
        print(json.dumps([asdict(each) for each in figures], indent=2))
        return
    table = Table("target", "workload", "rate", "broker's CPU s")
    for each in figures:
        table.add_row(each.target, each.workload, f"{each.rate:.0f} {each.unit}", f"{each.cpu_s:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
