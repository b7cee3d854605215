"""A controller reduced to what replicas rest on: one partition's state, changed by elections and AlterPartition.

The real controller has a simulation of its own (`cluster.py`); this one is the law that the real replicas of
`replicas.py` live under.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionDataResponse,
    TopicDataResponse,
)
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

TP = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))


@dataclass(frozen=True)
class State:
    """The state znode; `partition_epoch` is its version."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int


class ControllerModel:
    """Knows who is live by whose session it has not seen end. Never elects outside the ISR."""

    def __init__(self, replicas: tuple[int, ...]) -> None:
        self.replicas = replicas
        self.state = State(replicas[0], 0, replicas, 0)
        self.live: dict[int, int] = {}
        """Registered brokers with their epochs."""
        self.is_new = True
        self._next_broker_epoch = 1

    # -- brokers -------------------------------------------------------------------------------------------------------

    def register(self, broker: int) -> int:
        """A process has started, or has a session again; its last session has ended before."""
        assert broker not in self.live
        epoch = self.live[broker] = self._next_broker_epoch
        self._next_broker_epoch += 1
        if self.state.leader == -1 and broker in self.state.isr:
            self._elect(broker, (broker,))
        return epoch

    def session_ended(self, broker: int) -> None:
        """Out of the ISR, unless it is the last there, and no longer the leader."""
        self.live.pop(broker, None)
        state = self.state
        if broker not in state.isr:
            return
        left = tuple(member for member in state.isr if member in self.live)
        if not left:
            self._elect(-1, (broker,))
        elif state.leader == broker:
            self._elect(left[0], left)
        else:
            self._elect(state.leader, tuple(member for member in state.isr if member != broker))

    def move(self, leader: int) -> None:
        """Another leader, as by a preferred election."""
        if leader in self.live and leader in self.state.isr:
            self._elect(leader, self.state.isr)

    def _elect(self, leader: int, isr: tuple[int, ...]) -> None:
        state = self.state
        self.state = State(leader, state.leader_epoch + 1, isr, state.partition_epoch + 1)

    # -- requests ------------------------------------------------------------------------------------------------------

    def metadata(self) -> UpdateMetadataRequest:
        endpoints = [UpdateMetadataEndpoint(port=1, host="h", listener="PLAINTEXT")]
        brokers = [UpdateMetadataBroker(id=broker, endpoints=endpoints) for broker in sorted(self.live)]
        return UpdateMetadataRequest(controller_id=9, controller_epoch=1, live_brokers=brokers)

    def leader_and_isr(self) -> LeaderAndIsrRequest:
        state = LeaderAndIsrPartitionState(
            partition_index=0,
            controller_epoch=1,
            leader=self.state.leader,
            leader_epoch=self.state.leader_epoch,
            isr=list(self.state.isr),
            partition_epoch=self.state.partition_epoch,
            replicas=list(self.replicas),
            is_new=True,
        )
        topic = LeaderAndIsrTopicState(topic_name=TP.topic, topic_id=TOPIC_ID, partition_states=[state])
        return LeaderAndIsrRequest(controller_id=9, controller_epoch=1, topic_states=[topic])

    def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """The checks of KIP-497, in their order."""
        if self.live.get(request.broker_id) != request.broker_epoch:
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        asked = request.topics[0].partitions[0]
        code = self._alter(request.broker_id, asked)
        state = self.state
        answer = PartitionDataResponse(error_code=code)
        if code is ErrorCode.NONE:
            answer = PartitionDataResponse(
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
                partition_epoch=state.partition_epoch,
            )
        return AlterPartitionResponse(topics=[TopicDataResponse(topic_id=TOPIC_ID, partitions=[answer])])

    def _alter(self, broker: int, asked: Any) -> ErrorCode:
        state = self.state
        isr = tuple(member.broker_id for member in asked.new_isr_with_epochs)
        if asked.leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if isr == state.isr and asked.partition_epoch <= state.partition_epoch:
            return ErrorCode.NONE
        if asked.partition_epoch < state.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if any(member not in self.live for member in isr):
            return ErrorCode.INELIGIBLE_REPLICA
        assert broker == state.leader, "an epoch pair belongs to one leader"
        self.state = replace(state, isr=isr, partition_epoch=state.partition_epoch + 1)
        return ErrorCode.NONE
