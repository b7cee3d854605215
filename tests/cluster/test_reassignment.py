"""All replicas of a topic move to other brokers under load: to the end, cancelled, with controller and leader killed
half-way, and between kinds of broker. What was acknowledged is there once, and replicas are equal byte for byte.

About two minutes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from broker.cli.main import odradek
from broker.cli.reassignment_files import to_json
from broker.cli.reassignments import ongoing
from broker.dev.polling import wait_until
from log.topic_partition import TopicPartition
from tests.support.cluster import CLOCK, Cluster
from tests.support.configs import TOPIC as TOPIC_CONFIGS
from tests.support.configs import alter_config, set_broker_config
from tests.support.controllers import elect_controller
from tests.support.replication import (
    IdempotentLoad,
    Reader,
    check_replicas,
    create_topic,
    read_back,
    wait_in_sync,
)
from tests.support.zookeeper import zookeeper_client

TOPIC = "moving"
PARTITIONS = 3
# So much is there before, in every partition, that a limited follower does not get it with its first fetch.
BULK, BULK_SIZE = 60, 50_000
SETTINGS = {
    "zookeeper.session.timeout.ms": "4000",
    "replica.lag.time.max.ms": "4000",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "1",
}


class Move:
    """A topic that is written and read while it goes from the half of the brokers with the controller to the other."""

    def __init__(self, cluster: Cluster, file: Path) -> None:
        self.cluster = cluster
        self.file = file
        self.controller = controller_of(cluster)
        brokers = list(range(len(cluster.brokers)))
        halves = brokers[: len(brokers) // 2], brokers[len(brokers) // 2 :]
        self.source, self.target = halves if self.controller in halves[0] else halves[::-1]
        create_topic(cluster, TOPIC, [turned(self.source, number) for number in range(PARTITIONS)])
        self._fill()
        self.load = IdempotentLoad(cluster.bootstrap, TOPIC, PARTITIONS)
        self._reader = Reader(cluster.bootstrap, TOPIC, PARTITIONS)
        self.load.wait_progress()
        self.plan(self.target)

    def plan(self, brokers: list[int]) -> None:
        """What the next command is about: the topic goes to these brokers."""
        wanted = {TopicPartition(TOPIC, number): turned(brokers, number) for number in range(PARTITIONS)}
        self.file.write_text(to_json(wanted))

    def _fill(self) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "enable.idempotence": True})
        for number in range(BULK * PARTITIONS):
            producer.produce(TOPIC, os.urandom(BULK_SIZE), partition=number % PARTITIONS)
            producer.poll(0)
        assert producer.flush(120) == 0

    def command(self, *words: str) -> str:
        """`odradek reassign WORDS`, with the file and the brokers that run."""
        brokers = ",".join(broker.address for broker in self.cluster.running)
        arguments = ["reassign", words[0], str(self.file), *words[1:], "--bootstrap-server", brokers]
        done = CliRunner().invoke(odradek, arguments, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    def start_slowly(self) -> None:
        """Nothing can end before the limit is raised: it is at work on every broker before anything moves."""
        everything = {f"{side}_replication_throttled_replicas": "*" for side in ("leader", "follower")}
        alter_config(self.cluster.running[0], TOPIC_CONFIGS, TOPIC, **everything)
        for broker in self.cluster.running:
            set_broker_config(broker, leader_replication_throttled_rate="1", follower_replication_throttled_rate="1")
        self.command("execute", "--throttle", "1")
        self.load.wait_progress()
        assert self.moving() == PARTITIONS

    def raise_limit(self) -> None:
        """And wait for the end."""
        assert "All reassignments are complete." in self.command(
            "execute", "--additional", "--throttle", "1000000000", "--wait"
        )

    def moving(self) -> int:
        """How many partitions move."""
        with self.cluster.client() as client:
            return len(ongoing(client))

    def finish(self, replicas: list[int]) -> None:
        """Stop writing and look at everything."""
        self.load.wait_progress()
        self.load.finish()
        wait_in_sync(self.cluster, TOPIC, replicas=replicas)
        read = read_back(self.cluster, TOPIC, PARTITIONS)
        self.load.check(read, start=BULK)
        self._reader.finish(read)
        self.cluster.stop()
        check_replicas(self.cluster, {TOPIC: [len(values) for values in read.values()]}, replicas)

    def has_left(self, broker: int) -> bool:
        """Whether a broker has nothing of the topic on its disk, or only what is about to be deleted."""
        return not list(self.cluster.brokers[broker].data.glob(f"{TOPIC}-?"))


def turned(brokers: list[int], number: int) -> list[int]:
    """Each broker leads a partition."""
    first = number % len(brokers)
    return brokers[first:] + brokers[:first]


def controller_of(cluster: Cluster) -> int:
    """The broker that is controller, as the brokers say."""
    with cluster.client() as client:
        return client.metadata([]).controller_id


@pytest.fixture
def move(make_cluster: Callable[..., Cluster], tmp_path: Path) -> Move:
    return Move(make_cluster(["odradek"] * 6, settings=SETTINGS), tmp_path / "plan.json")


def test_a_topic_moves_to_kafkas_brokers_and_back(make_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    """There under a controller of one kind, back under one of the other; replicas of both kinds in between."""
    move = Move(make_cluster(["odradek", "odradek", "kafka", "kafka"], settings=SETTINGS), tmp_path / "plan.json")
    kinds = [move.cluster.brokers[half[0]].kind for half in (move.source, move.target)]
    move.command("execute", "--wait")
    move.plan([move.source[0], move.target[0]])
    move.command("execute", "--wait")
    move.load.wait_progress()
    with zookeeper_client(move.cluster.zookeeper) as client:
        wanted = [broker.broker_id for broker in move.cluster.brokers if broker.kind == kinds[1]]
        elect_controller(move.cluster, client, wanted)
    move.plan(move.source)
    move.command("execute", "--wait")
    assert wait_until(lambda: all(map(move.has_left, move.target)), CLOCK, 90_000)
    move.finish(move.source)


def test_the_controller_and_a_leader_die_half_way(move: Move) -> None:
    move.start_slowly()
    victim = move.cluster.brokers[move.controller]
    victim.kill()
    move.load.wait_progress()
    assert move.moving() == PARTITIONS
    move.raise_limit()
    others = [broker for broker in move.source if broker != victim.broker_id]
    assert wait_until(lambda: all(map(move.has_left, others)), CLOCK, 90_000)
    victim.start()
    move.cluster.wait_ready()
    move.finish(move.target)


def test_a_move_is_cancelled_half_way(move: Move) -> None:
    move.start_slowly()
    assert "Cancelled" in move.command("cancel")
    assert move.moving() == 0
    assert wait_until(lambda: all(map(move.has_left, move.target)), CLOCK, 90_000)
    move.finish(move.source)
