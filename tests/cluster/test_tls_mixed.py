"""Apache Kafka and Odradek in one cluster that speaks SASL_SSL among its brokers: replication both ways, the controller
of either kind, whose orders come by a listener of their own, markers of transactions, and a certificate that is
replaced in a running cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from network.client.connection import Connection, ConnectionFailed
from network.client.security import client_security
from network.protocol.messages.metadata import MetadataRequest
from tests.support.certificates import Authority, of_listener, server_settings
from tests.support.cluster import CLOCK, HOST, Cluster
from tests.support.controllers import controller, elect_controller
from tests.support.zookeeper import zookeeper_client

LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin-secret" user_admin="admin-secret";'
)


@dataclass
class Secured:
    cluster: Cluster
    authority: Authority
    bootstrap: str

    @property
    def options(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "admin-secret",
            "ssl.ca.pem": self.authority.pem,
        }


@pytest.fixture(scope="module")
def secured(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    authority = Authority()
    directory = tmp_path_factory.mktemp("tls-mixed")
    ports = free_ports(6)
    own: dict[int, dict[str, str]] = {}
    for number in (0, 1):
        plain, internal, control = ports[3 * number : 3 * number + 3]
        tls = server_settings(authority.issue(f"broker-{number}"), authority, directory / f"keys-{number}")
        own[number] = {
            "listeners": f"PLAINTEXT://{HOST}:{plain},INTERNAL://{HOST}:{internal},CONTROL://{HOST}:{control}",
            **of_listener("internal", tls),
            **of_listener("control", tls),
        }
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SASL_SSL,CONTROL:SASL_SSL",
        "control.plane.listener.name": "CONTROL",
        "listener.name.control.plain.sasl.jaas.config": LOGIN,
        "listener.name.control.ssl.client.auth": "required",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.internal.plain.sasl.jaas.config": LOGIN,
        "listener.name.internal.ssl.client.auth": "required",
        "zookeeper.session.timeout.ms": "6000",
        "auto.leader.rebalance.enable": "false",
    }
    cluster = Cluster(["odradek", "kafka"], directory, f"{zookeeper}/tls-mixed", settings, own)
    for number, broker in enumerate(cluster.brokers):
        broker.port, broker.address = ports[3 * number], f"{HOST}:{ports[3 * number]}"
    try:
        cluster.start()
        yield Secured(cluster, authority, f"{HOST}:{ports[1]},{HOST}:{ports[4]}")
    finally:
        cluster.stop()


def _in_sync(secured: Secured, topic: str) -> bool:
    with secured.cluster.client() as client:
        partitions = client.topic(topic, refresh=True).partitions.values()
    return all(len(partition.isr) == 2 for partition in partitions)


def _round_trip(secured: Secured, topic: str) -> None:
    """A topic of four partitions, led by both; a transaction over all; every record comes back by the secure way, and
    again from the other replica of its partition."""
    # The clients need certificates here: they borrow the first broker's.
    options = {**secured.options, **_identity(secured)}
    admin = AdminClient(options)
    new = NewTopic(topic, num_partitions=4, replica_assignment=[[0, 1], [1, 0], [0, 1], [1, 0]])
    admin.create_topics([new])[topic].result(60)
    secured.cluster.wait_topic(topic, 4)
    assert wait_until(lambda: _in_sync(secured, topic), CLOCK, 60_000)
    producer = Producer({**options, "acks": "all", "transactional.id": f"id-{topic}"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(400):
        producer.produce(topic, str(number).encode() * 50, partition=number % 4)
    producer.commit_transaction(60)
    consumer = Consumer(
        {**options, "group.id": topic, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    )
    consumer.subscribe([topic])
    read: set[bytes | None] = set()
    while len(read) < 400:
        message = consumer.poll(60)
        assert message is not None, f"only {len(read)} came"
        assert message.error() is None
        read.add(message.value())
    consumer.close()
    assert wait_until(lambda: _in_sync(secured, topic), CLOCK, 60_000)


def _identity(secured: Secured) -> dict[str, str]:
    client = secured.authority.issue("client")
    return {"ssl.key.pem": client.key_pem(), "ssl.certificate.pem": client.chain_pem}


def test_each_kind_controls_and_leads_the_other(secured: Secured) -> None:
    with zookeeper_client(secured.cluster.zookeeper) as client:
        for number in (0, 1):
            elect_controller(secured.cluster, client, [number])
            _round_trip(secured, f"controlled-by-{number}")
            now = controller(client)
            assert now is not None
            assert now[0] == number


@pytest.mark.parametrize("number", [0, 1])
def test_nobody_enters_without_a_certificate_or_with_a_wrong_password(secured: Secured, number: int) -> None:
    client = secured.authority.issue("client")
    good = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": LOGIN,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": secured.authority.pem,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": client.key_pem(),
        "ssl.keystore.certificate.chain": client.chain_pem,
    }
    port = int(secured.bootstrap.split(",")[number].rpartition(":")[2])

    def ask(properties: dict[str, str]) -> int:
        with Connection(HOST, port, "t", CLOCK, wrap=client_security(properties, CLOCK)) as connection:
            return len(connection.call(MetadataRequest(topics=[]), 9).brokers)

    assert ask(good) == 2
    with pytest.raises(ConnectionFailed, match="Authentication failed"):
        ask({**good, "sasl.jaas.config": LOGIN.replace('password="admin-secret"', 'password="wrong"')})
    with pytest.raises(ConnectionFailed):
        ask({name: value for name, value in good.items() if "keystore" not in name})
    with pytest.raises(ConnectionFailed):
        ask({**good, "security.protocol": "SSL"})
    with pytest.raises(ConnectionFailed):
        ask({**good, "security.protocol": "SASL_PLAINTEXT"})
