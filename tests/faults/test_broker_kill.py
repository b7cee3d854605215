"""kill -9 of a broker under real producers with acks=all: nothing acknowledged is lost."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.cluster import Broker, Cluster
from tests.support.until_end import until_end

ROUNDS = 3
SECONDS = 3.0
AT_LEAST = 50  # acknowledged in each round, before the kill is near


@pytest.mark.parametrize("flush_messages", ["1", "9223372036854775807"], ids=["flush each message", "default flushing"])
def test_nothing_acknowledged_is_lost(make_cluster: Callable[..., Cluster], flush_messages: str) -> None:
    """With default flushing the operating system keeps what was written, as long as the machine lives."""
    cluster = make_cluster(["odradek"], settings={"zookeeper.session.timeout.ms": "6000"})
    topic = NewTopic("t", 1, 1, config={"flush.messages": flush_messages, "segment.bytes": "200000"})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([topic])["t"].result(30)
    rng = random.Random(1)
    acknowledged: dict[int, int] = {}
    number = 0
    broker = cluster.brokers[0]
    for _ in range(ROUNDS):
        number = produce(cluster, acknowledged, number, broker, 0.5 + rng.random() * (SECONDS - 0.5))
        broker.start()
        cluster.wait_ready()
    cluster.wait_topic("t", 1)
    found = dict(consume(cluster))
    assert len(acknowledged) >= AT_LEAST * ROUNDS
    lost = {number: offset for number, offset in acknowledged.items() if found.get(offset) != b"%d" % number}
    assert not lost


def produce(cluster: Cluster, acknowledged: dict[int, int], number: int, broker: Broker, seconds: float) -> int:
    """Kill the broker so long after its first acknowledgements, and produce until it is gone.

    Notes the offset of each acknowledged number. Returns the next number.
    """
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "linger.ms": 0,
            "enable.idempotence": True,
            "log_level": 2,
        }
    )
    killed = threading.Event()

    def kill() -> None:
        broker.kill()
        killed.set()

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged[int(message.value())] = message.offset()  # type: ignore[arg-type, assignment]

    enough = len(acknowledged) + AT_LEAST
    limit = time.monotonic() + 60
    killer = threading.Timer(seconds, kill)
    while not killed.is_set():
        producer.produce("t", b"%d" % number, partition=0, on_delivery=delivered)
        number += 1
        producer.poll(0.002)
        if killer.ident is None:
            assert time.monotonic() < limit, f"{len(acknowledged)} are acknowledged"
            if len(acknowledged) >= enough:
                killer.start()
    killer.join(30)
    producer.purge()
    producer.flush(10)
    return number


def consume(cluster: Cluster) -> list[tuple[int, bytes]]:
    """(offset, value) of every record."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "g",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    try:
        consumer.assign([TopicPartition("t", 0, 0)])
        return [(message.offset(), message.value()) for message in until_end(consumer)]  # type: ignore[misc]
    finally:
        consumer.close()
