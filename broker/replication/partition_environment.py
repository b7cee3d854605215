"""What a partition needs of its broker, as protocols: `ReplicaManager` provides it, tests provide parts of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from broker.replication.isr.state import LeaderAndIsr
from broker.replication.waiting.purgatories import DelayedOperations
from log.management.manager import LogManager
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from timer.clock import Clock
from timer.metrics import Meter

AlterPartitionCallback = Callable[[LeaderAndIsr | ErrorCode], None]


class AlterPartitionSender(Protocol):
    """Proposes ISR changes: through the controller, or (old protocol versions) straight to ZooKeeper."""

    def submit(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        proposal: LeaderAndIsr,
        controller_epoch: int,
        callback: AlterPartitionCallback,
    ) -> None: ...


class IsrMeters(Protocol):
    expands: Meter
    shrinks: Meter
    failed: Meter


class PartitionEnvironment(Protocol):
    """What a partition needs of its broker. `ReplicaManager` provides it."""

    broker_id: int
    clock: Clock
    lag_time_max_ms: int
    alter_partition: AlterPartitionSender
    delayed: DelayedOperations
    log_manager: LogManager
    isr_meters: IsrMeters

    def is_alive(self, broker_id: int) -> bool: ...

    def create_log(self, tp: TopicPartition, topic_id: bytes, *, is_new: bool, is_future: bool) -> PartitionLog: ...

    def log_topic_id(self, tp: TopicPartition) -> bytes | None: ...
