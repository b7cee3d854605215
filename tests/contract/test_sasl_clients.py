"""Client libraries and tools that log in: each mechanism, on both kinds of broker."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from broker.cli.main import odradek
from broker.dev.polling import wait_until
from spark_jobs.cluster import ClusterMetadata
from spark_jobs.options import ReadOptions
from spark_jobs.sink import write_batches
from spark_jobs.write_options import WriteOptions
from tests.reference import kafka
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster
from tests.support.sasl import MODULES, jaas, logged_in, running_sasl_cluster, sasl_address

PASSWORDS = {"PLAIN": "alice-secret", "SCRAM-SHA-256": "of the 256", "SCRAM-SHA-512": "of the 512"}
CONFIGS = "kafka.admin.ConfigCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
MECHANISMS = pytest.mark.parametrize("mechanism", PASSWORDS)


@pytest.fixture(scope="module", params=["odradek", "kafka"])
def cluster(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    name = f"sasl-clients-{request.param}"
    with running_sasl_cluster([request.param], tmp_path_factory.mktemp(name), f"{zookeeper}/{name}") as cluster:
        both = ",".join(
            f"{mechanism}=[iterations=4096,password={PASSWORDS[mechanism]}]"
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        )
        entity = ["--entity-type", "users", "--entity-name", "alice"]
        made = kafka.run_tool(
            CONFIGS, "--bootstrap-server", cluster.bootstrap, "--alter", *entity, "--add-config", both
        )
        assert made.stdout == "Completed updating config for user alice.\n", made.stdout + made.stderr
        described = kafka.run_tool(CONFIGS, "--bootstrap-server", cluster.bootstrap, "--describe", *entity)
        assert described.stdout == (
            "SCRAM credential configs for user-principal 'alice' are "
            "SCRAM-SHA-256=iterations=4096, SCRAM-SHA-512=iterations=4096\n"
        )
        broker = cluster.brokers[0]
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            assert wait_until(lambda name=mechanism: enters(broker, name), CLOCK, 5_000)  # type: ignore[misc]
        yield cluster


def enters(broker: Broker, mechanism: str) -> bool:
    try:
        logged_in(broker, mechanism, {"username": "alice", "password": PASSWORDS[mechanism]}).close()
        return True
    except OSError:
        return False


@pytest.fixture
def broker(cluster: Cluster) -> Broker:
    return cluster.brokers[0]


def confluent(broker: Broker, mechanism: str, secret: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": sasl_address(broker),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": secret,
        **more,
    }


@MECHANISMS
def test_confluent_kafka(cluster: Cluster, broker: Broker, mechanism: str) -> None:
    topic = wire.create_topic(cluster, partitions=1)
    settings = confluent(broker, mechanism, PASSWORDS[mechanism])
    producer = Producer(settings)
    producer.produce(topic, b"secured")
    assert producer.flush(30) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(30)
    assert message is not None
    assert message.value() == b"secured"
    consumer.close()
    refused: list[str] = []
    admin = AdminClient(confluent(broker, mechanism, "wrong", error_cb=lambda error: refused.append(error.name())))
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)
    admin.poll(0)
    assert "_AUTHENTICATION" in refused


def test_confluent_kafka_with_a_token(broker: Broker) -> None:
    def token(config: str) -> tuple[str, float]:
        until = CLOCK.wall_ms() / 1000 + 300
        claims = json.dumps({"sub": "carol", "iat": until - 301, "exp": until}).encode()
        parts = (base64.urlsafe_b64encode(each).decode().rstrip("=") for each in (b'{"alg":"none"}', claims))
        return ".".join(parts) + ".", until

    settings: Any = {
        "bootstrap.servers": sasl_address(broker),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": token,
    }
    admin = AdminClient(settings)
    admin.poll(0)
    assert admin.list_topics(timeout=30).brokers


@MECHANISMS
def test_kafka_python(broker: Broker, mechanism: str) -> None:
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(
        bootstrap_servers=sasl_address(broker),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username="alice",
        sasl_plain_password=PASSWORDS[mechanism],
    )
    assert admin.list_topics() is not None
    admin.close()


@MECHANISMS
def test_aiokafka(cluster: Cluster, broker: Broker, mechanism: str) -> None:
    from aiokafka import AIOKafkaProducer

    topic = wire.create_topic(cluster, partitions=1)

    async def send() -> int:
        producer = AIOKafkaProducer(
            bootstrap_servers=sasl_address(broker),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password=PASSWORDS[mechanism],
        )
        await producer.start()
        try:
            return int((await producer.send_and_wait(topic, b"x")).offset)
        finally:
            await producer.stop()

    assert asyncio.run(send()) == 0


def client_file(directory: Path, mechanism: str, **options: str) -> Path:
    file = directory / f"{mechanism}.properties"
    text = jaas(mechanism, **options).replace("\\", "\\\\")
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={text}\n")
    return file


def options_of(mechanism: str) -> dict[str, str]:
    if mechanism == "OAUTHBEARER":
        return {"unsecuredLoginStringClaim_sub": "alice"}
    return {"username": "alice", "password": PASSWORDS[mechanism]}


@pytest.mark.parametrize("mechanism", MODULES)
def test_the_java_client(broker: Broker, tmp_path: Path, mechanism: str) -> None:
    file = client_file(tmp_path, mechanism, **options_of(mechanism))
    done = kafka.run_tool(
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server",
        sasl_address(broker),
        "--command-config",
        str(file),
        "--list",
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_spark_source_and_sink(cluster: Cluster, broker: Broker) -> None:
    """What runs on drivers and executors, without Spark around it."""
    topic = wire.create_topic(cluster, partitions=1)
    options = {
        "kafka.bootstrap.servers": sasl_address(broker),
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": jaas("SCRAM-SHA-512", username="alice", password=PASSWORDS["SCRAM-SHA-512"]),
    }
    rows = pa.record_batch({"value": pa.array([b"one", b"two"])})
    assert write_batches(WriteOptions.parse({**options, "topic": topic}), iter([rows])).records == 2
    reading = ReadOptions.parse({**options, "subscribe": topic}, streaming=False)
    with ClusterMetadata(reading) as metadata:
        assert metadata.partitions(reading) == [(topic, 0)]


@pytest.fixture
def run() -> Callable[..., str]:
    def invoke(*arguments: str, stdin: str | None = None, code: int = 0) -> str:
        done = CliRunner().invoke(odradek, arguments, input=stdin)
        if code:
            return str(done.exception)
        assert done.exception is None, done.output
        return done.output

    return invoke


@pytest.mark.parametrize("mechanism", MODULES)
def test_our_own_commands(broker: Broker, tmp_path: Path, run: Callable[..., str], mechanism: str) -> None:
    file = client_file(tmp_path, mechanism, **options_of(mechanism))
    name = wire.fresh_name()
    where = ("-b", sasl_address(broker), "--command-config", str(file))
    assert run("topics", "create", name, *where) == f"Created topic {name}.\n"
    assert name in run("topics", "list", *where).splitlines()


def test_our_own_commands_that_may_not(broker: Broker, tmp_path: Path, run: Callable[..., str]) -> None:
    file = client_file(tmp_path, "PLAIN", username="alice", password="sesame")
    said = run("topics", "list", "-b", sasl_address(broker), "--command-config", str(file), code=1)
    assert "Authentication failed: Invalid username or password" in said
    file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=x required a=sesame\n")
    said = run("topics", "list", "-b", sasl_address(broker), "--command-config", str(file), code=1)
    assert "not terminated by semi-colon" in said
    assert "sesame" not in said


def test_users_of_the_command(broker: Broker, run: Callable[..., str]) -> None:
    where = ("-b", broker.address)
    user = "o'd,d ü"
    said = run("users", "set", user, "--iterations", "5000", "--password-file", "-", *where, stdin="p=a,ß\n")
    assert said == f"User {user} may log in by SCRAM-SHA-512.\n"
    assert re.search(rf"{user}\s+SCRAM-SHA-512\s+5000", run("users", "list", *where))
    said = run("users", "delete", user, *where)
    assert said == f"User {user} may not log in by SCRAM-SHA-512 any more.\n"
    assert "does not exist" in run("users", "list", user, *where, code=1)
    assert "does not exist" in run("users", "delete", user, *where, code=1)


def test_the_tool_for_tokens(broker: Broker, tmp_path: Path) -> None:
    file = client_file(tmp_path, "PLAIN", **options_of("PLAIN"))

    def tool(*arguments: str) -> str:
        done = kafka.run_tool(
            TOKENS, "--bootstrap-server", sasl_address(broker), "--command-config", str(file), *arguments
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    made = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    mac = re.search(r"^\S+\s+(\S{80,})\s+User:alice\s+User:alice\s+\[User:bob\]", made, re.MULTILINE)
    assert mac is not None, made
    assert "Total number of tokens : 1" in tool("--describe", "--owner-principal", "User:alice")
    assert "Completed renew operation" in tool("--renew", "--renew-time-period", "-1", "--hmac", mac[1])
    assert "Completed expire operation" in tool("--expire", "--expiry-time-period", "-1", "--hmac", mac[1])
    assert "Total number of tokens : 0" in tool("--describe", "--owner-principal", "User:alice")
