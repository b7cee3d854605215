"""Apache Kafka and Odradek in one cluster that speaks SASL among its brokers: replication, the controller's orders, and
users and tokens of one that are good on the other."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from broker.dev.polling import wait_until
from network.client.connection import ConnectionFailed
from network.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from network.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from network.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from network.sasl.scram_credential import MECHANISMS, SHA_256, salted_password
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster
from tests.support.sasl import LISTENER, logged_in, running_sasl_cluster, sasl_address
from tests.support.zookeeper import zookeeper_client

SALT = b"salt of a test"
LAG_MS = 5_000
MECHANISM = "sasl.mechanism.inter.broker.protocol"


def admin_credential(mechanism: str) -> str:
    from network.sasl.scram_credential import credential_of

    scram = MECHANISMS[mechanism]
    return credential_of(scram, SALT, salted_password(scram, "admin-secret", SALT, 4096), 4096).to_text()


@pytest.fixture(scope="module", params=["PLAIN", "SCRAM-SHA-512"])
def cluster(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Two brokers of ours and one of Kafka's. The user of the brokers is in ZooKeeper before the first one starts."""
    name = f"sasl-mixed-{request.param.lower()}"
    connect = f"{zookeeper}/{name}"
    with zookeeper_client(connect) as client:
        text = admin_credential("SCRAM-SHA-512")
        content = f'{{"version":1,"config":{{"SCRAM-SHA-512":"{text}"}}}}'
        client.create("/config/users/admin", content.encode(), makepath=True)
    more = {
        "inter.broker.listener.name": LISTENER,
        "sasl.mechanism.inter.broker.protocol": request.param,
        "replica.lag.time.max.ms": str(LAG_MS),
    }
    directory = tmp_path_factory.mktemp(name)
    with running_sasl_cluster(["odradek", "kafka", "odradek"], directory, connect, **more) as cluster:
        yield cluster


def enters(broker: Broker, password: str, user: str = "erin") -> bool:
    try:
        logged_in(broker, "SCRAM-SHA-256", {"username": user, "password": password}).close()
        return True
    except ConnectionFailed as error:
        if "Authentication failed" not in str(error):
            raise
        return False


def set_password(cluster: Cluster, user: str, password: str) -> None:
    change = ScramCredentialUpsertion(
        name=user,
        mechanism=1,
        iterations=4096,
        salt=SALT,
        salted_password=salted_password(SHA_256, password, SALT, 4096),
    )
    with cluster.client() as client:
        (result,) = client.call_controller(AlterUserScramCredentialsRequest(upsertions=[change])).results
    assert result.error_code == 0, result.error_message


def test_replicas_of_both_kinds_stay_in_sync(cluster: Cluster) -> None:
    topic = wire.create_topic(cluster, partitions=6, replication_factor=3)
    cluster.wait_topic(topic, 6)
    bootstrap = ",".join(map(sasl_address, cluster.brokers))
    settings = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
    }
    producer = Producer({**settings, "acks": "all", "enable.idempotence": True})
    for number in range(300):
        producer.produce(topic, str(number).encode())
    assert producer.flush(60) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read: set[bytes | None] = set()
    while len(read) < 300:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is None:
            read.add(message.value())
    consumer.close()
    with cluster.client() as client:

        def in_sync() -> bool:
            partitions = client.topic(topic, refresh=True).partitions.values()
            return all(len(partition.isr) == 3 for partition in partitions)

        assert wait_until(in_sync, CLOCK, 30_000)


def test_a_password_of_one_broker_is_good_on_all_within_a_second(cluster: Cluster) -> None:
    for password, before in (("first", None), ("second", "first")):
        set_password(cluster, "erin", password)
        for broker in cluster.brokers:
            # A second for the notification, and what a login itself takes.
            assert wait_until(lambda b=broker, p=password: enters(b, p), CLOCK, 2_000), broker.kind  # type: ignore[misc]
            assert before is None or not enters(broker, before)
    deletion = ScramCredentialDeletion(name="erin", mechanism=1)
    with cluster.client() as client:
        client.call_controller(AlterUserScramCredentialsRequest(deletions=[deletion]))
    for broker in cluster.brokers:
        assert wait_until(lambda b=broker: not enters(b, "second"), CLOCK, 2_000), broker.kind  # type: ignore[misc]


@pytest.mark.parametrize("maker", [0, 1])
def test_a_token_of_one_broker_is_good_on_all(cluster: Cluster, maker: int) -> None:
    alice = {"username": "alice", "password": "alice-secret"}
    with logged_in(cluster.brokers[maker], "PLAIN", alice) as connection:
        token = connection.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 3)
    assert token.error_code == 0
    options = {
        "username": token.token_id,
        "password": base64.b64encode(token.hmac).decode(),
        "tokenauth": "true",
    }

    def good(broker: Broker) -> bool:
        try:
            logged_in(broker, "SCRAM-SHA-512", options).close()
            return True
        except ConnectionFailed:
            return False

    for broker in cluster.brokers:
        assert wait_until(lambda b=broker: good(b), CLOCK, 5_000), broker.kind  # type: ignore[misc]
    with logged_in(cluster.brokers[1 - maker], "PLAIN", alice) as connection:
        ended = connection.call(ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1), 2)
    assert ended.error_code == 0
    for broker in cluster.brokers:
        assert wait_until(lambda b=broker: not good(b), CLOCK, 5_000), broker.kind  # type: ignore[misc]


def alter_broker(cluster: Cluster, broker: Broker, name: str, value: str | None) -> None:
    change = AlterableConfig(name=name, config_operation=1 if value is None else 0, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name=str(broker.broker_id), configs=[change])
    with cluster.client() as client:
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (answer,) = client.call_broker(broker.broker_id, request).responses
    assert answer.error_code == 0, answer.error_message


@pytest.mark.parametrize("cluster", ["PLAIN"], indirect=True)
@pytest.mark.parametrize("changed", [0, 1])
def test_brokers_log_in_to_each_other_by_another_mechanism(cluster: Cluster, changed: int) -> None:
    """Said while they run: new connections are made by it, and fail until it has the brokers' user."""
    broker = cluster.brokers[changed]
    for each in cluster.brokers:  # also where another broker's turn has left it a moment ago
        assert wait_until(lambda each=each: not enters(each, "admin-secret", "admin"), CLOCK, 30_000)  # type: ignore[misc]
    topic = wire.create_topic(cluster, partitions=6, replication_factor=3)
    cluster.wait_topic(topic, 6)
    with cluster.client() as client:

        def in_sync(*, everywhere: bool) -> bool:
            partitions = client.topic(topic, refresh=True).partitions.values()
            return all(broker.broker_id in each.isr for each in partitions) is everywhere

        def out_of_sync() -> bool:
            """Who has nothing to fetch is never late."""
            for number, partition in client.topic(topic).partitions.items():
                wire.produce(cluster.brokers[partition.leader], topic, wire.batch([b"x"]), partition=number, acks=1)
            return in_sync(everywhere=False)

        assert wait_until(lambda: in_sync(everywhere=True), CLOCK, 30_000)
        alter_broker(cluster, broker, MECHANISM, "SCRAM-SHA-256")
        alter_broker(cluster, broker, "num.replica.fetchers", "2")  # the second one connects anew
        try:
            assert wait_until(out_of_sync, CLOCK, 60_000)
            set_password(cluster, "admin", "admin-secret")
            assert wait_until(lambda: in_sync(everywhere=True), CLOCK, 60_000)
        finally:
            alter_broker(cluster, broker, MECHANISM, None)
            alter_broker(cluster, broker, "num.replica.fetchers", None)
            deletion = ScramCredentialDeletion(name="admin", mechanism=1)
            client.call_controller(AlterUserScramCredentialsRequest(deletions=[deletion]))
