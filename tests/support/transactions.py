"""Transactional producers, and what the cluster tells of their transactions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from network.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from network.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.support.cluster import Cluster
from tests.support.coordinators import TRANSACTION, eventually
from tests.support.replication import QUIET
from tests.support.wire import fresh_name


def transactional_producer(bootstrap: str, transactional_id: str, timeout_ms: int = 600_000) -> Producer:
    """A confluent-kafka producer that has its producer id."""
    made = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "linger.ms": 1,
            **QUIET,
        }
    )
    made.init_transactions(60)
    return made


def states(cluster: Cluster, transactional_ids: Iterable[str]) -> dict[str, str]:
    """State of each id as its coordinator tells it."""
    found = {}
    with cluster.client() as client:
        for name in transactional_ids:
            request = DescribeTransactionsRequest(transactional_ids=[name])
            (state,) = client.call_coordinator(name, TRANSACTION, request, 60_000).transaction_states
            found[name] = state.transaction_state or f"error {state.error_code}"
    return found


def open_transactions(cluster: Cluster, topic: str, partitions: Iterable[int]) -> dict[int, list[int]]:
    """Start offsets of transactions that are open in a topic's partitions, where there are any."""
    found: dict[int, list[int]] = {}
    with cluster.client() as client:
        for number in partitions:
            request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[number])])
            (answer,) = client.call_leader(topic, number, request, 60_000).topics[0].partitions
            assert answer.error_code == 0
            starts = [p.current_txn_start_offset for p in answer.active_producers if p.current_txn_start_offset >= 0]
            if starts:
                found[number] = starts
    return found


def wait_none_open(cluster: Cluster, topic: str, partitions: Iterable[int]) -> None:
    """Until no transaction is open in the partitions."""
    wanted = list(partitions)
    eventually(
        lambda: not open_transactions(cluster, topic, wanted),
        lambda: f"{topic}: transactions are open from {open_transactions(cluster, topic, wanted)} on",
    )


def read_committed(bootstrap: str, topic: str, partitions: Iterable[int]) -> dict[int, list[Any]]:
    """All messages that a read_committed consumer gets, by partition, up to the end as it is now."""
    wanted = list(partitions)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": fresh_name("check"),
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            **QUIET,
        }
    )
    read: dict[int, list[Any]] = {number: [] for number in wanted}
    try:
        places = [TopicPartition(topic, number, 0) for number in wanted]
        ends = {place.partition: consumer.get_watermark_offsets(place, timeout=60)[1] for place in places}
        left = {number for number, end in ends.items() if end > 0}
        consumer.assign([place for place in places if place.partition in left])
        while left:
            message = consumer.poll(60)
            assert message is not None, f"{topic}: {left} do not come to an end: {ends}"
            error = message.error()
            if error is None:
                read[message.partition()].append(message)  # type: ignore[index]
            elif error.code() == KafkaError._PARTITION_EOF and message.offset() >= ends[message.partition()]:  # type: ignore[operator, index]
                # An end may also be reported on the way, while the last stable offset is behind.
                left.discard(message.partition())
    finally:
        consumer.close()
    return read


def values(messages: Iterable[Any]) -> list[str]:
    """The values as text."""
    return [message.value().decode() for message in messages]
