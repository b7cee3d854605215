"""kafka-python and aiokafka: 100,000 records over each codec and each acks, byte for byte, also after a restart."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import pytest

from tests.support import wire
from tests.support.cluster import Cluster
from tests.support.workload import ACKS, CODECS, Checker, item

kafka_python = pytest.importorskip("kafka")
aiokafka = pytest.importorskip("aiokafka")

# One partition for each codec with each acks.
COMBINATIONS = list(itertools.product(CODECS, ACKS))
# The reference shows that the test is right; that takes fewer.
RECORDS = {"odradek": 100_000, "kafka": 4_500}
WAIT_S = 60.0
MAX_REQUEST = 1_000_000


def counts_of(cluster: Cluster) -> dict[int, int]:
    total = RECORDS[cluster.brokers[0].kind]
    parts = len(COMBINATIONS)
    return {number: total // parts + (number < total % parts) for number in range(parts)}


# kafka-python


def produce_with_kafka_python(cluster: Cluster, topic: str, counts: dict[int, int]) -> None:
    for partition, (codec, acks) in enumerate(COMBINATIONS):
        producer = kafka_python.KafkaProducer(
            bootstrap_servers=cluster.bootstrap,
            acks="all" if acks == -1 else acks,
            enable_idempotence=acks == -1,
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
            max_request_size=MAX_REQUEST,
        )
        try:
            futures = []
            for number in range(counts[partition]):
                key, value, headers = item(partition, number)
                futures.append(producer.send(topic, value, key, headers, partition))
            producer.flush(WAIT_S)
            for number, future in enumerate(futures):
                sent = future.get(0)
                assert acks == 0 or sent.offset == number
        finally:
            producer.close(10)


def check_with_kafka_python(cluster: Cluster, topic: str, counts: dict[int, int]) -> None:
    consumer = kafka_python.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_partition_fetch_bytes=2_000_000,
    )
    checker = Checker(counts)
    try:
        partitions = [kafka_python.TopicPartition(topic, partition) for partition in counts]
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)
        last = time.monotonic()
        while checker.left:
            for records in consumer.poll(500, max_records=5000).values():
                last = time.monotonic()
                for record in records:
                    checker.take(record.partition, record.offset, record.key, record.value, record.headers)
            assert time.monotonic() - last < WAIT_S, f"{checker.left} records are missing"
        ends = consumer.end_offsets(partitions)
        assert {partition.partition: end for partition, end in ends.items()} == counts
    finally:
        consumer.close()
    checker.done()


# aiokafka


async def produce_with_aiokafka(cluster: Cluster, topic: str, counts: dict[int, int]) -> None:
    for partition, (codec, acks) in enumerate(COMBINATIONS):
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap,
            acks="all" if acks == -1 else acks,
            enable_idempotence=acks == -1,
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
            max_batch_size=MAX_REQUEST,
            max_request_size=MAX_REQUEST,
        )
        await producer.start()
        try:
            futures = []
            for number in range(counts[partition]):
                key, value, headers = item(partition, number)
                futures.append(await producer.send(topic, value, key, partition, headers=headers))
            await asyncio.wait_for(producer.flush(), WAIT_S)
            for number, future in enumerate(futures):
                sent = await future
                assert acks == 0 or sent.offset == number
        finally:
            await producer.stop()


async def check_with_aiokafka(cluster: Cluster, topic: str, counts: dict[int, int]) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_partition_fetch_bytes=2_000_000,
    )
    checker = Checker(counts)
    await consumer.start()
    try:
        partitions = [aiokafka.TopicPartition(topic, partition) for partition in counts]
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)
        last = time.monotonic()
        while checker.left:
            for records in (await consumer.getmany(timeout_ms=500, max_records=5000)).values():
                last = time.monotonic()
                for record in records:
                    checker.take(record.partition, record.offset, record.key, record.value, record.headers)
            assert time.monotonic() - last < WAIT_S, f"{checker.left} records are missing"
    finally:
        await consumer.stop()
    checker.done()


@pytest.fixture(scope="module")
def written(cluster: Cluster) -> dict[str, str]:
    """Which client wrote which topic, for the look after the restart."""
    return {}


def test_kafka_python(cluster: Cluster, written: dict[str, Any]) -> None:
    topic = wire.create_topic(cluster, partitions=len(COMBINATIONS))
    counts = counts_of(cluster)
    produce_with_kafka_python(cluster, topic, counts)
    check_with_kafka_python(cluster, topic, counts)
    written["kafka-python"] = topic


def test_aiokafka(cluster: Cluster, written: dict[str, str]) -> None:
    topic = wire.create_topic(cluster, partitions=len(COMBINATIONS))
    counts = counts_of(cluster)
    asyncio.run(produce_with_aiokafka(cluster, topic, counts))
    asyncio.run(check_with_aiokafka(cluster, topic, counts))
    written["aiokafka"] = topic


def test_each_reads_what_the_other_wrote_after_a_restart(cluster: Cluster, written: dict[str, str]) -> None:
    (broker,) = cluster.brokers
    assert broker.stop() in (0, 143)
    broker.start()
    cluster.wait_ready()
    check_with_kafka_python(cluster, written["aiokafka"], counts_of(cluster))
    asyncio.run(check_with_aiokafka(cluster, written["kafka-python"], counts_of(cluster)))
