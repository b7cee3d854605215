"""ISR changes: AlterPartition requests of leaders, and notifications of leaders that write the states themselves."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.core import ControllerCore
from controller.reassignment import Reassignment
from controller.zk.ops import Code
from controller.zk.payloads import RECOVERED, RECOVERING, PartitionState
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionDataResponse,
    TopicDataResponse,
)
from network.protocol.uuids import ZERO_UUID

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Wish:
    """One partition of an AlterPartition request; `partition` is None for an unknown topic id."""

    topic_name: str
    topic_id: bytes
    index: int
    partition: TopicPartition | None
    state: PartitionState
    epochs: Mapping[int, int]
    """Broker epochs of members of the ISR, where the leader knows them."""


class IsrChanges:
    """Runs on the event thread."""

    def __init__(self, core: ControllerCore, reassignment: Reassignment) -> None:
        self._core = core
        self._reassignment = reassignment

    def notified(self) -> None:
        """`/isr_change_notification` has new entries: refresh, tell everyone, maybe complete reassignments."""
        core, context = self._core, self._core.context
        if context.epoch == 0:
            return
        names = core.zk.isr_change_names()
        try:
            changed = [item for item in core.zk.isr_changes(names) if context.has_partition(item)]
            if changed:
                self.refresh(changed)
                core.send_update_metadata(changed)
                self._complete_reassignments(changed)
        finally:
            core.zk.delete_isr_changes(names, core.fence)

    def refresh(self, partitions: Sequence[TopicPartition]) -> None:
        """Read the leadership of these partitions again."""
        for partition, state in self._core.zk.partition_states(partitions).items():
            self._core.context.set_leadership(partition, state)

    def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        """Check each wish against the context, write the acceptable ones, tell everyone.

        The sender is not checked for being the leader: leader epoch and partition epoch stand for that.
        """
        top_level = self._check_sender(request)
        if top_level is not ErrorCode.NONE:
            return AlterPartitionResponse(error_code=top_level)
        wishes = list(self._wishes(request, version))
        outcomes: dict[int, PartitionState | ErrorCode] = {}
        writes: dict[TopicPartition, PartitionState] = {}
        position: dict[TopicPartition, int] = {}
        for number, wish in enumerate(wishes):
            outcome = self._check(wish, version)
            if outcome is not None:
                outcomes[number] = outcome
            elif wish.partition is not None:
                writes[wish.partition] = wish.state
                position[wish.partition] = number
        for partition, written in self._write(writes).items():
            outcomes[position[partition]] = _written(partition, written)
        known = [wish.partition for wish in wishes if wish.partition is not None]
        for partition in writes:
            outcome = outcomes[position[partition]]
            if isinstance(outcome, PartitionState):
                self._core.context.set_leadership(partition, outcome)
        if known:
            self._core.send_update_metadata(known)
        return _response(wishes, outcomes)

    def _write(self, writes: Mapping[TopicPartition, PartitionState]) -> dict[TopicPartition, PartitionState | Code]:
        """Write conditionally. A write that was applied although its answer was lost is recognised by its content."""
        results = self._core.zk.set_partition_states(writes, self._core.fence)
        refused = [partition for partition, result in results.items() if result is Code.BAD_VERSION]
        if not refused:
            return results
        for partition, found in self._core.zk.partition_states(refused).items():
            self._core.context.set_leadership(partition, found)
            wanted = writes[partition]
            if found == replace(wanted, partition_epoch=wanted.partition_epoch + 1):
                results[partition] = found
        return results

    def after_alter_partition(self, response: AlterPartitionResponse, version: int) -> None:
        """Once the answer is out: successful partitions may have completed their reassignment."""
        successful: list[TopicPartition] = []
        for topic in response.topics:
            name = topic.topic_name if version < 2 else self._core.context.topic_names.get(topic.topic_id)
            if name is not None:
                successful.extend(
                    TopicPartition(name, item.partition_index)
                    for item in topic.partitions
                    if item.error_code == ErrorCode.NONE
                )
        self._complete_reassignments(successful)

    def _complete_reassignments(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            if partition in self._core.context.reassigning:
                self._reassignment.maybe_complete(partition)

    def _check_sender(self, request: AlterPartitionRequest) -> ErrorCode:
        context = self._core.context
        if context.epoch == 0:
            return ErrorCode.NOT_CONTROLLER
        registered = context.brokers.get(request.broker_id)
        if registered is None or registered.epoch != request.broker_epoch:
            logger.info(
                "AlterPartition of broker %d with epoch %d refused, registered is %s",
                request.broker_id,
                request.broker_epoch,
                registered.epoch if registered else None,
            )
            return ErrorCode.STALE_BROKER_EPOCH
        return ErrorCode.NONE

    def _wishes(self, request: AlterPartitionRequest, version: int) -> Iterable[_Wish]:
        context = self._core.context
        for topic in request.topics:
            name = context.topic_names.get(topic.topic_id) if version >= 2 else topic.topic_name
            for item in topic.partitions:
                members = (
                    item.new_isr_with_epochs if version >= 3 else [BrokerState(broker_id=id_) for id_ in item.new_isr]
                )
                epochs = {member.broker_id: member.broker_epoch for member in members if member.broker_epoch >= 0}
                state = PartitionState(
                    leader=request.broker_id,
                    leader_epoch=item.leader_epoch,
                    isr=tuple(member.broker_id for member in members),
                    controller_epoch=context.epoch,
                    recovery_state=item.leader_recovery_state if version >= 1 else RECOVERED,
                    partition_epoch=item.partition_epoch,
                )
                partition = None if name is None else TopicPartition(name, item.partition_index)
                yield _Wish(topic.topic_name, topic.topic_id, item.partition_index, partition, state, epochs)

    def _check(self, wish: _Wish, version: int) -> PartitionState | ErrorCode | None:
        """None if the wish may be written; else the error, or the current state if it is so already."""
        if wish.partition is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        current = self._core.context.leadership.get(wish.partition)
        wanted = wish.state
        if current is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if wanted.partition_epoch > current.partition_epoch or wanted.leader_epoch > current.leader_epoch:
            return ErrorCode.NOT_CONTROLLER  # this controller is behind: the leader has to look for another one
        if wanted.leader_epoch < current.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if _same_but_epochs(wanted, current):
            return current
        if wanted.partition_epoch < current.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if wanted.recovery_state == RECOVERING and (len(wanted.isr) > 1 or current.recovery_state == RECOVERED):
            return ErrorCode.INVALID_REQUEST
        if not all(self._core.context.is_live(broker) for broker in wanted.isr):
            return ErrorCode.INELIGIBLE_REPLICA if version >= 2 else ErrorCode.OPERATION_NOT_ATTEMPTED
        brokers = self._core.context.brokers
        if any(brokers[broker].epoch != epoch for broker, epoch in wish.epochs.items()):
            # It has been away since the leader found it in sync, and may have lost what it had. Apache Kafka's
            # controller checks this with KRaft only, and its leaders send epochs to no other.
            return ErrorCode.INELIGIBLE_REPLICA
        return None


def _same_but_epochs(wanted: PartitionState, current: PartitionState) -> bool:
    """A repeat of what was applied already; the order of the ISR counts."""
    return wanted == replace(current, controller_epoch=wanted.controller_epoch, partition_epoch=wanted.partition_epoch)


def _written(partition: TopicPartition, result: PartitionState | Code) -> PartitionState | ErrorCode:
    if isinstance(result, PartitionState):
        return result
    if result is Code.BAD_VERSION:
        return ErrorCode.INVALID_UPDATE_VERSION
    logger.error("Could not write the state of %s: %s", partition, result.name)
    return ErrorCode.UNKNOWN_SERVER_ERROR


def _response(wishes: Sequence[_Wish], outcomes: dict[int, PartitionState | ErrorCode]) -> AlterPartitionResponse:
    topics: dict[tuple[str, bytes], TopicDataResponse] = {}
    for number, wish in enumerate(wishes):
        name = wish.topic_name or (wish.partition.topic if wish.partition else "")
        key = (name, wish.topic_id or ZERO_UUID)
        topic = topics.setdefault(key, TopicDataResponse(topic_name=name, topic_id=key[1]))
        outcome = outcomes[number]
        answer = PartitionDataResponse(partition_index=wish.index)
        if isinstance(outcome, PartitionState):
            answer.leader_id = outcome.leader
            answer.leader_epoch = outcome.leader_epoch
            answer.isr = list(outcome.isr)
            answer.leader_recovery_state = outcome.recovery_state
            answer.partition_epoch = outcome.partition_epoch
        else:
            answer.error_code = outcome
        topic.partitions.append(answer)
    return AlterPartitionResponse(topics=list(topics.values()))
