"""One of a broker's two disks is full: the right error, nothing lost, and the other disk goes on. Half a minute.

The small disk is a tmpfs, mounted where the tests run as root; elsewhere the tests are skipped.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from broker.dev.polling import wait_until
from log.records.record import Record
from log.tools.verify import Severity, Verifier
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from network.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from network.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from network.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.batches import build_batch
from tests.support.cluster import CLOCK, Cluster
from tests.support.disks import fill, small_file_system

WAIT_MS = 60_000
SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "log.index.size.max.bytes": "100000",
    "log.segment.bytes": "2000000",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.dedupe.buffer.size": "4000000",
}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    with small_file_system(tmp_path / "small", "24m") as path:
        yield path


class Disks:
    """A broker with a small disk and another; the topic `full` is on the small one, `good` on the other."""

    def __init__(self, make_cluster: Callable[..., Cluster], small_disk: Path, other: Path) -> None:
        self.small, self.other = small_disk / "data", other / "data"
        settings = {**SETTINGS, "log.dirs": f"{self.small},{self.other}"}
        self.cluster = make_cluster(["odradek"], settings=settings)
        self.client = ClusterClient(self.cluster.bootstrap, "test", CLOCK)
        self.acknowledged: list[bytes] = []
        self.create("full", self.small)
        self.create("good", self.other)

    def create(self, name: str, directory: Path) -> None:
        topics = [AlterReplicaLogDirTopic(name=name, partitions=[0])]
        wanted = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(directory), topics=topics)])
        configs = [CreatableTopicConfig(name="min.insync.replicas", value="1")]
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)
        with self.cluster.client() as client:
            client.call_broker(0, wanted)
            answer = client.call_controller(CreateTopicsRequest(topics=[topic], timeout_ms=15_000))
            assert answer.topics[0].error_code == 0
            assert (directory / f"{name}-0").is_dir() or wait_until(
                lambda: (directory / f"{name}-0").is_dir(), CLOCK, WAIT_MS
            )

    def produce(self, topic: str, number: int, size: int = 20_000) -> ErrorCode:
        value = b"%d " % number + os.urandom(size)
        data = build_batch([Record(0, CLOCK.wall_ms(), b"%d" % number, value)])
        request = ProduceRequest(
            acks=1,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(data))])
            ],
        )
        answer: Any = self.client.call_broker(0, request)
        code = ErrorCode.of(answer.responses[0].partition_responses[0].error_code)
        if code is ErrorCode.NONE and topic == "full":
            self.acknowledged.append(value)
        return code

    def is_offline(self) -> bool:
        with self.cluster.client() as client:
            answer = client.call_broker(0, DescribeLogDirsRequest(topics=None))
        found = {result.log_dir: ErrorCode.of(result.error_code) for result in answer.results}
        assert found[str(self.other)] is ErrorCode.NONE
        return found[str(self.small)] is ErrorCode.KAFKA_STORAGE_ERROR

    def full_is_refused(self) -> None:
        """The directory counts as failed first, then its partitions, one after the other, by a thread of their own."""
        assert wait_until(lambda: self.produce("full", 0) is ErrorCode.KAFKA_STORAGE_ERROR, CLOCK, WAIT_MS)

    def good_goes_on(self) -> None:
        assert [self.produce("good", number, 100) for number in range(20)] == [ErrorCode.NONE] * 20

    def restart_with_space(self, ballast: Path | None) -> None:
        """Space is made, and the broker starts anew after a kill."""
        broker = self.cluster.brokers[0]
        broker.kill()
        if ballast is not None:
            ballast.unlink()
        else:
            subprocess.run(["mount", "-o", "remount,size=48m", str(self.small.parent)], check=True)
        broker.start()
        self.cluster.wait_ready()
        self.client.close()
        self.client = ClusterClient(self.cluster.bootstrap, "test", CLOCK)
        assert wait_until(lambda: self.produce("full", -1) is ErrorCode.NONE, CLOCK, WAIT_MS)

    def read(self) -> list[bytes]:
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": "disk-full", "log_level": 0})
        found: list[bytes] = []
        try:
            consumer.assign([TopicPartition("full", 0, 0)])

            def complete() -> bool:
                found.extend(m.value() for m in consumer.consume(500, 0.5) if m.error() is None)  # type: ignore[misc]
                return bool(found) and found[-1] == self.acknowledged[-1]

            assert wait_until(complete, CLOCK, WAIT_MS), f"{len(found)} of {len(self.acknowledged)}"
        finally:
            consumer.close()
        return found

    def verify(self) -> None:
        self.client.close()
        self.cluster.brokers[0].stop()
        findings = [f for f in Verifier().verify(self.small) if f.severity is not Severity.NOTE]
        assert not findings


def log_bytes(partition: Path) -> int:
    return sum(path.stat().st_size for path in list(partition.glob("*.log")) if path.exists())


def test_full_while_producing(make_cluster: Callable[..., Cluster], small_disk: Path, tmp_path: Path) -> None:
    disks = Disks(make_cluster, small_disk, tmp_path)
    answers = []
    for number in range(1000):
        answers.append(disks.produce("full", number, 60_000))
        if answers[-1] is not ErrorCode.NONE:
            break
    assert answers[-1] is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(disks.acknowledged) > 200
    assert wait_until(disks.is_offline, CLOCK, WAIT_MS)
    disks.full_is_refused()
    disks.good_goes_on()
    disks.restart_with_space(None)
    found = disks.read()
    # The append that failed may be there too: its bytes fitted, and what came after them did not.
    lost = [value[:8] for value in disks.acknowledged if value not in set(found)]
    assert not lost
    assert len(found) - len(disks.acknowledged) in (0, 1)
    disks.verify()


def test_full_while_compacting(make_cluster: Callable[..., Cluster], small_disk: Path, tmp_path: Path) -> None:
    disks = Disks(make_cluster, small_disk, tmp_path)
    for number in range(300):
        assert disks.produce("full", number % 200, 40_000) is ErrorCode.NONE
    partition = disks.small / "full-0"
    before = log_bytes(partition)
    ballast = fill(small_disk, 200_000)
    config = AlterableConfig(name="cleanup.policy", config_operation=0, value="compact")
    resource = AlterConfigsResource(resource_type=2, resource_name="full", configs=[config])
    with disks.cluster.client() as client:
        answer = client.call_controller(IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == 0
    assert wait_until(disks.is_offline, CLOCK, WAIT_MS)
    disks.full_is_refused()
    disks.good_goes_on()
    disks.restart_with_space(ballast)
    newest = {value.split()[0]: value for value in disks.acknowledged}
    assert wait_until(lambda: log_bytes(partition) < before - 1_000_000, CLOCK, WAIT_MS), (
        "the cleaner does not go on after the restart"
    )
    assert set(disks.read()) >= set(newest.values())
    disks.verify()
