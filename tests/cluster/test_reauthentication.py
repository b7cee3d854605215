"""Brokers of both kinds whose sessions with each other are short: they authenticate again, nothing is interrupted."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

from confluent_kafka import Producer

from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from tests.support import wire
from tests.support.cluster import CLOCK, HOST, Broker, Cluster
from tests.support.sasl import LISTENER, sasl_settings

SESSION_MS = 2_000
RENEWALS = 10
COMPLAINT = re.compile(
    r"\b(WARN|WARNING|ERROR)\b|Failed (re-)?authentication|[Dd]isconnect|Error sending|session expired"
)


def metric(broker: Broker, name: str) -> float:
    """Of the listener that brokers use, all its processors together."""
    port = broker.settings["odradek.http.port"]
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    start = f"kafka_server_socket_server_metrics_{name}{{"
    own = [line for line in lines if line.startswith(start) and f'"{LISTENER}"' in line]
    assert own, name
    return sum(float(line.rpartition(" ")[2]) for line in own)


def test_fetchers_go_on_under_load(zookeeper: str, tmp_path: Path) -> None:
    cluster = Cluster(["odradek", "odradek", "kafka"], tmp_path, f"{zookeeper}/reauthentication")
    ours = [broker for broker in cluster.brokers if broker.kind == "odradek"]
    more = {
        "inter.broker.listener.name": LISTENER,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "connections.max.reauth.ms": str(SESSION_MS),
        "auto.leader.rebalance.enable": "false",
    }
    ports = free_ports(2 * len(cluster.brokers))
    for number, broker in enumerate(cluster.brokers):
        broker.settings |= sasl_settings(broker.port, ports[2 * number], **more)
        if broker in ours:
            broker.settings["odradek.http.port"] = str(ports[2 * number + 1])
    try:
        cluster.start()
        topic = wire.create_topic(cluster, partitions=6, replication_factor=3)
        cluster.wait_topic(topic, 6)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5})
        failures: list[object] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failures.append(error)

        def load() -> bool:
            """A thousand records on every replica; whether enough sessions have been renewed."""
            for number in range(1_000):
                producer.produce(topic, b"x" * 500, partition=number % 6, on_delivery=delivered)
            assert producer.flush(60) == 0
            return all(metric(broker, "successful_reauthentication_total") >= RENEWALS for broker in ours)

        load()
        lengths = {broker: len(broker.log_file.read_text()) for broker in cluster.brokers}
        assert wait_until(load, CLOCK, 120_000)
        assert not failures
        assert [metric(broker, "expired_connections_killed_count") for broker in ours] == [0, 0]
        assert [metric(broker, "failed_reauthentication_total") for broker in ours] == [0, 0]
        for broker in cluster.brokers:
            lines = broker.log_file.read_text()[lengths[broker] :].splitlines()
            assert [line for line in lines if COMPLAINT.search(line)] == []
    finally:
        cluster.stop()
