"""Transactions and idempotence with confluent-kafka, on Odradek and on Apache Kafka."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from network.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from network.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.support.cluster import Cluster
from tests.support.transactions import wait_none_open

TRANSACTION_COORDINATOR = 1


def fresh(what: str) -> str:
    return f"{what}-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = fresh("txn")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_topics([NewTopic(name, 2, 1)]).values():
        future.result(30)
    return name


def producer(cluster: Cluster, transactional_id: str, **options: Any) -> Producer:
    made = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id, "log_level": 2, **options}
    )
    made.init_transactions(60)
    return made


def send(made: Producer, topic: str, *values: str) -> None:
    for number, value in enumerate(values):
        made.produce(topic, value, partition=number % 2)


def commit(cluster: Cluster, made: Producer, topic: str) -> None:
    """Commit, and wait for the markers: the coordinator answers before it has written them."""
    made.commit_transaction(30)
    wait_none_open(cluster, topic, (0, 1))


def read(cluster: Cluster, topic: str, isolation: str = "read_committed") -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": fresh("reader"),
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    found: list[str] = []
    ended: set[int | None] = set()
    committed = isolation == "read_committed"
    try:
        highs = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), 30)[1] for p in (0, 1)}
        consumer.assign([TopicPartition(topic, p, 0) for p in (0, 1)])
        while len(ended) < 2:
            message = consumer.poll(30)
            assert message is not None
            if message.error():
                # The end may be reported before the last records came.
                if committed or message.offset() >= highs[message.partition()]:  # type: ignore[operator, index]
                    ended.add(message.partition())
            else:
                found.append(message.value().decode())  # type: ignore[union-attr]
    finally:
        consumer.close()
    return sorted(found)


def test_committed_records_are_seen_and_aborted_ones_are_not(cluster: Cluster, topic: str) -> None:
    made = producer(cluster, fresh("id"))
    for number in range(4):
        made.begin_transaction()
        send(made, topic, f"a{number}", f"b{number}", f"c{number}")
        if number % 2:
            made.abort_transaction(30)
        else:
            made.commit_transaction(30)
    assert read(cluster, topic) == ["a0", "a2", "b0", "b2", "c0", "c2"]
    assert len(read(cluster, topic, "read_uncommitted")) >= 6


def test_an_open_transaction_holds_readers_back_until_it_ends(cluster: Cluster, topic: str) -> None:
    made = producer(cluster, fresh("id"))
    made.begin_transaction()
    send(made, topic, "held", "held too")
    assert made.flush(30) == 0
    assert read(cluster, topic) == []
    assert read(cluster, topic, "read_uncommitted") == ["held", "held too"]
    commit(cluster, made, topic)
    assert read(cluster, topic) == ["held", "held too"]


def test_a_zombie_is_fenced(cluster: Cluster, topic: str) -> None:
    name = fresh("id")
    zombie = producer(cluster, name)
    zombie.begin_transaction()
    send(zombie, topic, "zombie")
    zombie.flush(30)
    heir = producer(cluster, name)
    heir.begin_transaction()
    send(heir, topic, "heir")
    commit(cluster, heir, topic)
    with pytest.raises(KafkaException) as raised:
        zombie.commit_transaction(30)
    assert raised.value.args[0].fatal()
    assert read(cluster, topic) == ["heir"]


def test_a_transaction_left_open_is_aborted_after_its_timeout(cluster: Cluster, topic: str) -> None:
    name = fresh("id")
    made = producer(cluster, name, **{"transaction.timeout.ms": 5000})
    made.begin_transaction()
    send(made, topic, "late")
    made.flush(30)
    request = DescribeTransactionsRequest(transactional_ids=[name])
    deadline = time.monotonic() + 60
    with cluster.client() as client:
        while time.monotonic() < deadline:
            (state,) = client.call_coordinator(name, TRANSACTION_COORDINATOR, request).transaction_states
            if state.transaction_state == "CompleteAbort":
                break
            time.sleep(0.5)
        assert state.transaction_state == "CompleteAbort"
        producers = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
        (partition,) = client.call_leader(topic, 0, producers).topics[0].partitions
    assert [p.current_txn_start_offset for p in partition.active_producers] == [-1]
    assert read(cluster, topic) == []


def test_offsets_are_committed_with_the_transaction(cluster: Cluster, topic: str) -> None:
    group = fresh("group")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 2})
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.2)
    made = producer(cluster, fresh("id"))
    try:
        for commits, offset in ((False, 5), (True, 3)):
            made.begin_transaction()
            made.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), 30)
            if commits:
                made.commit_transaction(30)
            else:
                made.abort_transaction(30)
        (committed,) = consumer.committed([TopicPartition(topic, 0)], 30)
        assert committed.offset == 3
    finally:
        consumer.close()
