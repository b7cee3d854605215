"""Proposing ISR changes to the controller (AlterPartition, KIP-497).

A partition has at most one proposal pending, and one request is outstanding at a time; it carries everything that is
pending when it is made. Whatever the answer does not settle is sent again, for ever, with the broker epoch of that
moment.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from broker.replication.isr.state import LeaderAndIsr, LeaderRecoveryState
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionDataRequest,
    TopicDataRequest,
)
from network.protocol.uuids import ZERO_UUID
from timer.scheduler import Scheduler

logger = logging.getLogger(__name__)

RETRY_BACKOFF_MS = 50
_WITHOUT_TOPIC_IDS = 1

AlterPartitionCallback = Callable[["LeaderAndIsr | ErrorCode"], None]


class Channel(Protocol):
    def send(
        self,
        api: ApiKey,
        build: Callable[[int], AlterPartitionRequest],
        callback: Callable[[AlterPartitionResponse], None],
        max_version: int | None = None,
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class _Item:
    topic_id: bytes
    proposal: LeaderAndIsr
    callback: AlterPartitionCallback


class AlterPartitionManager:
    """Thread-safe. Callbacks run without a lock held; they may submit again."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        topic_name: Callable[[bytes], str | None],
        channel: Channel,
        scheduler: Scheduler,
    ) -> None:
        """`topic_name` resolves the topic ids of an answer."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._topic_name = topic_name
        self._channel = channel
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._pending: dict[TopicPartition, _Item] = {}
        self._in_flight = False

    def submit(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        proposal: LeaderAndIsr,
        controller_epoch: int,
        callback: AlterPartitionCallback,
    ) -> None:
        """Propose; a second proposal for a partition is answered OPERATION_NOT_ATTEMPTED at once."""
        with self._lock:
            duplicate = topic_partition in self._pending
            if not duplicate:
                self._pending[topic_partition] = _Item(topic_id, proposal, callback)
        if duplicate:
            callback(ErrorCode.OPERATION_NOT_ATTEMPTED)
        else:
            self._maybe_send()

    def _maybe_send(self) -> None:
        with self._lock:
            if self._in_flight or not self._pending:
                return
            self._in_flight = True
            sent = dict(self._pending)
        has_ids = all(item.topic_id != ZERO_UUID for item in sent.values())
        try:
            self._channel.send(
                ApiKey.ALTER_PARTITION,
                lambda version: self._request(sent, version),
                lambda response: self._on_response(sent, response),
                None if has_ids else _WITHOUT_TOPIC_IDS,
            )
        except Exception:
            with self._lock:
                self._in_flight = False
            raise

    def _request(self, items: dict[TopicPartition, _Item], version: int) -> AlterPartitionRequest:
        topics: dict[str, TopicDataRequest] = {}
        for tp, item in items.items():
            topic = topics.get(tp.topic)
            if topic is None:
                topic = topics[tp.topic] = TopicDataRequest(topic_name=tp.topic, topic_id=item.topic_id)
            topic.partitions.append(partition_data(tp.partition, item.proposal, version))
        return AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def _on_response(self, sent: dict[TopicPartition, _Item], response: AlterPartitionResponse) -> None:
        settled: list[tuple[AlterPartitionCallback, LeaderAndIsr | ErrorCode]] = []
        answers: dict[TopicPartition, LeaderAndIsr | ErrorCode] = {}
        try:
            if response.error_code != ErrorCode.NONE:
                logger.info("AlterPartition was refused with %s; trying again", ErrorCode.of(response.error_code).name)
            else:
                answers = self._answers(response)
        finally:
            # Whatever the answer was, the next request may go.
            with self._lock:
                for tp, item in sent.items():
                    answer = answers.get(tp)
                    if answer is not None and self._pending.get(tp) is item:
                        del self._pending[tp]
                        settled.append((item.callback, answer))
                self._in_flight = False
            complete = sent.keys() <= answers.keys()
            if not complete:
                self._scheduler.schedule_once("send-alter-partition", self._maybe_send, delay_ms=RETRY_BACKOFF_MS)
        for callback, answer in settled:
            try:
                callback(answer)
            except Exception:
                logger.exception("handling an AlterPartition answer failed")
        if complete:
            self._maybe_send()

    def _answers(self, response: AlterPartitionResponse) -> dict[TopicPartition, LeaderAndIsr | ErrorCode]:
        answers: dict[TopicPartition, LeaderAndIsr | ErrorCode] = {}
        for topic in response.topics:
            name = topic.topic_name or self._topic_name(topic.topic_id)
            if name is None:
                continue
            for partition in topic.partitions:
                tp = TopicPartition(name, partition.partition_index)
                if partition.error_code != ErrorCode.NONE:
                    answers[tp] = ErrorCode.of(partition.error_code)
                    continue
                try:
                    recovery_state = LeaderRecoveryState(partition.leader_recovery_state)
                except ValueError as error:
                    logger.error("%s: an answer that cannot be used, asking again: %s", tp, error)
                    continue
                answers[tp] = LeaderAndIsr(
                    partition.leader_id,
                    partition.leader_epoch,
                    tuple(partition.isr),
                    recovery_state,
                    partition.partition_epoch,
                )
        return answers


def partition_data(index: int, proposal: LeaderAndIsr, version: int) -> PartitionDataRequest:
    """What a proposal is in a request of `version`."""
    partition = PartitionDataRequest(
        partition_index=index, leader_epoch=proposal.leader_epoch, partition_epoch=proposal.partition_epoch
    )
    if version >= 1:
        partition.leader_recovery_state = proposal.recovery_state
    if version >= 3:
        # Of those who are in the ISR already the controller knows better when they were away.
        joiner, epoch = proposal.joins or (None, -1)
        partition.new_isr_with_epochs = [
            BrokerState(broker_id=member, broker_epoch=epoch if member == joiner else -1) for member in proposal.isr
        ]
    else:
        partition.new_isr = list(proposal.isr)
    return partition
