"""A cluster of both kinds on a ZooKeeper that knows who is who: znodes are for the brokers' principal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError

from broker.dev.processes import free_ports
from broker.dev.zookeeper import ZooKeeperServer
from tests.support import wire
from tests.support.cluster import CLOCK, Cluster
from tests.support.zookeeper import zookeeper_client

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
LOGIN = "-Djava.security.auth.login.config="


def jaas(file: Path, context: str, **options: str) -> Path:
    text = " ".join(f'{name}="{value}"' for name, value in options.items())
    file.write_text(f"{context} {{ {MODULE} required {text}; }};\n")
    return file


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("zookeeper-login")


@pytest.fixture(scope="module")
def secured(directory: Path) -> Iterator[str]:
    """The address of a ZooKeeper with one user."""
    file = jaas(directory / "server.conf", "Server", user_odradek="between us")
    with pytest.MonkeyPatch.context() as patch:
        provider = "-Dzookeeper.authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        patch.setenv("JAVA_TOOL_OPTIONS", f"{LOGIN}{file} {provider}")
        data = directory / "zookeeper"
        data.mkdir()
        server = ZooKeeperServer(data, free_ports(1)[0])
        try:
            server.wait_until_ready(CLOCK)
            patch.delenv("JAVA_TOOL_OPTIONS")
            yield server.connect
        finally:
            server.stop()


def log_in_by(cluster: Cluster, file: Path) -> None:
    for broker in cluster.brokers:
        name = "JAVA_TOOL_OPTIONS" if broker.kind == "kafka" else "KAFKA_OPTS"
        broker.environment[name] = f"{LOGIN}{file}"


def test_both_kinds_share_znodes_that_nobody_else_may_change(secured: str, directory: Path) -> None:
    file = jaas(directory / "client.conf", "Client", username="odradek", password="between us")
    cluster = Cluster(["odradek", "kafka"], directory, secured, {"zookeeper.set.acl": "true"})
    log_in_by(cluster, file)
    try:
        cluster.start()
        topic = wire.create_topic(cluster, partitions=4, replication_factor=2)
        cluster.wait_topic(topic, 4)
        with zookeeper_client(secured) as stranger:
            assert stranger.get(f"/brokers/topics/{topic}")[0]
            for path in (f"/brokers/topics/{topic}", "/controller", "/brokers/ids/0", "/config/topics"):
                with pytest.raises(NoAuthError):
                    stranger.set(path, b"{}")
            with pytest.raises(NoAuthError):
                stranger.get("/config/users")
            # The two brokers' own znodes, one made by each kind, have the same ACLs.
            ours, theirs = (stranger.get_acls(f"/brokers/ids/{number}")[0] for number in (0, 1))
            assert ours == theirs
            assert {(each.id.scheme, each.id.id) for each in ours} == {("sasl", "odradek"), ("world", "anyone")}
    finally:
        cluster.stop()


@pytest.mark.parametrize(
    ("password", "said"),
    [("guessed", "Authentication"), (None, "zookeeper.set.acl is true, but there is no login to ZooKeeper")],
)
def test_a_broker_that_cannot_log_in_does_not_start(
    secured: str, tmp_path: Path, password: str | None, said: str
) -> None:
    settings = {"zookeeper.set.acl": "true", "zookeeper.connection.timeout.ms": "5000"}
    cluster = Cluster(["odradek"], tmp_path, f"{secured}/{tmp_path.name}", settings)
    if password is not None:
        log_in_by(cluster, jaas(tmp_path / "client.conf", "Client", username="odradek", password=password))
    (broker,) = cluster.brokers
    broker.fail_to_start()
    lines = [line for line in broker.log_tail().splitlines() if "could not be started" in line]
    assert len(lines) == 1, broker.log_tail()
    assert said.lower() in lines[0].lower()
    assert "guessed" not in broker.log_tail()
