"""Spark on `odradek dev --secure`: its own connector and ours with the same options, a job, and what is not shown."""

from __future__ import annotations

import base64
import json
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker.cli.spark import command as odradek_spark
from log.files.properties_text import parse_properties
from network.client.connection import Connection
from network.client.security import client_security
from network.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from tests.spark import connector
from tests.spark.topics import in_order
from tests.support.certificates import Authority
from tests.support.cluster import CLOCK, HOST
from tests.support.dev_command import Command
from tests.support.sasl import jaas
from tests.support.token_server import AUDIENCE, TokenServer

SECRET = "delegation.token.secret.key=of-all-brokers"
TOPIC = "orders"
HANDLERS = "org.apache.kafka.common.security.oauthbearer"
CLIENT_SECRETS = {"alice": "alice-at-the-provider", "bob": "bob-at-the-provider"}


class Secured:
    """The cluster, and what each of its users gives to Spark."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        self.files = directory / "data" / "security"
        self.provider = provider(directory)
        prefix = "listener.name.sasl_ssl.oauthbearer.sasl"
        overrides = {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
            f"{prefix}.jaas.config": jaas("OAUTHBEARER"),
            f"{prefix}.server.callback.handler.class": f"{HANDLERS}.OAuthBearerValidatorCallbackHandler",
            "sasl.oauthbearer.jwks.endpoint.url": self.provider.write_jwks(directory / "jwks.json").as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }
        arguments = ["--secure", "--brokers", "1", "--port", "0", "--override", SECRET]
        for name, value in overrides.items():
            arguments += ["--override", f"{name}={value}"]
        self.command = Command(directory, "dev", *arguments, "--data-dir", str(self.files.parent))
        self.bootstrap = self.command.wait_ready()[1]

    def options(self, user: str) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.files / f"{user}.spark.json").read_text())
        return found

    def by_token(self, user: str, secret: str | None = None) -> dict[str, str]:
        """As `options`, with a token that the identity provider gives for the user's secret there."""
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.provider.authority_file)}
        login = jaas("OAUTHBEARER", clientId=user, clientSecret=secret or CLIENT_SECRETS[user], **trust)
        return {
            **self.options(user),
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.jaas.config": login,
            "kafka.sasl.login.callback.handler.class": f"{HANDLERS}.secured.OAuthBearerLoginCallbackHandler",
            "kafka.sasl.oauthbearer.token.endpoint.url": self.provider.url,
        }

    def client(self, user: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.files / f"{user}.json").read_text())
        return found

    def passwords(self) -> list[str]:
        own = parse_properties((self.files / "passwords.properties").read_text()).values()
        return [*own, *CLIENT_SECRETS.values()]


def provider(directory: Path) -> TokenServer:
    """An identity provider with a certificate of its own."""
    authority = Authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue().pem_file(directory / "provider.pem"))
    made = TokenServer(CLIENT_SECRETS, context)
    made.authority_file = authority.pem_file(directory / "provider-ca.pem")
    return made


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    try:
        admin = AdminClient(made.client("admin"))
        admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(30)
        producer = Producer(made.client("alice"))
        for n in range(200):
            producer.produce(TOPIC, b"value %d" % n, b"k%d" % n, partition=n % 2)
        assert producer.flush(60) == 0
        yield made
    finally:
        made.provider.close()
        if made.command.process.poll() is None:
            made.command.end(signal.SIGTERM)


def read(spark: Any, options: dict[str, str], name: str = "odradek") -> Any:
    return spark.read.format(name).options(**options, subscribe=TOPIC).load()


def test_the_connector_and_ours_read_the_same(spark: Any, secured: Secured) -> None:
    connector.require()
    options = secured.options("bob")
    theirs, ours = (in_order(read(spark, options, name).collect()) for name in ("kafka", "odradek"))
    assert len(ours) == 200
    assert ours == theirs


def test_writes_and_who_may(spark: Any, secured: Secured, tmp_path: Path) -> None:
    """A stream copies the topic: read as bob, written as alice, with the trust store in the options themselves."""
    inline = {name: text for name, text in secured.options("alice").items() if name != "kafka.ssl.truststore.location"}
    inline["kafka.ssl.truststore.certificates"] = (secured.files / "ca.pem").read_text()
    stream = spark.readStream.format("odradek").options(**secured.options("bob"), startingOffsets="earliest")
    sink = stream.option("subscribe", TOPIC).load().select("key", "value").writeStream.format("odradek")
    sink = sink.options(**inline, topic="copies", checkpointLocation=str(tmp_path / "checkpoint"))
    query = sink.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert query.exception() is None
    told = str(query.lastProgress.json) + str(query.lastProgress) + query._jsq.explainInternal(True)
    copies = {**secured.options("bob"), "subscribe": "copies"}
    rows = spark.read.format("odradek").options(**copies).load()
    assert {bytes(r.value) for r in rows.collect()} == {b"value %d" % n for n in range(200)}
    refused = rows.select("value").write.format("odradek").mode("append").options(**secured.options("bob"))
    with pytest.raises(Exception, match="_AUTHORIZATION_FAILED") as failure:
        refused.option("topic", TOPIC).save()
    told += rows._jdf.queryExecution().toString() + rows._jdf.queryExecution().explainString(
        spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    )
    told += str(failure.value)
    for secret in [*secured.passwords(), "BEGIN CERTIFICATE"]:
        assert secret not in told


def test_what_is_wrong_is_told_without_secrets(spark: Any, secured: Secured) -> None:
    options = secured.options("bob")
    login = "kafka.sasl.jaas.config"
    cases = {
        "authentication by SCRAM-SHA-512 failed": {login: options[login].replace("bob", "eve")},
        "CERTIFICATE_VERIFY_FAILED": {"kafka.ssl.truststore.location": str(other_authority(secured))},
        "ssl.truststore.location: /nowhere/ca.pem cannot be read": {"kafka.ssl.truststore.location": "/nowhere/ca.pem"},
    }
    for text, wrong in cases.items():
        with pytest.raises(Exception, match=text) as failure:
            read(spark, {**options, **wrong}).collect()
        assert not [secret for secret in secured.passwords() if secret in str(failure.value)]


def other_authority(secured: Secured) -> Path:
    return Authority("Another CA").pem_file(secured.files / "other-ca.pem")


def test_tokens_of_an_identity_provider(spark: Any, secured: Secured, tmp_path: Path) -> None:
    """A stream copies the topic with tokens of bob and alice; Spark's connector reads with the same options."""
    connector.require()
    allowed = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
    spark._jvm.java.lang.System.setProperty(allowed, secured.provider.url)
    bob = secured.by_token("bob")
    stream = spark.readStream.format("odradek").options(**bob, startingOffsets="earliest", subscribe=TOPIC).load()
    sink = stream.select("key", "value").writeStream.format("odradek").options(**secured.by_token("alice"))
    sink = sink.options(topic="by-token", checkpointLocation=str(tmp_path / "checkpoint"))
    query = sink.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert query.exception() is None
    told = str(query.lastProgress) + query._jsq.explainInternal(True)
    theirs, ours = (
        in_order(spark.read.format(name).options(**bob, subscribe="by-token").load().collect())
        for name in ("kafka", "odradek")
    )
    assert sorted(bytes(row.value) for row in ours) == sorted(b"value %d" % n for n in range(200))
    assert ours == theirs
    assert {name for name, _ in secured.provider.asked} == set(CLIENT_SECRETS)
    wrong = secured.by_token("bob", "a-guess")
    with pytest.raises(Exception, match=r"answers 401 \(invalid_client\)") as failure:
        read(spark, wrong).collect()
    told += str(failure.value)
    with pytest.raises(Exception, match="_AUTHORIZATION_FAILED"):
        read(spark, bob).select("value").write.format("odradek").mode("append").options(**bob, topic=TOPIC).save()
    for secret in [*secured.passwords(), "a-guess"]:
        assert secret not in told


def test_a_delegation_token(spark: Any, secured: Secured) -> None:
    """Bob's token, by the options that the connector takes for one."""
    properties = parse_properties((secured.files / "bob.properties").read_text())
    host, _, port = secured.bootstrap.partition(":")
    assert host == HOST
    with Connection(host, int(port), "bob", CLOCK, wrap=client_security(properties, CLOCK)) as connection:
        token = connection.call(CreateDelegationTokenRequest(max_lifetime_ms=600_000), 3)
    assert token.error_code == 0
    module = properties["sasl.jaas.config"].partition(" ")[0]
    hmac = base64.b64encode(token.hmac).decode()
    login = f'{module} required username="{token.token_id}" password="{hmac}" tokenauth="true";'
    options = {**secured.options("bob"), "kafka.sasl.jaas.config": login}
    assert read(spark, options).count() == 200


def test_a_job_finds_the_cluster_and_logs_in(spark: Any, secured: Secured, tmp_path: Path) -> None:
    arguments = ["topic-report", "--topics", TOPIC, "--json", "--html", str(tmp_path / "report.html")]
    environment = {"XDG_STATE_HOME": str(secured.state), "ODRADEK_PROFILES": str(tmp_path / "none.toml")}
    done = CliRunner(env=environment).invoke(odradek_spark, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    numbers = json.loads(done.stdout)
    assert [row["records"] for row in numbers["topics"]] == [200]
    assert all(row["on_disk"] for row in numbers["partitions"]), "sizes are asked for by the same login"
