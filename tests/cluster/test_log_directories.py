"""One of two log directories fails on one broker of three, then the other: its replicas are lost, and come back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from broker.dev.polling import wait_until
from network.protocol.errors import ErrorCode
from network.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.reference import kafka
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster
from tests.support.replication import (
    QUIET,
    IdempotentLoad,
    Reader,
    check_replicas,
    create_topic,
    partitions_of,
    read_back,
    seen_partitions,
    wait_in_sync,
)
from tests.support.zookeeper import zookeeper_client

# Each broker leads two of six partitions, so that a directory with three has replicas of both roles.
ASSIGNMENT = [[0, 1, 2], [1, 2, 0], [2, 0, 1]] * 2
TOPIC = "spread"
SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "4000",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "3",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}


@pytest.fixture(params=["odradek", "kafka"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path, chroot: str) -> Iterator[Cluster]:
    if request.param == "kafka":
        kafka.require()
    cluster = Cluster([request.param] * 3, tmp_path, chroot, SETTINGS)
    for broker in cluster.brokers:
        broker.settings["log.dirs"] = f"{broker.directory / 'first'},{broker.directory / 'second'}"
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def break_directory(directory: Path) -> None:
    """What is open stays writable, as on a disk that is about to go; everything else fails."""
    directory.rename(directory.with_suffix(".away"))
    directory.write_text("no directory")


def repair_directory(directory: Path) -> None:
    directory.unlink()
    directory.with_suffix(".away").rename(directory)


def children(cluster: Cluster, path: str) -> list[str]:
    with zookeeper_client(cluster.zookeeper) as client:
        return list(client.get_children(path))


def wait_empty(cluster: Cluster, path: str) -> None:
    assert wait_until(lambda: not children(cluster, path), CLOCK, 60_000, 500), f"{path} has children"


def log_dir_errors(broker: Broker) -> dict[str, ErrorCode]:
    """Error code of each log directory, as the broker describes them."""
    response = wire.call(broker, DescribeLogDirsRequest(topics=None), 4)
    return {result.log_dir: ErrorCode.of(result.error_code) for result in response.results}


def offline_replicas(broker: Broker) -> dict[int, list[int]]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
    (topic,) = wire.call(broker, request, 12).topics
    return {entry.partition_index: list(entry.offline_replicas) for entry in topic.partitions}


def test_directories_fail_under_load_and_come_back(cluster: Cluster) -> None:
    create_topic(cluster, TOPIC, ASSIGNMENT)
    create_topic(cluster, "doomed", [[1, 2, 0]] * 2)
    load = IdempotentLoad(cluster.bootstrap, TOPIC, len(ASSIGNMENT))
    reader = Reader(cluster.bootstrap, TOPIC, len(ASSIGNMENT))
    load.wait_progress()
    victim, others = cluster.brokers[0], cluster.brokers[1:]
    failing = next(
        directory
        for directory in victim.log_dirs
        if any(victim.replica(TOPIC, number).parent == directory for number in (0, 3))
    )
    lost = {number for number in range(len(ASSIGNMENT)) if victim.replica(TOPIC, number).parent == failing}
    led = {number for number in lost if ASSIGNMENT[number][0] == victim.broker_id}
    assert led
    assert lost - led
    assert lost != set(range(len(ASSIGNMENT)))
    assert {victim.replica("doomed", number).parent for number in (0, 1)} == set(victim.log_dirs)
    break_directory(failing)

    described: list[dict[str, ErrorCode]] = []

    def noticed() -> bool:
        described[:] = [log_dir_errors(victim)]
        return described[0][str(failing)] is not ErrorCode.NONE

    assert wait_until(noticed, CLOCK, 60_000, 200)
    (healthy,) = set(victim.log_dirs) - {failing}
    assert described[0] == {str(failing): ErrorCode.KAFKA_STORAGE_ERROR, str(healthy): ErrorCode.NONE}

    # Its replicas there leave leadership and ISR; those of the other directory stay, leaders too.
    last: list[object] = []

    def moved() -> bool:
        seen = {b.broker_id: seen_partitions(b, TOPIC) for b in cluster.running}
        last[:] = [seen]
        return all(
            len(partitions) == len(ASSIGNMENT)
            and all(
                leader in isr and isr == ({1, 2} if number in lost else {0, 1, 2})
                for number, (leader, _, isr) in partitions.items()
            )
            for partitions in seen.values()
        )

    assert wait_until(moved, CLOCK, 60_000, 200), last
    kept = {number for number, (leader, _, _) in partitions_of(victim, TOPIC).items() if leader == victim.broker_id}
    assert kept == {0, 3} - lost
    # An ISR may shrink by the lag alone, before the controller hears of the directory.
    offline = {number: [0] if number in lost else [] for number in range(len(ASSIGNMENT))}
    for broker in cluster.running:
        assert wait_until(lambda broker=broker: offline_replicas(broker) == offline, CLOCK, 60_000), (  # type: ignore[misc]
            broker.broker_id,
            offline_replicas(broker),
        )
    load.wait_progress()

    # A client that has not heard of it is told so, and nothing of the failed directory is made anew elsewhere.
    answer = wire.produce(victim, TOPIC, wire.batch([b"late"]), partition=min(led))
    assert ErrorCode.of(answer.error_code) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not [number for number in lost if (healthy / f"{TOPIC}-{number}").exists()]

    # The other directory takes new topics.
    admin = AdminClient({"bootstrap.servers": others[0].address, **QUIET})
    new = NewTopic("later", 2, replica_assignment=[[0, 1], [1, 0]])
    admin.create_topics([new], operation_timeout=30)["later"].result(60)
    wait_in_sync(cluster, "later")
    assert {victim.replica("later", number).parent for number in (0, 1)} == {healthy}
    # A topic cannot be deleted as long as one of its replicas cannot.
    admin.delete_topics(["doomed"], operation_timeout=30)["doomed"].result(60)
    wait_empty(cluster, "/log_dir_event_notification")
    assert children(cluster, "/admin/delete_topics") == ["doomed"]

    # The other one fails too: a broker without any halts, and the others go on.
    break_directory(healthy)
    assert victim.process is not None
    assert wait_until(lambda: victim not in cluster.running, CLOCK, 60_000)
    assert victim.process.poll() == 1
    victim.wait_forgotten()
    load.wait_progress()

    # It starts with the directory that is there; what was in the other one is not made anew.
    repair_directory(healthy)
    victim.start()
    cluster.wait_ready()
    assert wait_until(moved, CLOCK, 90_000, 200), last
    assert log_dir_errors(victim) == {str(failing): ErrorCode.KAFKA_STORAGE_ERROR, str(healthy): ErrorCode.NONE}
    assert not [number for number in lost if (healthy / f"{TOPIC}-{number}").exists()]

    # Healthy again after a restart: the replicas catch up with what they missed.
    victim.stop()
    repair_directory(failing)
    victim.start()
    cluster.wait_ready()
    wait_in_sync(cluster, TOPIC, 90_000)
    wait_empty(cluster, "/admin/delete_topics")
    assert set(log_dir_errors(victim).values()) == {ErrorCode.NONE}
    load.wait_progress()
    load.finish()
    read = read_back(cluster, TOPIC, len(ASSIGNMENT))
    load.check(read)
    reader.finish(read)
    cluster.stop()
    check_replicas(cluster, {TOPIC: [len(read[number]) for number in range(len(ASSIGNMENT))]})
