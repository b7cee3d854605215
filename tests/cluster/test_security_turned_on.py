"""Security is turned on in a running cluster by rolling restarts, as docs/security.md has it, while clients write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from broker.dev.polling import wait_until
from broker.dev.processes import free_ports, is_listening
from tests.support.certificates import Authority, of_listener, server_settings
from tests.support.cluster import CLOCK, HOST, Cluster
from tests.support.replication import QUIET, IdempotentLoad, create_topic, wait_in_sync
from tests.support.rules_in_force import SCRAM, permit, set_users
from tests.support.sasl import jaas

PARTITIONS = 2
PLAIN, SECURE = "written-in-plain-text", "written-by-alice"
"""Topics, and the groups that read them."""
TOPIC_TYPE, GROUP_TYPE, READ, WRITE = 2, 3, 3, 4
USERS = {"alice": "alice-secret", "bob": "bob-secret", "mallory": "mallory-secret"}
MAP = "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL"
LOGIN = jaas("PLAIN", username="broker", password="broker-secret", user_broker="broker-secret")
TIMEOUT_MS = 60_000


@dataclass
class Growing:
    """Two brokers that begin with plain text."""

    cluster: Cluster
    authority: Authority
    secure: list[int]
    """The ports of the second listener."""

    def listeners(self, number: int, *, plain: bool) -> str:
        secure = f"SECURE://{HOST}:{self.secure[number]}"
        return f"PLAINTEXT://{self.cluster.brokers[number].address},{secure}" if plain else secure

    def options(self, user: str) -> dict[str, Any]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": SCRAM,
            "sasl.username": user,
            "sasl.password": USERS[user],
            "ssl.ca.pem": self.authority.pem,
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.secure)


@pytest.fixture
def growing(zookeeper: str, tmp_path: Path) -> Iterator[Growing]:
    settings = {"zookeeper.session.timeout.ms": "6000", "min.insync.replicas": "1"}
    cluster = Cluster(["odradek", "odradek"], tmp_path, f"{zookeeper}/turned-on", settings)
    try:
        cluster.start()
        yield Growing(cluster, Authority(), free_ports(2))
    finally:
        cluster.stop()


def partitions_in_sync(growing: Growing) -> bool:
    """As alice sees it, for whom the plain listener is not there any more."""
    admin = AdminClient({"bootstrap.servers": growing.bootstrap, **QUIET, **growing.options("alice")})
    try:
        found = admin.list_topics(SECURE, timeout=10)
    except KafkaException:
        return False
    partitions = found.topics[SECURE].partitions.values()
    return len(found.brokers) == 2 and len(partitions) == PARTITIONS and all(len(each.isrs) == 2 for each in partitions)


def read(growing: Growing, user: str, topic: str, count: int) -> dict[int, list[bytes]]:
    """So many records. Raises KafkaException for whom is refused."""
    consumer = Consumer(
        {"bootstrap.servers": growing.bootstrap, "group.id": topic, "auto.offset.reset": "earliest", **QUIET,
         **growing.options(user)}
    )  # fmt: skip
    found: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
    consumer.subscribe([topic])
    try:
        while sum(map(len, found.values())) < count:
            (message,) = consumer.consume(1, 30) or (None,)
            assert message is not None, "nothing comes any more"
            if message.error() is not None:
                raise KafkaException(message.error())
            number, value = message.partition(), message.value()
            assert number is not None
            assert value is not None
            found[number].append(value)
    finally:
        consumer.close()
    return found


def test_a_running_cluster_is_secured_by_rolling_restarts(growing: Growing, tmp_path: Path) -> None:
    cluster = growing.cluster
    for topic in (PLAIN, SECURE):
        create_topic(cluster, topic, [[0, 1], [1, 0]])
    load = IdempotentLoad(cluster.bootstrap, PLAIN, PARTITIONS)

    # A second listener, with what brokers log in by.
    for number, broker in enumerate(cluster.brokers):
        tls = server_settings(growing.authority.issue(), growing.authority, tmp_path / f"keys-{number}")
        broker.settings |= {
            "listeners": growing.listeners(number, plain=True),
            "listener.security.protocol.map": MAP,
            "listener.name.secure.sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
            "listener.name.secure.plain.sasl.jaas.config": LOGIN,
            f"listener.name.secure.{SCRAM.lower()}.sasl.jaas.config": jaas(SCRAM),
            **of_listener("secure", tls),
        }
        load.wait_progress(20)
        broker.stop()
        broker.start()
        cluster.wait_ready()
        wait_in_sync(cluster, PLAIN, TIMEOUT_MS)

    # The brokers move to it, and an authorizer decides: plain clients may still do what they did.
    for broker in cluster.brokers:
        broker.settings |= {
            "inter.broker.listener.name": "SECURE",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:broker;User:ANONYMOUS",
        }
        load.wait_progress(20)
        broker.stop()
        broker.start()
        cluster.wait_ready()
        wait_in_sync(cluster, PLAIN, TIMEOUT_MS)

    # Users and ACLs, then the clients move.
    set_users(cluster, made=USERS)
    for broker in cluster.brokers:  # each obeys what it has made itself at once, and what others made a moment later
        permit(broker, "alice", (TOPIC_TYPE, SECURE, WRITE))
        for topic in (PLAIN, SECURE):
            permit(broker, "bob", (TOPIC_TYPE, topic, READ), (GROUP_TYPE, topic, READ))
    assert wait_until(lambda: partitions_in_sync(growing), CLOCK, TIMEOUT_MS)
    load.wait_progress(20)
    load.finish()
    moved = IdempotentLoad(growing.bootstrap, SECURE, PARTITIONS, security=growing.options("alice"))

    # The plain listener goes.
    for number, broker in enumerate(cluster.brokers):
        moved.wait_progress(20)
        plain = broker.port
        broker.settings |= {"listeners": growing.listeners(number, plain=False), "super.users": "User:broker"}
        broker.stop()
        broker.start()
        assert wait_until(lambda: partitions_in_sync(growing), CLOCK, TIMEOUT_MS)
        assert not is_listening(HOST, plain)
    moved.wait_progress(20)
    moved.finish()

    for each in (load, moved):
        each.check(read(growing, "bob", each.topic, each.count))
    with pytest.raises(KafkaException) as refused:
        read(growing, "mallory", SECURE, 1)
    assert refused.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
