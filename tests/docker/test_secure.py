"""The compose cluster with security: who is let in, from the host and from inside, and who may what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from tests.docker.engine import BASE_TAG, Engine
from tests.docker.stack import Stack

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture
def secured(docker: Engine, tmp_path: Path) -> Iterator[Stack]:
    """Up, with the files for clients in ``tmp_path / "security"``."""
    made = Stack(
        docker,
        base_image=BASE_TAG,
        zookeeper_image="odradek-test-zookeeper:1",
        files=("docker-compose.secure.yml",),
        security_directory=tmp_path / "security",
    )
    try:
        made.compose("up", "-d", "--build")
        docker.run("docker", "cp", f"{made.container('broker-0')}:/security/host", str(tmp_path / "security"))
        docker.environment["ODRADEK_COMMAND_CONFIG"] = str(tmp_path / "security" / "admin.properties")
        made.wait(3)
        yield made
    finally:
        docker.environment.pop("ODRADEK_COMMAND_CONFIG", None)
        made.down()


def produce(config: dict[str, Any], topic: str) -> KafkaError | None:
    errors: list[KafkaError | None] = []
    producer = Producer({**config, "message.timeout.ms": 30_000})
    producer.produce(topic, b"three apples", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(40) == 0
    return errors[0]


def test_a_secured_cluster(secured: Stack, tmp_path: Path) -> None:
    alice, bob = (json.loads((tmp_path / "security" / f"{user}.json").read_text()) for user in ("alice", "bob"))
    assert produce(alice, "orders") is None
    consumer = Consumer({**bob, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None
    assert message.value() == b"three apples"
    refused = produce(bob, "orders")
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    stranger = produce({**alice, "sasl.password": "a guess", "message.timeout.ms": 3_000}, "orders")
    assert stranger is not None
    inside = ("odradek", "topics", "list", "-b", "broker-0:19092", "--command-config")
    assert "orders" in secured.exec("broker-1", *inside, "/security/bob.properties").split()
    assert secured.exec("broker-1", "stat", "-c", "%a", "/security/passwords.properties").strip() == "600"
    secured.down()
    assert secured.left_behind() == ""
