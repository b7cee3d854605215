"""The partitions that this broker has, by name.

A slot is missing, online (a `Partition`) or offline (its log directory has failed). `state_change_lock` serialises
everything that changes slots: LeaderAndIsr, StopReplica, UpdateMetadata, directory failures. Reading needs no lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from broker.replication.partition import Partition
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode


class OfflineSlot:
    """Marks a partition whose log directory failed."""

    __slots__ = ()


OFFLINE: Final = OfflineSlot()


class Partitions:
    """The slots. `is_known(topic, partition)` says whether the metadata has a partition, here or elsewhere."""

    def __init__(self, is_known: Callable[[str, int], bool]) -> None:
        self.state_change_lock = threading.RLock()
        self.slots: dict[TopicPartition, Partition | OfflineSlot] = {}
        self._is_known = is_known
        self._of_topic: dict[str, int] = {}

    def put(self, tp: TopicPartition, slot: Partition | OfflineSlot) -> None:
        """Make or replace a slot. Call under the state change lock."""
        if tp not in self.slots:
            self._of_topic[tp.topic] = self._of_topic.get(tp.topic, 0) + 1
        self.slots[tp] = slot

    def remove(self, tp: TopicPartition) -> Partition | OfflineSlot | None:
        """Take a slot out, which is returned if there was one. Call under the state change lock."""
        slot = self.slots.pop(tp, None)
        if slot is not None:
            left = self._of_topic[tp.topic] - 1
            if left:
                self._of_topic[tp.topic] = left
            else:
                del self._of_topic[tp.topic]
        return slot

    def online(self) -> list[Partition]:
        return [slot for slot in list(self.slots.values()) if isinstance(slot, Partition)]

    def leaders(self) -> list[Partition]:
        """The online partitions that this broker leads."""
        return [each for each in self.online() if each.leader_id == each.environment.broker_id]

    def has_topic(self, topic: str) -> bool:
        """Whether there is a slot of any of its partitions. Asked for each request of a topic that is not here."""
        return topic in self._of_topic

    def get(self, tp: TopicPartition) -> Partition | None:
        """The online partition, else `None`."""
        slot = self.slots.get(tp)
        return slot if isinstance(slot, Partition) else None

    def get_or_raise(self, tp: TopicPartition) -> Partition:
        """Raises KAFKA_STORAGE_ERROR (offline), NOT_LEADER_OR_FOLLOWER (elsewhere), UNKNOWN_TOPIC_OR_PARTITION."""
        slot = self.slots.get(tp)
        if type(slot) is Partition:
            return slot
        if slot is OFFLINE:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {tp} is in an offline log directory")
        if self._is_known(tp.topic, tp.partition):
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Error while fetching partition state for {tp}: it is not hosted here",
            )
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Partition {tp} doesn't exist")

    def get_log(self, tp: TopicPartition) -> PartitionLog | None:
        """The local log of an online partition, whatever this broker's role."""
        partition = self.get(tp)
        return None if partition is None else partition.log

    def log_of(self, topic: str, number: int) -> PartitionLog | None:
        """`get_log` for the hot path: a plain tuple finds the same slot and costs less to make."""
        slot = self.slots.get((topic, number))  # type: ignore[call-overload]
        return slot.log if type(slot) is Partition else None

    def is_offline(self, tp: TopicPartition) -> bool:
        """Whether its log directory has failed."""
        return self.slots.get(tp) is OFFLINE

    def is_moving(self, tp: TopicPartition) -> bool:
        """Whether it is being moved to another log directory."""
        partition = self.get(tp)
        return partition is not None and partition.future_log is not None
