"""A broker reduced to what the controller's promises rest on: roles by epoch, replicated logs, ISR changes.

A log is a list of (leader epoch, value). A follower that fetches first drops what its leader does not have, as leader
epochs decide it; a leader counts a record as committed when every member of the maximal ISR (the committed one and
the one it asked for) has fetched beyond it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionDataRequest,
    TopicDataRequest,
)
from network.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from network.protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from network.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

Record = tuple[int, int]


@dataclass
class Replica:
    """One replica on one broker, with what its current role needs."""

    log: list[Record] = field(default_factory=list)
    topic_id: bytes = b""
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: list[int] = field(default_factory=list)
    replicas: list[int] = field(default_factory=list)
    # as a leader
    pending_isr: list[int] | None = None
    epoch_start: int = 0
    fetched: dict[int, int] = field(default_factory=dict)
    high_watermark: int = 0

    def maximal_isr(self) -> set[int]:
        return {*self.isr, *(self.pending_isr or ())}


class BrokerModel:
    """The broker half of a node. Disks (`replicas`) outlive a crash, roles do not."""

    def __init__(self, broker_id: int) -> None:
        self.id = broker_id
        self.epoch = -1
        self.alive = False
        self.controller_epoch = 0
        self.controller_id = -1
        self.live: set[int] = set()
        self.replicas: dict[TopicPartition, Replica] = {}
        self._next_value = broker_id * 1_000_000

    def start(self, epoch: int) -> None:
        self.alive, self.epoch = True, epoch
        self.controller_epoch, self.controller_id = 0, -1
        self.live = set()
        for partition, replica in list(self.replicas.items()):
            self.replicas[partition] = Replica(log=replica.log, topic_id=replica.topic_id)

    def crash(self) -> None:
        self.alive = False

    # -- the controller's requests -------------------------------------------------------------------------------------

    def handle(self, request: Any) -> Any:
        if isinstance(request, LeaderAndIsrRequest):
            return self._leader_and_isr(request)
        if isinstance(request, StopReplicaRequest):
            return self._stop_replica(request)
        assert isinstance(request, UpdateMetadataRequest)
        code = self._fence(request)
        if code is ErrorCode.NONE:
            self.controller_id = request.controller_id
            self.live = {broker.id for broker in request.live_brokers}
        return UpdateMetadataResponse(error_code=code)

    def _fence(self, request: Any) -> ErrorCode:
        if -1 < request.broker_epoch < self.epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = request.controller_epoch
        return ErrorCode.NONE

    def _leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        code = self._fence(request)
        if code is not ErrorCode.NONE:
            return LeaderAndIsrResponse(error_code=code)
        response = LeaderAndIsrResponse()
        for topic in request.topic_states:
            answer = LeaderAndIsrTopicError(topic_id=topic.topic_id)
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                answer.partition_errors.append(
                    LeaderAndIsrPartitionError(
                        partition_index=state.partition_index, error_code=self._change_role(partition, topic, state)
                    )
                )
            response.topics.append(answer)
        return response

    def _change_role(self, partition: TopicPartition, topic: Any, state: Any) -> ErrorCode:
        replica = self.replicas.get(partition)
        if replica is not None and replica.topic_id != topic.topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if self.id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if replica is None:
            replica = self.replicas[partition] = Replica(topic_id=topic.topic_id)
        if state.leader_epoch <= replica.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if state.leader != self.id and state.leader not in self.live:
            return ErrorCode.NONE  # the leader is not known yet: a later request with the same epoch will do it
        if state.partition_epoch < replica.partition_epoch:
            return ErrorCode.NONE
        replica.leader, replica.leader_epoch = state.leader, state.leader_epoch
        replica.isr, replica.replicas = list(state.isr), list(state.replicas)
        replica.partition_epoch = state.partition_epoch
        replica.pending_isr = None
        replica.fetched = {}
        replica.epoch_start = len(replica.log)
        return ErrorCode.NONE

    def _stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        code = self._fence(request)
        if code is not ErrorCode.NONE:
            return StopReplicaResponse(error_code=code)
        response = StopReplicaResponse()
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                replica = self.replicas.get(partition)
                error = ErrorCode.NONE
                if replica is not None and 0 <= state.leader_epoch < replica.leader_epoch:
                    error = ErrorCode.FENCED_LEADER_EPOCH
                elif replica is not None and state.delete_partition:
                    del self.replicas[partition]
                elif replica is not None and replica.leader != self.id:
                    replica.leader = -1  # stops fetching
                response.partition_errors.append(
                    StopReplicaPartitionError(
                        topic_name=partition.topic, partition_index=partition.partition, error_code=error
                    )
                )
        return response

    # -- leading and following -----------------------------------------------------------------------------------------

    def append(self, partition: TopicPartition) -> None:
        """A client produces to this broker, which believes to be the leader."""
        replica = self.replicas[partition]
        self._next_value += 1
        replica.log.append((replica.leader_epoch, self._next_value))

    def advance(self, replica: Replica) -> list[Record]:
        """Move the high watermark of a leader; returns everything that it takes for committed."""
        ends = [
            len(replica.log) if member == self.id else replica.fetched.get(member, 0)
            for member in replica.maximal_isr()
        ]
        replica.high_watermark = max(replica.high_watermark, min(ends, default=0))
        return replica.log[: replica.high_watermark]

    def serve_fetch(
        self, partition: TopicPartition, follower: int, epoch: int, log: list[Record]
    ) -> list[Record] | None:
        """A follower's fetch: None if it is refused, else the leader's log from where both logs part."""
        replica = self.replicas.get(partition)
        if replica is None or replica.leader != self.id or replica.leader_epoch != epoch:
            return None
        common = _common_prefix(log, replica.log)
        if common == len(log):
            # No divergence: what the follower has counts as replicated.
            replica.fetched[follower] = len(log)
        return replica.log[common:]

    def shrunk_isr(self, partition: TopicPartition) -> list[int] | None:
        """The ISR without members that lag; None if nothing is to be asked."""
        replica = self.replicas[partition]
        if replica.leader != self.id or replica.pending_isr is not None:
            return None
        left = [
            member for member in replica.isr if member == self.id or replica.fetched.get(member, 0) >= len(replica.log)
        ]
        return left if left != replica.isr else None

    def expanded_isr(self, partition: TopicPartition, follower: int) -> list[int] | None:
        """The ISR with a follower that has just fetched and is caught up; None if nothing is to be asked."""
        replica = self.replicas[partition]
        if replica.leader != self.id or replica.pending_isr is not None:
            return None
        caught_up = replica.fetched.get(follower, -1) >= max(replica.high_watermark, replica.epoch_start)
        if caught_up and follower not in replica.isr and follower in self.live and follower in replica.replicas:
            return [*replica.isr, follower]
        return None

    def alter_partition(self, partition: TopicPartition, isr: list[int]) -> AlterPartitionRequest:
        """Ask for an ISR; until the answer the larger of both counts."""
        replica = self.replicas[partition]
        replica.pending_isr = isr
        return AlterPartitionRequest(
            broker_id=self.id,
            broker_epoch=self.epoch,
            topics=[
                TopicDataRequest(
                    topic_id=replica.topic_id,
                    partitions=[
                        PartitionDataRequest(
                            partition_index=partition.partition,
                            leader_epoch=replica.leader_epoch,
                            new_isr_with_epochs=[BrokerState(broker_id=member) for member in isr],
                            partition_epoch=replica.partition_epoch,
                        )
                    ],
                )
            ],
        )

    def isr_answered(
        self, partition: TopicPartition, asked: AlterPartitionRequest, answer: AlterPartitionResponse
    ) -> bool:
        """Take the answer in; False if the same request has to be sent again."""
        replica = self.replicas.get(partition)
        wish = asked.topics[0].partitions[0]
        if replica is None or replica.leader_epoch != wish.leader_epoch or replica.pending_isr is None:
            return True
        if answer.error_code:
            return False
        result = answer.topics[0].partitions[0]
        if result.error_code in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED):
            replica.pending_isr = None
        elif result.error_code == ErrorCode.NOT_CONTROLLER:
            return False
        elif result.error_code == ErrorCode.NONE and result.partition_epoch >= replica.partition_epoch:
            replica.isr, replica.partition_epoch, replica.pending_isr = result.isr, result.partition_epoch, None
        # Any other code: stay conservative until the next LeaderAndIsr.
        return True


def _common_prefix(one: list[Record], other: list[Record]) -> int:
    length = min(len(one), len(other))
    return next((index for index in range(length) if one[index] != other[index]), length)
