"""What security costs: handshakes, records over TLS and SASL_SSL, 1,000 authenticated connections, decisions by ACLs.

    python -m benchmarks.security [--quick] [--json] [--records N] [--rounds N] [--connections N]

Odradek and Apache Kafka run side by side, each with a plain listener, one with TLS 1.3 (a P-256 certificate) and one
with SASL_SSL (SCRAM-SHA-256, 4,096 iterations), and take turns at each workload after a warm-up. Medians of the rounds:

- handshakes: whole connections of a client that keeps no session: connected, shaken hands, logged in, closed
- produce, consume: records of 1 KB by confluent-kafka, in batches of up to 1 MB
- connections: so many opened one after the other and kept; resident memory for each; and what a bystander of a process
  of its own, who asks and produces every 10 ms on SASL_SSL, waits before, while they come, and while they are there
- decisions by ACLs: `benchmarks.authorizer`, microseconds of CPU with 10,000 of them

CPU is the broker's own process: seconds a GB, or milliseconds each. Rates are the client's and the machine's, too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from benchmarks import authorizer
from benchmarks.targets import (
    CLOCK,
    HOST,
    BrokerTarget,
    KafkaTarget,
    OdradekTarget,
    cpu_seconds,
    resident_mb,
    start_zookeeper,
)
from broker.cli.users import new_password
from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from log.files.handles import raise_descriptor_limit
from network.client.connection import Connection, ConnectionFailed
from network.client.security import client_security
from network.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from tests.reference import kafka
from tests.support.bystander import Seen, watching
from tests.support.certificates import Authority, of_listener, server_settings
from tests.support.sasl import jaas

RECORD = bytes(range(256)) * 4
MECHANISM = "SCRAM-SHA-256"
USER, PASSWORD = "bench", "bench-secret"
PROTOCOLS = ("plain", "TLS", "SASL_SSL")
TOPIC = "bystander"


class Scale(NamedTuple):
    """How much of each."""

    records: int
    rounds: int
    connections: int
    handshake_s: float
    watch_s: float


FULL = Scale(records=200_000, rounds=3, connections=1_000, handshake_s=2.0, watch_s=5.0)
QUICK = Scale(records=20_000, rounds=1, connections=100, handshake_s=0.5, watch_s=1.0)


@dataclass
class Figure:
    """One workload on one target. `cpu` is seconds a GB of records, or milliseconds for each of anything else."""

    target: str
    workload: str
    rate: float
    unit: str
    cpu: float
    cpu_unit: str


@dataclass
class Held:
    """Connections that are kept open. Waits in milliseconds, the median and the 99th percentile."""

    target: str
    connections: int
    connect_ms: float
    cpu_ms: float
    memory_kb: float
    alone: tuple[float, float]
    while_they_come: tuple[float, float]
    while_they_stay: tuple[float, float]


class Secured:
    """A broker with all listeners."""

    def __init__(self, kind: str, directory: Path, zookeeper: str) -> None:
        self.authority = Authority()
        plain, *secure = free_ports(3)
        self.ports = dict(zip(PROTOCOLS, (plain, *secure), strict=True))
        tls = server_settings(self.authority.issue(), self.authority, directory / kind)
        settings = {
            "listeners": ",".join(
                f"{name}://{HOST}:{port}"
                for name, port in zip(("PLAINTEXT", "SSL", "SASL_SSL"), self.ports.values(), strict=True)
            ),
            **of_listener("ssl", tls),
            **of_listener("sasl_ssl", tls),
            "sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": jaas(MECHANISM),
        }
        brokers = directory / "brokers"
        self.target: BrokerTarget = (
            OdradekTarget(brokers, zookeeper, settings, plain)
            if kind == "odradek"
            else KafkaTarget(brokers, zookeeper, kafka.libraries(), settings, plain)
        )

    def start(self) -> None:
        """With its user, and the bystander's topic."""
        self.target.start()
        request = AlterUserScramCredentialsRequest(upsertions=[new_password(USER, MECHANISM, PASSWORD)])
        with Connection(HOST, self.ports["plain"], "benchmark", CLOCK) as connection:
            (result,) = connection.call(request, 0).results
        if result.error_code:
            raise RuntimeError(f"{self.target.name} takes no user: {result.error_message}")
        self.target.create_topic(TOPIC)
        if not wait_until(self._lets_in, CLOCK, 30_000):
            raise RuntimeError(f"{self.target.name} does not let its user in")

    def _lets_in(self) -> bool:
        try:
            self.connect().close()
        except ConnectionFailed:
            return False
        return True

    @property
    def properties(self) -> dict[str, str]:
        """Of a client of SASL_SSL."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": jaas(MECHANISM, username=USER, password=PASSWORD),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.authority.pem,
        }

    def connect(self) -> Connection:
        wrap = client_security(self.properties, CLOCK)
        return Connection(HOST, self.ports["SASL_SSL"], "benchmark", CLOCK, wrap=wrap)

    def options(self, protocol: str) -> dict[str, Any]:
        options: dict[str, Any] = {"bootstrap.servers": f"{HOST}:{self.ports[protocol]}"}
        if protocol != "plain":
            options |= {"security.protocol": "ssl", "ssl.ca.pem": self.authority.pem}
        if protocol == "SASL_SSL":
            options |= {
                "security.protocol": "sasl_ssl",
                "sasl.mechanism": MECHANISM,
                "sasl.username": USER,
                "sasl.password": PASSWORD,
            }
        return options

    def handshake_of(self, protocol: str) -> Callable[[], None]:
        """One whole connection."""
        if protocol == "TLS":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=self.authority.pem)

            def shake() -> None:
                with socket.create_connection((HOST, self.ports["TLS"])) as sock:
                    context.wrap_socket(sock, server_hostname=HOST).close()

            return shake
        wrap = client_security(self.properties, CLOCK)

        def log_in() -> None:
            Connection(HOST, self.ports["SASL_SSL"], "benchmark", CLOCK, wrap=wrap).close()

        return log_in


@contextlib.contextmanager
def measured(target: BrokerTarget) -> Iterator[list[float]]:
    """Seconds that passed, and seconds of CPU that the broker used."""
    took = [0.0, 0.0]
    cpu, began = cpu_seconds(target.pid), time.monotonic()
    yield took
    took[:] = [time.monotonic() - began, cpu_seconds(target.pid) - cpu]


def handshakes(secured: Secured, protocol: str, seconds: float) -> Figure:
    once, count = secured.handshake_of(protocol), 0
    with measured(secured.target) as took:
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            once()
            count += 1
    workload = f"handshakes, {protocol}"
    return Figure(secured.target.name, workload, count / took[0], "/s", took[1] / count * 1e3, "ms each")


def produce(secured: Secured, topic: str, records: int, protocol: str) -> Figure:
    producer = Producer(
        {**secured.options(protocol), "linger.ms": 20, "batch.size": 1_000_000, "message.max.bytes": 2_000_000,
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
    return _of_records(secured, "produce", protocol, records, took)


def consume(secured: Secured, topic: str, records: int, protocol: str) -> Figure:
    consumer = Consumer({**secured.options(protocol), "group.id": "unused", "fetch.message.max.bytes": 2_000_000})
    consumer.assign([TopicPartition(topic, 0, 0)])
    left = records
    with measured(secured.target) as took:
        while left > 0:
            left -= len(consumer.consume(10_000, 1.0))
    consumer.close()
    return _of_records(secured, "consume", protocol, records, took)


def _of_records(secured: Secured, what: str, protocol: str, records: int, took: list[float]) -> Figure:
    size = records * len(RECORD)
    workload = f"{what}, {protocol}"
    return Figure(secured.target.name, workload, size / 1e6 / took[0], "MB/s", took[1] / size * 1e9, "s a GB")


def one_round(secured: Secured, scale: Scale) -> list[Figure]:
    figures = [handshakes(secured, protocol, scale.handshake_s) for protocol in PROTOCOLS[1:]]
    for protocol in PROTOCOLS:
        topic = f"t-{protocol}"
        secured.target.create_topic(topic)
        figures.append(produce(secured, topic, scale.records, protocol))
        figures.append(consume(secured, topic, scale.records, protocol))
        secured.target.delete_topic(topic)
    return figures


def held(secured: Secured, scale: Scale) -> Held:
    """Connections that log in, and stay."""
    pid, port = secured.target.pid, secured.ports["SASL_SSL"]
    wrap = client_security(secured.properties, CLOCK)
    connect_ms: list[float] = []
    with watching(port, secured.properties, TOPIC) as alone:
        time.sleep(scale.watch_s)
    before = resident_mb(pid)
    with contextlib.ExitStack() as opened:
        with watching(port, secured.properties, TOPIC) as come, measured(secured.target) as took:
            for _ in range(scale.connections):
                began = time.monotonic()
                opened.enter_context(Connection(HOST, port, "benchmark", CLOCK, wrap=wrap))
                connect_ms.append((time.monotonic() - began) * 1e3)
        with watching(port, secured.properties, TOPIC) as stay:
            time.sleep(scale.watch_s)
        memory = resident_mb(pid) - before
    count = scale.connections
    waits = (_waits(each) for each in (alone, come, stay))
    return Held(secured.target.name, count, median(connect_ms), took[1] / count * 1e3, memory / count * 1024, *waits)


def _waits(seen: Seen) -> tuple[float, float]:
    both = [*seen.requests, *seen.produced]
    return median(both), quantiles(both, n=100)[98]


def summary(figures: Sequence[Figure]) -> list[Figure]:
    """The median of each workload's rates and CPU."""
    found = []
    for target, workload in dict.fromkeys((each.target, each.workload) for each in figures):
        own = [each for each in figures if (each.target, each.workload) == (target, workload)]
        rate, cpu = median(each.rate for each in own), median(each.cpu for each in own)
        found.append(Figure(target, workload, rate, own[0].unit, cpu, own[0].cpu_unit))
    return found


def run(scale: Scale) -> tuple[list[Figure], list[Held]]:
    """Both brokers in turn, so that the machine's other work is everybody's."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as started:
        zookeeper = start_zookeeper(Path(name))
        started.callback(zookeeper.stop)
        both = [Secured(kind, Path(name), zookeeper.connect) for kind in ("odradek", "kafka")]
        for secured in both:
            started.callback(secured.target.stop)
            secured.start()
            one_round(secured, scale._replace(records=scale.records // 4))  # warm-up
        for _ in range(scale.rounds):
            for secured in both:
                figures += one_round(secured, scale)
        return summary(figures), [held(secured, scale) for secured in both]


def show(figures: Sequence[Figure], connections: Sequence[Held], decisions: dict[str, float]) -> None:
    console = Console()
    table = Table("workload", "Odradek", "its CPU", "Kafka", "its CPU")
    by_name = {(each.target, each.workload): each for each in figures}
    for workload in dict.fromkeys(each.workload for each in figures):
        cells = []
        for each in (by_name["odradek", workload], by_name["kafka", workload]):
            cells += [f"{each.rate:.0f} {each.unit}", f"{each.cpu:.2f} {each.cpu_unit}"]
        table.add_row(workload, *cells)
    console.print(table)
    table = Table("connections", "connect ms", "CPU ms", "KB each", "bystander alone", "they come", "they stay")
    for held_by in connections:
        waits = (held_by.alone, held_by.while_they_come, held_by.while_they_stay)
        table.add_row(
            f"{held_by.connections} on {held_by.target}",
            *(f"{value:.1f}" for value in (held_by.connect_ms, held_by.cpu_ms, held_by.memory_kb)),
            *(f"{middle:.1f} / {high:.1f} ms" for middle, high in waits),
        )
    console.print(table)
    authorizer.show(decisions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--records", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--connections", type=int)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    given = {name: getattr(options, name) for name in ("records", "rounds", "connections")}
    scale = scale._replace(**{name: value for name, value in given.items() if value is not None})
    raise_descriptor_limit()
    load = os.getloadavg()[0]
    figures, connections = run(scale)
    decisions = authorizer.figures(authorizer.QUICK_ROUNDS if options.quick else authorizer.ROUNDS)
    if options.json:
        found = {
            "load": load,
            "workloads": [asdict(each) for each in figures],
            "connections": [asdict(each) for each in connections],
            "decisions_us": decisions,
        }
        print(json.dumps(found, indent=2))
        return
    show(figures, connections, decisions)
    print(f"load at the start {load:.1f}")


if __name__ == "__main__":
    main()
