"""Idempotent producers whose requests and answers get lost, held back, repeated and torn. Half a minute each.

No duplicate, no loss, no reorder, with five requests in flight; the same holds for Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from broker.dev.processes import free_ports
from tests.reference import kafka as reference
from tests.support.cluster import HOST, Cluster
from tests.support.faulty_proxy import FaultyProxy, Mishap
from tests.support.replication import QUIET, read_back

PARTITIONS = 3
BATCHES = 150  # in each partition, if they get full
BATCH = 10
TOPIC = "once"
RATES: dict[Mishap, float] = {"lost": 0.03, "cut": 0.03, "held": 0.02, "repeated": 0.03, "torn": 0.03}
PATIENCE_MS = 1_000
HOLD_S = 1.5


class Lossy(NamedTuple):
    """One broker, and the proxy that clients are sent to."""

    cluster: Cluster
    proxy: FaultyProxy


@pytest.fixture(params=["odradek", "kafka"])
def lossy(request: pytest.FixtureRequest, chroot: str, tmp_path: Path) -> Iterator[Lossy]:
    if request.param == "kafka":
        reference.require()
    cluster = Cluster([request.param], tmp_path, chroot)
    (broker,) = cluster.brokers
    (port,) = free_ports(1)
    proxy = FaultyProxy(port, RATES, HOLD_S, seed=7)
    broker.settings |= {
        "listeners": f"PLAINTEXT://{broker.address},LOSSY://{HOST}:{port}",
        "advertised.listeners": f"PLAINTEXT://{broker.address},LOSSY://{HOST}:{proxy.port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOSSY:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    try:
        cluster.start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        yield Lossy(cluster, proxy)
    finally:
        proxy.close()
        cluster.stop()


def confluent(address: str, written: dict[int, list[bytes]]) -> None:
    failures: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "max.in.flight.requests.per.connection": 5,
            "batch.num.messages": BATCH,
            "linger.ms": 5,
            "request.timeout.ms": PATIENCE_MS,
            "socket.timeout.ms": PATIENCE_MS + 300,
            "message.timeout.ms": 120_000,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            "retry.backoff.ms": 10,
            "log_level": 0,
        }
    )
    for place, value in records(written):
        producer.produce(
            TOPIC, value, partition=place, on_delivery=lambda error, _: failures.append(error) if error else None
        )
        producer.poll(0)
    assert producer.flush(120) == 0
    assert not failures, failures[:3]


def kafka_python(address: str, written: dict[int, list[bytes]]) -> None:
    producer = KafkaProducer(
        bootstrap_servers=address,
        enable_idempotence=True,
        max_in_flight_requests_per_connection=5,
        batch_size=300,
        linger_ms=5,
        request_timeout_ms=PATIENCE_MS,
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=50,
        retry_backoff_ms=10,
    )
    futures = [producer.send(TOPIC, value, partition=place) for place, value in records(written)]
    for future in futures:
        future.get(120)
    producer.close()


def records(written: dict[int, list[bytes]]) -> Iterator[tuple[int, bytes]]:
    """Partition and value of each record; noted in the order in which they are handed over."""
    for number in range(PARTITIONS * BATCHES * BATCH):
        value = b"%d" % number
        written[number % PARTITIONS].append(value)
        yield number % PARTITIONS, value


@pytest.mark.parametrize("client", [confluent, kafka_python], ids=lambda client: client.__name__)
def test_each_record_is_there_once_and_in_order(
    client: Callable[[str, dict[int, list[bytes]]], None], lossy: Lossy
) -> None:
    written: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
    client(f"{HOST}:{lossy.proxy.port}", written)
    assert read_back(lossy.cluster, TOPIC, PARTITIONS) == written
    assert lossy.proxy.happened.total() >= 10, lossy.proxy.happened
