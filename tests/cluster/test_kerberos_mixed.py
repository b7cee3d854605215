"""Apache Kafka and Odradek in one cluster whose brokers log in to each other by Kerberos. What they log in with stands
in a static JAAS file, as does what a client logs in with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from broker.cli.main import odradek
from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster
from tests.support.kdc import REALM, Kdc, running_kdc
from tests.support.sasl import KERBEROS_MODULE, LISTENER, quoted, sasl_port, sasl_settings

SERVICE, NAME = "kafka", "localhost"


def context(name: str, principal: str, keytab: Path) -> str:
    options = {"useKeyTab": "true", "storeKey": "true", "keyTab": str(keytab), "principal": f"{principal}@{REALM}"}
    return f"{name} {{ {KERBEROS_MODULE} required {quoted(options)}; }};\n"


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with running_kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        yield kdc


@pytest.fixture(scope="module")
def cluster(kdc: Kdc, zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers of ours and one of Kafka's."""
    jaas = kdc.directory / "jaas.conf"
    keytab = kdc.keytab(f"{SERVICE}/{NAME}")
    jaas.write_text(
        context("KafkaServer", f"{SERVICE}/{NAME}", keytab) + context("KafkaClient", "alice", kdc.keytab("alice"))
    )
    directory = tmp_path_factory.mktemp("kerberos-mixed")
    cluster = Cluster(["odradek", "kafka", "odradek"], directory, f"{zookeeper}/kerberos-mixed")
    more = {
        "inter.broker.listener.name": LISTENER,
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": SERVICE,
    }
    java = f"-Djava.security.auth.login.config={jaas} {kdc.java_option}"
    for broker, port in zip(cluster.brokers, free_ports(3), strict=True):
        broker.settings.update(sasl_settings(broker.port, port, NAME, **more))
        for name in [name for name in broker.settings if name.endswith(".sasl.jaas.config")]:
            del broker.settings[name]
        # Java reads the one, we the other.
        broker.environment |= {"JAVA_TOOL_OPTIONS": java, "KAFKA_OPTS": java, "KRB5_CONFIG": "/nowhere"}
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def address(broker: Broker) -> str:
    return f"{NAME}:{sasl_port(broker)}"


def test_replicas_of_both_kinds_stay_in_sync(cluster: Cluster) -> None:
    topic = wire.create_topic(cluster, partitions=6, replication_factor=3)
    cluster.wait_topic(topic, 6)
    producer = Producer({"bootstrap.servers": cluster.brokers[0].address, "acks": "all"})
    for partition in range(6):
        producer.produce(topic, b"replicated", partition=partition)
    assert producer.flush(60) == 0
    with cluster.client() as client:

        def in_sync() -> bool:
            partitions = client.topic(topic, refresh=True).partitions.values()
            return all(len(partition.isr) == 3 for partition in partitions)

        assert wait_until(in_sync, CLOCK, 30_000)


def test_a_client_by_the_jaas_file(cluster: Cluster, kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CONFIG", "/nowhere")
    monkeypatch.setenv("KAFKA_OPTS", cluster.brokers[0].environment["KAFKA_OPTS"])
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.kerberos.service.name={SERVICE}\n")
    for broker in cluster.brokers:
        done = CliRunner().invoke(odradek, ["topics", "list", "-b", address(broker), "--command-config", str(file)])
        assert done.exception is None, done.output
