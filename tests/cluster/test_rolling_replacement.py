"""Three Apache Kafka brokers become Odradek, one by one over the same directories, and one becomes Kafka again.

Everything is on: the brokers speak SASL_SSL and log in by SCRAM, an authorizer decides. All the time an idempotent and
a plain producer write with acks=all, a consumer reads and a group works, each as a user of its own; users, ACLs and
delegation tokens are made on one kind of broker and taken away on the other; and others try to get in. Two minutes.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from broker.dev.polling import wait_until
from network.sasl.scram_credential import MECHANISMS, credential_of, salted_password
from tests.reference import kafka
from tests.support.cluster import CLOCK, Broker, Kind
from tests.support.guarded import ADMIN, SECURE, Guarded, running_guarded
from tests.support.replication import (
    QUIET,
    IdempotentLoad,
    PlainLoad,
    Reader,
    check_replicas,
    create_topic,
    read_back,
    wait_in_sync,
)
from tests.support.rules_in_force import SALT, SCRAM, Intruders, Rules, permit, set_users
from tests.support.zookeeper import zookeeper_client

ASSIGNMENT = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
PARTITIONS = len(ASSIGNMENT)
SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "3",
    "inter.broker.listener.name": SECURE,
    "sasl.mechanism.inter.broker.protocol": SCRAM,
}
USERS = {"alice": "alice-secret", "bob": 'b"o,b', "carol": "carol's", "mallory": "mallory-secret"}
TOPIC_TYPE, GROUP_TYPE, READ, WRITE = 2, 3, 3, 4
# A controller that stops interrupts the threads that send its requests, and each that was sending says so.
ALWAYS = {
    "[RequestSendThread controllerId=#] Controller # fails to send a request to broker #.#.#.#:# (id: # rack: null) "
    "(kafka.controller.RequestSendThread)"
}
_ERROR = re.compile(r"^\[[^]]*\] ERROR (.*)$", re.MULTILINE)
_VARIABLE = re.compile(r"\d+|\b(?:once|plain|__consumer_offsets)\b")


class Lives:
    """Which part of a broker's log was written in which phase, and by which kind of process."""

    def __init__(self) -> None:
        self._parts: list[tuple[Broker, Kind, str, int]] = []

    def begin(self, broker: Broker, phase: str) -> None:
        """What this broker writes from now on, as the kind that it is now."""
        self._parts.append((broker, broker.kind, phase, broker.log_file.stat().st_size))

    def errors(self, kind: Kind, *phases: str) -> set[str]:
        """Error lines of a kind of broker, without their numbers and topics."""
        found: set[str] = set()
        for index, (broker, its_kind, phase, start) in enumerate(self._parts):
            end = next((later[3] for later in self._parts[index + 1 :] if later[0] is broker), None)
            if its_kind == kind and phase in phases:
                text = broker.log_file.read_bytes()[start:end].decode()
                found |= {_VARIABLE.sub("#", line) for line in _ERROR.findall(text)}
        return found


class Group:
    """A consumer group of one member: it skips nothing, and reads nothing again without a new assignment."""

    def __init__(self, bootstrap: str, topic: str, security: dict[str, Any]) -> None:
        self.read: dict[int, list[bytes]] = {}
        self._assignments = 0
        self._again = 0
        self._problems: list[str] = []
        self._stop = threading.Event()
        settings = {"bootstrap.servers": bootstrap, "group.id": "team", "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**settings, "auto.commit.interval.ms": 200, **QUIET, **security})
        self._consumer.subscribe([topic], on_assign=self._assigned)
        self._thread = threading.Thread(target=self._run, name="group", daemon=True)
        self._thread.start()

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        self._assignments += 1

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(500, 0.2):
                if message.error() is not None:
                    self._problems.append(str(message.error()))
                    continue
                got = self.read.setdefault(message.partition(), [])  # type: ignore[arg-type]
                offset = message.offset()
                assert offset is not None
                if offset == len(got):
                    got.append(message.value())  # type: ignore[arg-type]
                elif offset > len(got):
                    self._problems.append(f"offset {offset} after {len(got) - 1}")
                else:
                    self._again += 1
                    if got[offset] != message.value():
                        self._problems.append(f"offset {offset} has another record than before")

    def finish(self, final: dict[int, list[bytes]]) -> None:
        """It gets all that is there."""
        assert wait_until(lambda: self.read == final, CLOCK, 60_000), {n: len(got) for n, got in self.read.items()}
        self._stop.set()
        self._thread.join(30)
        self._consumer.close()
        assert not [text for text in self._problems if "offset" in text], self._problems[:3]
        assert not self._again or self._assignments > 1


@pytest.fixture
def guarded(zookeeper: str, tmp_path: Path) -> Iterator[Guarded]:
    """The brokers' own user is in ZooKeeper before the first one starts."""
    kafka.require()
    connect = f"{zookeeper}/replaced"
    mechanism = MECHANISMS[SCRAM]
    salted = salted_password(mechanism, ADMIN["password"], SALT, 4096)
    text = credential_of(mechanism, SALT, salted, 4096).to_text()
    with zookeeper_client(connect) as client:
        content = f'{{"version":1,"config":{{"{SCRAM}":"{text}"}}}}'
        client.create(f"/config/users/{ADMIN['username']}", content.encode(), makepath=True)
    with running_guarded(["kafka"] * 3, tmp_path, connect, **SETTINGS) as made:
        yield made


def librdkafka(guarded: Guarded, user: str) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": SCRAM,
        "sasl.username": user,
        "sasl.password": USERS[user],
        "ssl.ca.pem": guarded.authority.pem,
    }


def kafka_python(guarded: Guarded, user: str, directory: Path) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": SCRAM,
        "sasl_plain_username": user,
        "sasl_plain_password": USERS[user],
        "ssl_cafile": str(guarded.authority.pem_file(directory / "clients.pem")),
    }


@pytest.mark.timeout(600)
def test_a_secured_kafka_is_replaced_broker_by_broker_and_back(guarded: Guarded, tmp_path: Path) -> None:
    cluster = guarded.cluster
    lives = Lives()
    for topic in ("once", "plain"):
        create_topic(cluster, topic, ASSIGNMENT)
    set_users(cluster, made=USERS)
    permit(cluster.brokers[0], "alice", (TOPIC_TYPE, "once", WRITE))
    permit(cluster.brokers[0], "bob", (TOPIC_TYPE, "plain", WRITE))
    permit(cluster.brokers[0], "carol", (TOPIC_TYPE, "once", READ), (GROUP_TYPE, "team", READ))
    permit(cluster.brokers[0], "carol", (GROUP_TYPE, "reader-once", READ))
    rules = Rules(guarded, "once")
    rules.change(0)
    rules.check()
    bootstrap = ",".join(guarded.address(number=number) for number in range(3))
    loads = [
        IdempotentLoad(bootstrap, "once", PARTITIONS, security=librdkafka(guarded, "alice")),
        PlainLoad(bootstrap, "plain", PARTITIONS, security=kafka_python(guarded, "bob", tmp_path)),
    ]
    reader = Reader(bootstrap, "once", PARTITIONS, security=librdkafka(guarded, "carol"))
    group = Group(bootstrap, "once", librdkafka(guarded, "carol"))
    intruders = Intruders(guarded, "once", "mallory", USERS["mallory"])
    with cluster.client() as client:
        first_controller = client.metadata([]).controller_id
    phases: list[tuple[str, Kind, list[Broker]]] = [
        ("among Kafka", "kafka", [cluster.brokers[first_controller]]),
        ("to Odradek", "odradek", cluster.brokers),
        ("back", "kafka", cluster.brokers[:1]),
    ]
    for phase, kind, replaced in phases:
        for broker in cluster.brokers:
            lives.begin(broker, phase)
        for broker in replaced:
            for load in loads:
                load.wait_progress(timeout_ms=90_000)
            broker.stop()
            broker.kind = kind
            lives.begin(broker, phase)
            broker.start()
            cluster.wait_ready()
            for load in loads:
                wait_in_sync(cluster, load.topic, 90_000)
            rules.check()
            rules.change(broker.broker_id)
            rules.check()
    intruders.finish()
    ends = {}
    for load in loads:
        load.wait_progress(timeout_ms=90_000)
        load.finish()
        wait_in_sync(cluster, load.topic)
        read = read_back(cluster, load.topic, PARTITIONS)
        load.check(read)
        ends[load.topic] = [len(values) for values in read.values()]
        if load.topic == "once":
            reader.finish(read)
            group.finish(read)
    for broker in cluster.brokers:
        lives.begin(broker, "all stop at once")
    cluster.stop()
    check_replicas(cluster, ends)
    mixed = lives.errors("kafka", "to Odradek", "back")
    assert mixed <= ALWAYS | lives.errors("kafka", "among Kafka"), mixed
    assert not lives.errors("odradek", "to Odradek", "back")
