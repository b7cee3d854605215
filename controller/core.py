"""What the rooms of the controller share: the context, the state machines, the batch and ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from controller.broker_channels import BrokerChannels
from controller.config import ControllerConfig
from controller.context import ControllerContext
from controller.event_manager import ControllerState, Event
from controller.partition_state_machine import PartitionStateMachine
from controller.replica_state_machine import ReplicaStateMachine
from controller.request_batch import RequestBatch
from controller.zk.client import ZkClient
from log.topic_partition import TopicPartition
from timer.chance import Chance


@dataclass(slots=True)
class ControllerCore:
    """Only the event thread uses these, except `enqueue`, which anyone may call."""

    config: ControllerConfig
    context: ControllerContext
    zk: ZkClient
    channels: BrokerChannels
    batch: RequestBatch
    partitions: PartitionStateMachine
    replicas: ReplicaStateMachine
    put: Callable[[Event], None]
    chance: Chance

    @property
    def fence(self) -> int:
        """The version of `/controller_epoch` that every write of this term checks."""
        return self.context.epoch_zk_version

    def enqueue(
        self,
        name: str,
        state: ControllerState,
        process: Callable[[], None],
        preempt: Callable[[], None] | None = None,
    ) -> None:
        self.put(Event(name, state, process, preempt))

    def send_update_metadata(
        self, partitions: Iterable[TopicPartition] = (), brokers: Iterable[int] | None = None
    ) -> None:
        """UpdateMetadata to `brokers` (default: all registered) with the broker list and these partitions."""
        with self.batch as batch:
            batch.add_update_metadata(self.context.registered_ids if brokers is None else brokers, partitions)
