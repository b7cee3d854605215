"""TLS to a real ZooKeeper: sessions of every kind of store, who is not trusted, and a cluster of both kinds of brokers
whose znodes are for the subject of their certificate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError

from broker.config.kafka_config import KafkaConfig
from broker.security.zookeeper_tls import zookeeper_tls
from controller.zk.kazoo_session import KazooSession
from controller.zk.ops import Create, GetData, SetData
from controller.zk.session import ConnectTimeoutError
from tests.support import wire
from tests.support.certificates import PASSWORD, Authority
from tests.support.cluster import CLOCK, Cluster
from tests.support.zookeeper import zookeeper_client
from tests.support.zookeeper_tls import TlsZooKeeper

NETTY = {"zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty"}
ENABLED = {"zookeeper.ssl.client.enable": "true"}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def server(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsZooKeeper]:
    made = TlsZooKeeper(tmp_path_factory.mktemp("zookeeper-tls") / "server", authority)
    try:
        made.wait_until_ready(CLOCK)
        yield made
    finally:
        made.stop()


def stores(authority: Authority, directory: Path, key: str = "PKCS12", trust: str = "PEM") -> dict[str, str]:
    """Their types are told by the ends of their names."""
    broker = authority.issue("broker")
    settings = {"zookeeper.ssl.keystore.password": PASSWORD}
    if key == "PEM":
        settings["zookeeper.ssl.keystore.location"] = str(broker.pem_file(directory / "own.pem", PASSWORD))
    elif key == "JKS":
        settings["zookeeper.ssl.keystore.location"] = str(broker.jks_file(directory / "own.jks"))
    else:
        settings["zookeeper.ssl.keystore.location"] = str(broker.pkcs12_file(directory / "own.p12"))
    if trust == "PEM":
        return {**settings, "zookeeper.ssl.truststore.location": str(authority.pem_file(directory / "ca.pem"))}
    location = authority.trust_file(directory / f"trust.{'jks' if trust == 'JKS' else 'p12'}", trust)
    return {
        **settings,
        "zookeeper.ssl.truststore.location": str(location),
        "zookeeper.ssl.truststore.password": PASSWORD,
    }


def session(connect: str, settings: Mapping[str, str], timeout_ms: int = 20_000) -> KazooSession:
    config = KafkaConfig({"zookeeper.connect": connect, "broker.id": "1", **settings})
    return KazooSession(
        connect, session_timeout_ms=10_000, connection_timeout_ms=timeout_ms, tls=zookeeper_tls(config, {})
    )


@pytest.mark.parametrize(
    ("key", "trust", "more"),
    [
        ("PEM", "PKCS12", {"zookeeper.ssl.protocol": "TLSv1.3"}),
        ("JKS", "JKS", {"zookeeper.ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}),
        ("PKCS12", "PEM", {**NETTY, "zookeeper.ssl.enabled.protocols": "TLSv1.2,TLSv1.3"}),
    ],
)
def test_a_session(
    server: TlsZooKeeper, authority: Authority, tmp_path: Path, key: str, trust: str, more: dict[str, str]
) -> None:
    made = session(f"{server.secure}/{key}", {**ENABLED, **stores(authority, tmp_path, key, trust), **more})
    made.start()
    try:
        assert made.submit([Create("/n", b"")])[0].ok
        # Many answers of several TLS records each, on the wire together.
        for size in (10, 100_000):
            data = b"x" * size
            assert all(each.ok for each in made.submit([SetData("/n", data)] * 20))
            assert [each.data for each in made.submit([GetData("/n")] * 40)] == [data] * 40
    finally:
        made.close()


def test_who_is_not_trusted(server: TlsZooKeeper, authority: Authority, zookeeper: str, tmp_path: Path) -> None:
    good = {**ENABLED, **stores(authority, tmp_path)}
    other = {"zookeeper.ssl.truststore.location": str(Authority("Other CA").pem_file(tmp_path / "other.pem"))}
    cases = [
        (server.secure, {k: v for k, v in good.items() if "keystore" not in k}, "or wants one"),
        (server.secure, {**good, **other}, "the certificate of ZooKeeper on 127.0.0.1 is not taken"),
        (server.connect, good, "secureClientPort"),
        (zookeeper, good, "secureClientPort"),
    ]
    for connect, settings, said in cases:
        with pytest.raises(ConnectTimeoutError, match=said):
            session(connect, settings, timeout_ms=2_000).start()


def test_a_name_that_the_certificate_lacks(authority: Authority, tmp_path: Path) -> None:
    strange = TlsZooKeeper(tmp_path / "server", authority, hosts=("zookeeper.example",), ssl_clientAuth="none")
    try:
        strange.wait_until_ready(CLOCK)
        trusting = {**ENABLED, "zookeeper.ssl.truststore.location": str(authority.pem_file(tmp_path / "ca.pem"))}
        with pytest.raises(ConnectTimeoutError, match=r"not taken: .*127\.0\.0\.1"):
            session(strange.secure, trusting, timeout_ms=2_000).start()
        made = session(strange.secure, {**trusting, "zookeeper.ssl.endpoint.identification.algorithm": ""})
        made.start()
        made.close()
    finally:
        strange.stop()


def test_both_kinds_share_znodes_of_their_certificate(
    server: TlsZooKeeper, authority: Authority, tmp_path: Path
) -> None:
    settings = {**ENABLED, **NETTY, **stores(authority, tmp_path), "zookeeper.set.acl": "true"}
    cluster = Cluster(["odradek", "kafka"], tmp_path, server.secure, settings)
    try:
        cluster.start()
        topic = wire.create_topic(cluster, partitions=4, replication_factor=2)
        cluster.wait_topic(topic, 4)
        with zookeeper_client(server.connect) as stranger:
            for path in (f"/brokers/topics/{topic}", "/controller", "/brokers/ids/0"):
                assert stranger.get(path)[0]
                with pytest.raises(NoAuthError):
                    stranger.set(path, b"{}")
            with pytest.raises(NoAuthError):
                stranger.get("/config/users")
            ours, theirs = (stranger.get_acls(f"/brokers/ids/{number}")[0] for number in (0, 1))
            assert ours == theirs
            identities = {(each.id.scheme, each.id.id) for each in ours}
            assert identities == {("x509", "CN=broker,O=Odradek\\, tests,C=CZ"), ("world", "anyone")}
    finally:
        cluster.stop()


def test_a_broker_without_a_certificate_has_no_znodes_of_its_own(
    server: TlsZooKeeper, authority: Authority, tmp_path: Path
) -> None:
    settings = {**ENABLED, **NETTY, **stores(authority, tmp_path), "zookeeper.set.acl": "true"}
    del settings["zookeeper.ssl.keystore.location"]
    (broker,) = Cluster(["odradek"], tmp_path, server.secure, settings).brokers
    broker.fail_to_start()
    assert "zookeeper.set.acl is true, but there is no login to ZooKeeper" in broker.log_tail()
    assert "Traceback" not in broker.log_tail()
