"""Replicas that move between the two log directories of a broker (KIP-113). One minute."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from broker.dev.polling import wait_until
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from network.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from network.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from network.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.cluster import CLOCK, Cluster, running_cluster

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
WAIT_MS = 60_000


@pytest.fixture(scope="module", params=["odradek", "kafka"])
def cluster(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """One broker with two log directories."""
    kind = request.param
    directory = tmp_path_factory.mktemp(f"log-dirs-{kind}")
    settings = {
        "log.dirs": f"{directory / 'x'},{directory / 'y'}",
        "log.segment.delete.delay.ms": "1000",
        "zookeeper.session.timeout.ms": "6000",
    }
    with running_cluster([kind], directory, f"{zookeeper}/log-dirs-{kind}", settings=settings) as cluster:
        yield cluster


def dirs(cluster: Cluster) -> list[str]:
    return cluster.brokers[0].settings["log.dirs"].split(",")


def fresh(cluster: Cluster, partitions: int = 1, **configs: str) -> str:
    name = f"moved-{uuid.uuid4().hex[:12]}"
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )
    with cluster.client() as client:
        assert client.call_controller(CreateTopicsRequest(topics=[topic], timeout_ms=15_000)).topics[0].error_code == 0
    return name


def move(cluster: Cluster, topic: str, partition: int, directory: str) -> ErrorCode:
    request = AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDir(path=directory, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[partition])])]
    )
    with cluster.client() as client:
        (result,) = client.call_broker(0, request).results
    assert result.topic_name == topic
    (answer,) = result.partitions
    assert answer.partition_index == partition
    return ErrorCode.of(answer.error_code)


def where(cluster: Cluster, topic: str, partition: int = 0) -> dict[str, Any]:
    """The entries of a partition by directory."""
    asked = [DescribableLogDirTopic(topic=topic, partitions=[partition])]
    with cluster.client() as client:
        response = client.call_broker(0, DescribeLogDirsRequest(topics=asked))
    assert response.error_code == 0
    assert sorted(result.log_dir for result in response.results) == sorted(dirs(cluster))
    found = {}
    for result in response.results:
        assert result.error_code == 0
        assert 0 < result.usable_bytes < result.total_bytes
        for described in result.topics:
            assert described.name == topic
            found[result.log_dir] = described.partitions[0]
    return found


def current(cluster: Cluster, topic: str, partition: int = 0) -> str:
    (directory,) = [d for d, entry in where(cluster, topic, partition).items() if not entry.is_future_key]
    return directory


def wait_moved(cluster: Cluster, topic: str, directory: str, partition: int = 0) -> None:
    def moved() -> bool:
        found = where(cluster, topic, partition)
        return list(found) == [directory] and not found[directory].is_future_key

    assert wait_until(moved, CLOCK, WAIT_MS), where(cluster, topic, partition)


def other(cluster: Cluster, directory: str) -> str:
    (found,) = [d for d in dirs(cluster) if d != directory]
    return found


def produce(cluster: Cluster, topic: str, count: int, size: int = 100, start: int = 0) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.size": 10_000,
            "log_level": 0,
        }
    )
    failed: list[Any] = []
    for number in range(start, start + count):
        producer.produce(
            topic,
            key=b"%d" % number,
            value=b"%d " % number + b"x" * size,
            partition=0,
            on_delivery=lambda error, message: failed.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(WAIT_MS / 1000) == 0
    assert not failed


def consume(cluster: Cluster, topic: str, count: int) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    numbers: list[int] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])

        def all_read() -> bool:
            numbers.extend(int(m.value().split()[0]) for m in consumer.consume(1000, 0.5) if m.error() is None)  # type: ignore[union-attr]
            return len(numbers) >= count

        assert wait_until(all_read, CLOCK, WAIT_MS), len(numbers)
    finally:
        consumer.close()
    return numbers


def set_rate(cluster: Cluster, value: str | None) -> None:
    """Set or delete the limit, and wait until the broker goes by it."""
    config = AlterableConfig(name=RATE, config_operation=0 if value else 1, value=value)
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=4, resource_name="0", configs=[config])]
    )
    with cluster.client() as client:
        assert client.call_broker(0, request).responses[0].error_code == 0

        def applies() -> bool:
            asked = DescribeConfigsResource(resource_type=4, resource_name="0", configuration_keys=[RATE])
            (found,) = client.call_broker(0, DescribeConfigsRequest(resources=[asked])).results
            return [entry.value for entry in found.configs] == ([value] if value else [])

        assert wait_until(applies, CLOCK, WAIT_MS), f"{RATE} is not {value}"


def test_a_partition_moves_there_and_back_with_everything_in_it(cluster: Cluster) -> None:
    topic = fresh(cluster, segment_bytes="20000")
    produce(cluster, topic, 500)
    first = current(cluster, topic)
    second = other(cluster, first)
    before = where(cluster, topic)[first]
    assert before.offset_lag == 0
    assert move(cluster, topic, 0, second) is ErrorCode.NONE
    wait_moved(cluster, topic, second)
    assert where(cluster, topic)[second].partition_size == before.partition_size
    produce(cluster, topic, 100, start=500)
    assert move(cluster, topic, 0, first) is ErrorCode.NONE
    wait_moved(cluster, topic, first)
    produce(cluster, topic, 100, start=600)
    assert consume(cluster, topic, 700) == list(range(700))


def test_errors(cluster: Cluster) -> None:
    topic = fresh(cluster)
    here = current(cluster, topic)
    assert move(cluster, topic, 0, here) is ErrorCode.NONE
    assert list(where(cluster, topic)) == [here]
    assert move(cluster, topic, 0, f"{here}-nowhere") is ErrorCode.LOG_DIR_NOT_FOUND
    assert move(cluster, f"{topic}-unknown", 0, here) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(cluster, topic, 1, here) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(cluster, "x" * 240, 0, here) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_partition_is_made_where_it_was_wanted_before_it_was_there(cluster: Cluster) -> None:
    for wanted in dirs(cluster):
        topic = f"wanted-{uuid.uuid4().hex[:12]}"
        for partition in range(3):
            assert move(cluster, topic, partition, wanted) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=topic, num_partitions=3, replication_factor=1)], timeout_ms=15_000
        )
        with cluster.client() as client:
            assert client.call_controller(request).topics[0].error_code == 0
        assert [current(cluster, topic, partition) for partition in range(3)] == [wanted] * 3


def test_a_slow_move_is_seen_is_cancelled_and_survives_a_restart(cluster: Cluster) -> None:
    topic = fresh(cluster, segment_bytes="500000")
    produce(cluster, topic, 3000, size=1000)
    first = current(cluster, topic)
    second = other(cluster, first)
    set_rate(cluster, "1000")
    try:

        def moving() -> bool:
            entry = where(cluster, topic).get(second)
            return entry is not None and entry.is_future_key and entry.offset_lag > 0

        assert move(cluster, topic, 0, second) is ErrorCode.NONE
        assert wait_until(moving, CLOCK, WAIT_MS), where(cluster, topic)
        assert not where(cluster, topic)[first].is_future_key

        assert move(cluster, topic, 0, first) is ErrorCode.NONE  # back to where it is: cancelled
        assert list(where(cluster, topic)) == [first]

        assert move(cluster, topic, 0, second) is ErrorCode.NONE
        assert wait_until(moving, CLOCK, WAIT_MS), where(cluster, topic)
        broker = cluster.brokers[0]
        broker.kill()
        broker.start()
        cluster.wait_ready()
        assert wait_until(moving, CLOCK, WAIT_MS), where(cluster, topic)
        produce(cluster, topic, 100, start=3000)
    finally:
        set_rate(cluster, None)
    wait_moved(cluster, topic, second)
    assert consume(cluster, topic, 3100) == list(range(3100))


def test_a_topic_is_deleted_in_the_middle_of_its_move(cluster: Cluster) -> None:
    topic = fresh(cluster)
    produce(cluster, topic, 3000, size=1000)
    first = current(cluster, topic)
    set_rate(cluster, "1000")
    try:
        assert move(cluster, topic, 0, other(cluster, first)) is ErrorCode.NONE
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=15_000)
        with cluster.client() as client:
            assert client.call_controller(request).responses[0].error_code == 0
        assert wait_until(lambda: not where(cluster, topic), CLOCK, WAIT_MS)
    finally:
        set_rate(cluster, None)
