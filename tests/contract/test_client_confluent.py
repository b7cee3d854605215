"""confluent-kafka (librdkafka): 100,000 records with each codec, a third of them with each acks, byte for byte."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support import wire
from tests.support.cluster import Cluster
from tests.support.workload import ACKS, CODECS, Checker, item

confluent_kafka = pytest.importorskip("confluent_kafka")

PARTITIONS = 3
# The reference shows that the test is right; that takes fewer.
RECORDS = {"odradek": 100_000, "kafka": 9_000}
WAIT_S = 60.0


def produce(cluster: Cluster, topic: str, codec: str, acks: int, partition: int, count: int) -> None:
    errors: list[Any] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": acks,
            "compression.type": codec,
            "linger.ms": 20,
            **({"compression.level": 1} if codec == "gzip" else {}),
            "message.max.bytes": 1_000_000,
            # Idempotence needs acks=all; for the others one request in flight keeps the order.
            **({"enable.idempotence": True} if acks == -1 else {"max.in.flight": 1}),
        }
    )

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            errors.append(error)

    for number in range(count):
        key, value, headers = item(partition, number)
        while True:
            try:
                producer.produce(
                    topic,
                    value,
                    key,
                    partition=partition,
                    headers=headers,
                    on_delivery=delivered,
                )
                break
            except BufferError:
                producer.poll(0.1)
        if not number % 100:
            producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    assert not errors, errors[:3]


def check(cluster: Cluster, topic: str, counts: dict[int, int]) -> None:
    """Read every partition from its begin by assignment, without a group, and compare everything."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "enable.partition.eof": True,
        }
    )
    checker = Checker(counts)
    ended: set[int] = set()
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in counts])
        last = time.monotonic()
        while ended != counts.keys():
            messages = consumer.consume(1000, 0.2)
            if messages:
                last = time.monotonic()
            assert time.monotonic() - last < WAIT_S, f"nothing comes any more; {checker.left} records are missing"
            for message in messages:
                if message.error():
                    assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                    ended.add(message.partition())
                    continue
                checker.take(
                    message.partition(), message.offset(), message.key(), message.value(), message.headers() or []
                )
    finally:
        consumer.close()
    checker.done()


@pytest.fixture(scope="module")
def written(cluster: Cluster) -> dict[str, dict[int, int]]:
    """Topics written so far and their counts by partition, for the look after the restart."""
    return {}


@pytest.mark.parametrize("codec", CODECS)
def test_all_records_come_back(cluster: Cluster, written: dict[str, dict[int, int]], codec: str) -> None:
    topic = wire.create_topic(cluster, wire.fresh_name(codec), partitions=PARTITIONS)
    total = RECORDS[cluster.brokers[0].kind]
    counts = {}
    for partition, acks in enumerate(ACKS):
        counts[partition] = total // PARTITIONS + (partition < total % PARTITIONS)
        produce(cluster, topic, codec, acks, partition, counts[partition])
    for partition, count in counts.items():
        wire.wait_for_end(cluster.brokers[0], topic, count, partition=partition)
    check(cluster, topic, counts)
    written[topic] = counts


def test_all_records_are_there_after_a_restart(cluster: Cluster, written: dict[str, dict[int, int]]) -> None:
    (broker,) = cluster.brokers
    assert len(written) == len(CODECS)
    broker.stop()
    broker.start()
    cluster.wait_ready()
    for topic, counts in written.items():
        check(cluster, topic, counts)


def test_all_records_are_there_after_a_crash(cluster: Cluster, written: dict[str, dict[int, int]]) -> None:
    (broker,) = cluster.brokers
    broker.kill()
    broker.start()
    cluster.wait_ready()
    topic, counts = next(iter(written.items()))
    check(cluster, topic, counts)


def test_admin_client(cluster: Cluster) -> None:
    from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    name = wire.fresh_name("admin")
    for future in admin.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "5000"})]).values():
        future.result(30)
    topic = admin.list_topics(timeout=WAIT_S).topics[name]
    assert sorted(topic.partitions) == [0, 1]
    resource = ConfigResource(ResourceType.TOPIC, name)
    assert admin.describe_configs([resource])[resource].result(30)["retention.ms"].value == "5000"
    described = admin.describe_cluster().result(30)
    assert [node.id for node in described.nodes] == [0]
    for future in admin.delete_topics([name]).values():
        future.result(30)


def test_watermarks_and_offsets_for_times(cluster: Cluster) -> None:
    topic = wire.create_topic(cluster)
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    base = wire.now_ms() - 50_000
    for number in range(50):
        producer.produce(topic, str(number), timestamp=base + number * 1000)
    assert producer.flush(WAIT_S) == 0
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused"})
    try:
        partition = confluent_kafka.TopicPartition(topic, 0, base + 20_500)
        assert consumer.get_watermark_offsets(partition, timeout=WAIT_S) == (0, 50)
        (found,) = consumer.offsets_for_times([partition], timeout=WAIT_S)
        assert found.offset == 21
    finally:
        consumer.close()
