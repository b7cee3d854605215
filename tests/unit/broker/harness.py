"""The replica manager of broker 1, with a real log and nobody else there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.cluster.metadata_cache import MetadataCache
from broker.config.kafka_config import KafkaConfig
from broker.metrics import MetricsRegistry
from broker.replication.become_leader_or_follower import RoleChanges
from broker.replication.follower.fetch_state import InitialFetchState
from broker.replication.follower.fetcher import FailedPartitions
from broker.replication.follower.fetcher_manager import FetcherManager
from broker.replication.isr import changes
from broker.replication.metrics import ReplicaMetrics
from broker.replication.partition import Partition
from broker.replication.partitions import Partitions
from broker.replication.replica_manager import ReplicaManager
from broker.replication.replica_traffic import ReplicaTraffic
from broker.replication.results import PartitionAppendResult
from broker.replication.throttle import ReplicationThrottles
from broker.replication.waiting.purgatories import DelayedOperations
from broker.requests.action_queue import ActionQueue
from log.config import LogConfig
from log.management.manager import LogManager
from log.offset_metadata import LogOffsetMetadata
from log.records.validation import AppendOrigin
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from network.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from network.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from tests.unit.log.harness import batch
from timer.chance import SystemChance
from timer.clock import ManualClock
from timer.executor import InlineExecutor
from timer.metrics import NULL_METRICS, Metrics
from timer.scheduler import ManualScheduler
from timer.timer import SystemTimer

TP = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))


class IdleFetchers(FetcherManager):
    """Fetches nothing."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(1, lambda *_: pytest.fail("no fetcher is made here"), FailedPartitions(), metrics)

    def add(self, states: Mapping[TopicPartition, InitialFetchState]) -> None:
        pass


class LeadingBroker:
    """Broker 1 may lead partition 0 of topic `t`, which broker 2 has too; appends wait for broker 2."""

    def __init__(self, directory: Path, min_isr: int = 1) -> None:
        self.directory = str(directory / "data")
        self.clock = ManualClock()
        scheduler = self.scheduler = ManualScheduler(self.clock)
        log_manager = LogManager(
            [self.directory],
            default_config=LogConfig(min_insync_replicas=min_isr),
            topic_configs=lambda topic: {},
            broker_id=1,
            cluster_id="cluster",
            clock=self.clock,
            scheduler=scheduler,
            chance=SystemChance(),
            on_dir_failure=lambda failed: None,
        )
        log_manager.startup()
        self.cache = MetadataCache(1)
        self.metrics = MetricsRegistry()
        self.delayed = DelayedOperations(
            {
                name: SystemTimer(name, self.clock, InlineExecutor())
                for name in ("Produce", "Fetch", "DeleteRecords", "ElectLeader")
            },
            {},
            NULL_METRICS,
        )
        config = KafkaConfig({"broker.id": "1", "zookeeper.connect": "none", "log.dirs": self.directory})
        partitions = Partitions(self.cache.contains)
        replica_metrics = ReplicaMetrics(self.metrics, partitions.has_topic)
        self.traffic = ReplicaTraffic(
            partitions, ReplicationThrottles(config, self.clock, self.metrics), replica_metrics
        )
        self.manager = ReplicaManager(
            config,
            clock=self.clock,
            scheduler=scheduler,
            log_manager=log_manager,
            metadata_cache=self.cache,
            delayed=self.delayed,
            alter_partition=SimpleNamespace(submit=lambda *_: None),
            partitions=partitions,
            traffic=self.traffic,
            fetchers=IdleFetchers(self.metrics),
            selector=None,
            replica_metrics=replica_metrics,
            metrics=self.metrics,
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

    def lead(self, isr: list[int], epoch: int = 1) -> None:
        self.obey(1, isr, epoch)

    def obey(self, leader: int, isr: list[int], epoch: int, adding: Sequence[int] = ()) -> None:
        """The controller's LeaderAndIsr; the epoch is that of leader and partition."""
        state = LeaderAndIsrPartitionState(
            partition_index=0, leader=leader, leader_epoch=epoch, isr=isr, partition_epoch=epoch,
            replicas=[1, 2, *adding], adding_replicas=list(adding), is_new=True,
        )  # fmt: skip
        topic = LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[state])
        request = LeaderAndIsrRequest(controller_id=1, controller_epoch=1, topic_states=[topic])
        RoleChanges(self.manager).become_leader_or_follower(request, 7, lambda leaders, followers: None)

    def delete(self) -> None:
        """The controller's StopReplica."""
        partition = StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
        topic = StopReplicaTopicState(topic_name="t", partition_states=[partition])
        request = StopReplicaRequest(controller_id=1, controller_epoch=1, topic_states=[topic])
        RoleChanges(self.manager).stop_replicas(request, 3, lambda tp, epoch: None)

    def fetch(self, offset: int) -> None:
        """Broker 2 fetches from this offset."""
        partition = self.partition
        assert partition.log is not None
        changes.update_follower(
            partition, partition.remote_replicas[2], LogOffsetMetadata(offset), 0, self.clock.wall_ms(),
            partition.log.log_end_offset, -1,
        )  # fmt: skip

    @property
    def partition(self) -> Partition:
        found = self.manager.partitions.get(TP)
        assert found is not None
        return found

    def append(self) -> None:
        """One record with acks=all, which cannot be answered yet."""
        entries: dict[TopicPartition, Any] = {TP: batch(b"x")}
        self.manager.append_records(30_000, -1, entries, AppendOrigin.CLIENT, self.answers.append)
        assert not self.answers

    def answer(self) -> ErrorCode:
        (results,) = self.answers
        return results[TP].error
