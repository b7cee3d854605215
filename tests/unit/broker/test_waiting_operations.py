"""What waits in a purgatory is answered at once when a partition goes, or when its high watermark is set free."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.action_queue import ActionQueue
from broker.config.kafka_config import KafkaConfig
from broker.metadata_cache import MetadataCache
from broker.replication.delayed import DelayedOperations
from broker.replication.replica_manager import ReplicaManager
from broker.replication.results import PartitionAppendResult
from broker.replication.role_changes import RoleChanges
from log.config import LogConfig
from log.manager import LogManager
from log.topic_partition import TopicPartition
from log.validation import AppendOrigin
from network.protocol.errors import ErrorCode
from network.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from network.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from tests.unit.log.harness import batch
from timer.clock import ManualClock
from timer.metrics import NULL_METRICS
from timer.scheduler import ManualScheduler
from timer.timer import SystemTimer

TP = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))


class Waiting:
    """Broker 1 leads a partition with an append that waits for broker 2."""

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory / "data")
        self.clock = ManualClock()
        scheduler = ManualScheduler(self.clock)
        log_manager = LogManager(
            [self.directory],
            default_config=LogConfig(),
            topic_configs=lambda topic: {},
            broker_id=1,
            cluster_id="cluster",
            clock=self.clock,
            scheduler=scheduler,
            on_dir_failure=lambda failed: None,
        )
        log_manager.startup()
        self.cache = MetadataCache(1)
        self.delayed = DelayedOperations(
            {name: SystemTimer(name, self.clock) for name in ("Produce", "Fetch", "DeleteRecords", "ElectLeader")},
            {},
            NULL_METRICS,
        )
        self.manager = ReplicaManager(
            KafkaConfig({"broker.id": "1", "zookeeper.connect": "none", "log.dirs": self.directory}),
            clock=self.clock,
            scheduler=scheduler,
            log_manager=log_manager,
            metadata_cache=self.cache,
            delayed=self.delayed,
            alter_partition=SimpleNamespace(submit=lambda *_: None),
            metrics=NULL_METRICS,
            action_queue=ActionQueue(),
        )
        self.alive(1, 2)
        self.answers: list[dict[TopicPartition, PartitionAppendResult]] = []

    def alive(self, *brokers: int) -> None:
        known = [
            UpdateMetadataBroker(id=number, endpoints=[UpdateMetadataEndpoint(port=1, host="h", listener="PLAINTEXT")])
            for number in brokers
        ]
        self.cache.update(UpdateMetadataRequest(controller_id=1, live_brokers=known), 8)

    def lead(self, isr: list[int]) -> None:
        state = LeaderAndIsrPartitionState(
            partition_index=0, leader=1, leader_epoch=1, isr=isr, partition_epoch=1, replicas=[1, 2], is_new=True
        )
        topic = LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[state])
        request = LeaderAndIsrRequest(controller_id=1, controller_epoch=1, topic_states=[topic])
        RoleChanges(self.manager).become_leader_or_follower(request, 7, lambda leaders, followers: None)

    def append(self) -> None:
        entries: dict[TopicPartition, Any] = {TP: batch(b"x")}
        self.manager.append_records(30_000, -1, entries, AppendOrigin.CLIENT, self.answers.append)
        assert not self.answers

    def answer(self) -> ErrorCode:
        (results,) = self.answers
        return results[TP].error


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Waiting]:
    made = Waiting(tmp_path)
    yield made
    made.delayed.shutdown()


def test_the_directory_fails(waiting: Waiting) -> None:
    waiting.lead([1, 2])
    waiting.append()
    waiting.manager.handle_log_dir_failure(waiting.directory)
    assert waiting.answer() is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_replica_outside_the_isr_holds_an_append_back_only_while_it_can_join(waiting: Waiting) -> None:
    waiting.lead([1])
    partition = waiting.manager.get_partition(TP)
    assert partition is not None
    replica = partition.follower(2, 1)
    assert partition.log is not None
    replica.last_caught_up_ms = waiting.clock.wall_ms()
    waiting.append()
    waiting.manager.maybe_shrink_isrs()
    assert not waiting.answers
    waiting.alive(1)
    waiting.manager.on_brokers_gone()
    assert waiting.answer() is ErrorCode.NONE
