"""kill -9 of a broker under real producers with acks=all: nothing acknowledged is lost."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.cluster import Cluster
from tests.support.sessions import await_session_end

ROUNDS = 3
SECONDS = 3.0


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
        killer = threading.Timer(0.5 + rng.random() * (SECONDS - 0.5), broker.kill)
        number = produce(cluster, acknowledged, number, killer)
        killer.join(30)
        await_session_end(broker)
        broker.start()
        cluster.wait_ready()
    found = dict(consume(cluster))
    assert len(acknowledged) > 50 * ROUNDS
    lost = {number: offset for number, offset in acknowledged.items() if found.get(offset) != b"%d" % number}
    assert not lost


def produce(cluster: Cluster, acknowledged: dict[int, int], number: int, killer: threading.Timer) -> int:
    """Produce until the broker is gone; notes the offset of each acknowledged number. Returns the next number."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "linger.ms": 0,
            "enable.idempotence": True,
            "message.timeout.ms": 3000,
            "log_level": 2,
        }
    )
    failed = threading.Event()

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.set()
        else:
            acknowledged[int(message.value())] = message.offset()

    killer.start()
    while not failed.is_set():
        producer.produce("t", b"%d" % number, partition=0, on_delivery=delivered)
        number += 1
        producer.poll(0.002)
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
        found: list[tuple[int, bytes]] = []
        while (message := consumer.poll(20)) is not None:
            if message.error() is not None:
                break
            found.append((message.offset(), message.value()))
        return found
    finally:
        consumer.close()
