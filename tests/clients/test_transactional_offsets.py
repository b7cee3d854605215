"""Offsets committed in transactions: a consume-transform-produce loop reads each input once, its zombie is fenced."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from tests.clients.group_harness import group_name, produce, wait_for
from tests.clients.offsets import committed_offsets
from tests.support.cluster import Cluster


def consumer(cluster: Cluster, group: str, topic: str, **options: object) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 2,
            **options,
        }
    )
    made.subscribe([topic])
    return made


def producer(cluster: Cluster, transactional_id: str) -> Producer:
    made = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id, "log_level": 2})
    made.init_transactions(60)
    return made


def batch(source: Consumer, count: int) -> list[str]:
    end = time.monotonic() + 60
    values: list[str] = []
    while len(values) < count:
        assert time.monotonic() < end, values
        values += [m.value().decode() for m in source.consume(count - len(values), 0.5) if not m.error()]  # type: ignore[union-attr]
    return values


def test_offsets_and_records_become_visible_together(cluster: Cluster, create_topic: Callable[..., str]) -> None:
    source_topic, target_topic, group = create_topic(1), create_topic(1), group_name()
    values = produce(cluster, source_topic, 30, 1)
    source = consumer(cluster, group, source_topic)
    sink = producer(cluster, f"tx-{uuid.uuid4().hex[:8]}")
    try:
        for outcome in ("commit", "abort", "commit"):
            read = batch(source, 10)
            sink.begin_transaction()
            for value in read:
                sink.produce(target_topic, value)
            positions = source.position(source.assignment())
            sink.send_offsets_to_transaction(positions, source.consumer_group_metadata(), 30)
            before = committed_offsets(cluster, group)
            if outcome == "commit":
                sink.commit_transaction(30)
                end = positions[0].offset
                wait_for(lambda end=end: committed_offsets(cluster, group) == {(source_topic, 0): end}, "the commit")  # type: ignore[misc]
            else:
                sink.abort_transaction(30)
                assert committed_offsets(cluster, group) == before == {(source_topic, 0): 10}
                # Nothing of it counts: read the same again.
                for each in source.committed(source.assignment(), 30):
                    source.seek(each)
    finally:
        source.close()
    check = consumer(cluster, group_name(), target_topic)
    try:
        assert batch(check, 20) == values[:20]
        assert not [m for m in check.consume(1, 1.0) if not m.error()]
    finally:
        check.close()
    assert committed_offsets(cluster, group) == {(source_topic, 0): 20}


def test_a_member_of_an_older_generation_cannot_commit(cluster: Cluster, create_topic: Callable[..., str]) -> None:
    topic, group = create_topic(1), group_name()
    produce(cluster, topic, 5, 1)
    old = consumer(cluster, group, topic)
    sink = producer(cluster, f"tx-{uuid.uuid4().hex[:8]}")
    batch(old, 5)
    stale = old.consumer_group_metadata()
    positions = old.position(old.assignment())
    old.close()
    new = consumer(cluster, group, topic)
    try:
        batch(new, 5)
        sink.begin_transaction()
        sink.produce(topic, "of a zombie")
        with pytest.raises(KafkaException) as error:
            sink.send_offsets_to_transaction(positions, stale, 30)
        assert error.value.args[0].txn_requires_abort()
        sink.abort_transaction(30)
        assert committed_offsets(cluster, group) == {}
    finally:
        new.close()


def test_an_open_transaction_survives_a_restart_of_the_coordinator(
    cluster: Cluster, create_topic: Callable[..., str]
) -> None:
    topic, group = create_topic(1), group_name()
    produce(cluster, topic, 5, 1)
    source = consumer(cluster, group, topic)
    sink = producer(cluster, f"tx-{uuid.uuid4().hex[:8]}")
    batch(source, 5)
    sink.begin_transaction()
    sink.send_offsets_to_transaction(source.position(source.assignment()), source.consumer_group_metadata(), 30)
    source.close()
    cluster.brokers[0].stop()
    cluster.brokers[0].start()
    cluster.wait_ready()
    wait_for(lambda: committed_offsets(cluster, group) == {}, "the group is loaded")
    sink.commit_transaction(60)
    wait_for(lambda: committed_offsets(cluster, group) == {(topic, 0): 5}, "the commit")
