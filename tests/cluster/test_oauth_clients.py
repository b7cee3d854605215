"""Brokers of both kinds and our commands get their tokens from a token endpoint over TLS, by the same keys; tokens last
for seconds only, so all log in again with new ones, and nothing is interrupted."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from broker.cli.main import odradek
from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from log.files.properties_text import format_properties
from tests.cluster.test_reauthentication import metric
from tests.support import wire
from tests.support.certificates import Authority
from tests.support.cluster import CLOCK, Cluster
from tests.support.sasl import LISTENER, jaas, sasl_address, sasl_settings
from tests.support.token_server import AUDIENCE, ISSUER, TokenServer

LIFETIME_S = 6
HANDLERS = "org.apache.kafka.common.security.oauthbearer"
SECRETS = {"broker-0": "zero-secret", "broker-1": "one-secret", "tools": "tools-secret"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenServer]:
    directory = tmp_path_factory.mktemp("provider")
    authority = Authority()
    authority.pem_file(directory / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue().pem_file(directory / "server.pem"))
    made = TokenServer(SECRETS, context, LIFETIME_S)
    made.authority_file = directory / "ca.pem"
    yield made
    made.close()


def login(server: TokenServer, name: str, secret: str) -> str:
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(server.authority_file)}
    return jaas("OAUTHBEARER", clientId=name, clientSecret=secret, scope="kafka", **trust)


@pytest.fixture(scope="module")
def cluster(server: TokenServer, zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("oauth")
    keys = server.write_jwks(directory / "jwks.json").as_uri()
    cluster = Cluster(["odradek", "kafka"], directory, f"{zookeeper}/oauth-clients")
    prefix = f"listener.name.{LISTENER.lower()}.oauthbearer.sasl"
    more = {
        "inter.broker.listener.name": LISTENER,
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "connections.max.reauth.ms": "60000",
        f"{prefix}.login.callback.handler.class": f"{HANDLERS}.OAuthBearerLoginCallbackHandler",
        f"{prefix}.server.callback.handler.class": f"{HANDLERS}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": server.url,
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.clock.skew.seconds": "0",
    }
    for number, (broker, port) in enumerate(zip(cluster.brokers, free_ports(2), strict=True)):
        name = f"broker-{number}"
        own = {f"{prefix}.jaas.config": login(server, name, SECRETS[name])}
        broker.settings |= sasl_settings(broker.port, port, **more, **own)
    cluster.brokers[0].settings["odradek.http.port"] = str(free_ports(1)[0])
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={server.url},{keys}"
    cluster.brokers[1].environment["JAVA_TOOL_OPTIONS"] = allowed
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def test_brokers_replicate_and_renew_their_tokens(cluster: Cluster, server: TokenServer) -> None:
    topic = wire.create_topic(cluster, partitions=4, replication_factor=2)
    cluster.wait_topic(topic, 4)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    failures: list[object] = []
    ours = cluster.brokers[0]

    def load() -> bool:
        """Records on both replicas of each partition; whether tokens and sessions have been renewed meanwhile."""
        for number in range(100):
            producer.produce(topic, b"x", partition=number % 4, on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(60) == 0
        assert failures == [None] * len(failures)
        asked = [name for name, _ in server.asked]
        return (
            all(asked.count(f"broker-{number}") >= 4 for number in range(2))
            and metric(ours, "successful_reauthentication_total") >= 4
        )

    assert wait_until(load, CLOCK, 120_000)
    assert metric(ours, "failed_reauthentication_total") == 0
    assert all(fields == {"grant_type": "client_credentials", "scope": "kafka"} for _, fields in server.asked)
    for broker in cluster.brokers:
        assert not [secret for secret in SECRETS.values() if secret in broker.log_file.read_text()]


def test_a_command(cluster: Cluster, server: TokenServer, tmp_path: Path) -> None:
    def run(secret: str) -> tuple[int, str]:
        properties = {
            "security.protocol": LISTENER,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": login(server, "tools", secret),
            "sasl.login.callback.handler.class": f"{HANDLERS}.secured.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": server.url,
        }
        file = tmp_path / "client.properties"
        file.write_text(format_properties(properties, ""))
        arguments = ["brokers", "list", "--bootstrap-server", sasl_address(cluster.brokers[0])]
        done = CliRunner().invoke(odradek, [*arguments, "--command-config", str(file)])
        return done.exit_code, f"{done.output} {done.exception}"

    code, text = run(SECRETS["tools"])
    assert code == 0, text
    code, text = run("a-guess")
    assert code != 0
    assert "answers 401 (invalid_client)" in text
    assert "a-guess" not in text
