"""The compose cluster, really run (about 10 minutes).

All in one file: files run side by side, and there is one folder of wheels and one base image.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from broker.dev.polling import wait_until
from tests.docker.stack import SERVICES, Load, Stack, busy
from tests.support.cluster import CLOCK

pytestmark = pytest.mark.timeout(1800)


def test_life_of_the_cluster(stack: Stack, spark_wheelhouse: Callable[[], None]) -> None:
    """One cluster, everything that can happen to it; nothing acknowledged is lost in any of it."""
    stack.create_topic("life")
    load = Load(stack, "life")
    load.send(300)
    load.finish()

    # From inside, by the names of the containers.
    inside = stack.exec("broker-1", "odradek", "topics", "list", "--bootstrap-server", "broker-0:19092")
    assert "life" in inside.split()
    stack.exec("broker-2", "odradek", "produce", "inside", "-b", "broker-0:19092", stdin="a\nb\n")
    shown = stack.exec(
        "broker-0", "odradek", "consume", "inside", "-b", "broker-2:19092", "--from-beginning", "--max", "2"
    )
    assert sorted(shown.split()) == ["a", "b"]

    # The image: small, not root, nothing to be written but the volume and memory, and it says how it is.
    assert stack.image_bytes("broker-0") < 60_000_000
    assert stack.exec("broker-0", "id", "-u").strip() == "10001"
    write = "for place in / /opt /etc /tmp /var/lib/odradek/data; do echo > $place/tried && echo $place; done; true"
    assert stack.exec("broker-0", "sh", "-c", write).split() == ["/tmp", "/var/lib/odradek/data"]
    assert wait_until(lambda: stack.health("broker-0") == "healthy", CLOCK, 60_000)

    # A killed container comes back.
    stack.engine.run("docker", "kill", stack.container("broker-1"))
    load.send(300)
    load.finish_if_replicated()
    stack.engine.run("docker", "start", stack.container("broker-1"))
    stack.wait(3)
    load.finish()

    # A broker cut off its network is left behind and catches up.
    container = stack.container("broker-2")
    network = f"{stack.project}_cluster"
    stack.engine.run("docker", "network", "disconnect", network, container)
    load.send(300)
    load.finish_if_replicated()
    stack.engine.run("docker", "network", "connect", "--alias", "broker-2", network, container)
    stack.wait(3)
    load.finish()

    # Another version of the image, broker by broker, while one writes and one reads.
    stack.create_topic("upgraded")
    with busy(stack, "upgraded"):
        stack.variables["ODRADEK_VERSION"] = "next"
        stack.replace()
    for service in SERVICES:
        container = stack.inspect(service)["Config"]
        assert container["Image"] == "odradek-test:next"
        assert container["Labels"]["org.opencontainers.image.version"] == "next"

    # docker stop is a controlled shutdown.
    stack.engine.run("docker", "stop", "--time", "60", stack.container("broker-1"))
    state = stack.inspect("broker-1")["State"]
    assert state["ExitCode"] in (0, 143), state
    assert not state["OOMKilled"]
    assert "controlled shutdown succeeded" in stack.logs("broker-1")

    # All stopped and started again, the data kept.
    stack.compose("stop", "--timeout", "60")
    stack.compose("start")
    stack.wait(3)
    load.send(90)
    load.finish()
    assert stack.read_all("life") == load.acknowledged

    # A PySpark job in a container of its own reads the cluster by the names of the containers.
    spark_wheelhouse()
    printed = stack.spark("topic-report", "--topics", "life", "--json", "--master", "local[2]")
    report = json.loads(printed.splitlines()[-1])
    records = {row["partition"]: row["records"] for row in report["partitions"]}
    assert records == {partition: len(values) for partition, values in load.acknowledged.items()}

    stack.down()
    assert stack.left_behind() == ""


def produce(config: dict[str, Any], topic: str) -> KafkaError | None:
    errors: list[KafkaError | None] = []
    producer = Producer({**config, "message.timeout.ms": 30_000})
    producer.produce(topic, b"three apples", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(40) == 0
    return errors[0]


def test_a_secured_cluster(secured: Stack, tmp_path: Path) -> None:
    """Who is let in, from the host and from inside, and who may what."""
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
