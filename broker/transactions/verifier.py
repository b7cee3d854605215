"""What a partition leader asks before it lets a producer open a transaction in a partition (KIP-890, part 1).

A transactional batch for a producer without open transaction in the partition is appended only when the producer's
coordinator says that the partition was added to the transaction; so a late batch can't leave a transaction hanging.
Questions to one coordinator broker wait for the answer under way and then go out in one request.
"""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from broker.coordinator.batch_verification import Question
from broker.transactions.broker_workers import BrokerWorkers
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from timer.clock import Clock, SystemClock
from timer.metrics import NULL_METRICS, Metrics
from timer.worker import Workers

logger = logging.getLogger(__name__)

_GROUP, _TYPE = "kafka.server", "AddPartitionsToTxnManager"


class UnsupportedByPeerError(Exception):
    """The coordinator's broker is too old for AddPartitionsToTxn version 4; its producers count as verified."""


class Coordinators(Protocol):
    """Finds the broker that coordinates a transactional id."""

    def __call__(self, transactional_id: str) -> int | None: ...


class VerificationTransport(Protocol):
    """Sends a request to a broker; raises OSError without an answer, UnsupportedByPeerError when it is too old."""

    def __call__(self, broker_id: int, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse: ...


class TransactionVerifier:
    """Asks coordinators; each question is answered once, on the thread of the coordinator's broker or the caller's."""

    def __init__(
        self,
        coordinators: Coordinators,
        transport: VerificationTransport,
        *,
        threaded: bool = True,
        clock: Clock | None = None,
        workers: Workers | None = None,
        metrics: Metrics = NULL_METRICS,
    ) -> None:
        self._coordinators = coordinators
        self._transport = transport
        self._workers = BrokerWorkers(
            "AddPartitionsToTxnSenderThread", self.step, threaded=threaded, clock=clock, workers=workers
        )
        self._lock = threading.Lock()
        self._clock = clock or SystemClock()
        # With the time at which it was asked.
        self._waiting: dict[int, dict[str, tuple[Question, int]]] = {}
        self._times = metrics.histogram(_GROUP, _TYPE, "VerificationTimeMs")
        self._failures = metrics.meter(_GROUP, _TYPE, "VerificationFailureRate")

    def verify(self, question: Question) -> None:
        """Ask whether the partitions belong to the producer's open transaction.

        A second question of the same id replaces one that waits: that one ends in NETWORK_EXCEPTION (same epoch, a
        retry) or INVALID_PRODUCER_EPOCH (lower epoch); a newcomer with a lower epoch is refused.
        """
        transactional_id, epoch = question.transactional_id, question.producer_epoch
        broker_id = self._coordinators(transactional_id)
        if broker_id is None:
            question.answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        asked_ms = self._clock.monotonic_ms()
        with self._lock:
            waiting = self._waiting.setdefault(broker_id, {})
            earlier, earlier_ms = waiting.get(transactional_id, (None, 0))
            if earlier is None or earlier.producer_epoch <= epoch:
                waiting[transactional_id] = question, asked_ms
        if earlier is not None:
            if earlier.producer_epoch > epoch:
                self._fail(question, asked_ms, ErrorCode.INVALID_PRODUCER_EPOCH)
                return
            stale = earlier.producer_epoch < epoch
            self._fail(earlier, earlier_ms, ErrorCode.INVALID_PRODUCER_EPOCH if stale else ErrorCode.NETWORK_EXCEPTION)
        self._workers.wake(broker_id)

    def shutdown(self) -> None:
        """End the threads; what still waits is answered NETWORK_EXCEPTION."""
        self._workers.shutdown()
        with self._lock:
            left = [question for waiting in self._waiting.values() for question, _ in waiting.values()]
            self._waiting.clear()
        for question in left:
            question.answer(ErrorCode.NETWORK_EXCEPTION)

    def step(self, broker_id: int) -> None:
        """Send what waits for a broker in one request and hand out the answers."""
        with self._lock:
            questions = list(self._waiting.pop(broker_id, {}).values())
        if not questions:
            return
        request = AddPartitionsToTxnRequest(transactions=[_transaction(question) for question, _ in questions])
        try:
            response = self._transport(broker_id, request)
        except UnsupportedByPeerError:
            for question, asked_ms in questions:
                self._count(asked_ms, 0)
                question.answer(ErrorCode.NONE)
            return
        except Exception as error:
            for question, asked_ms in questions:
                self._fail(question, asked_ms, ErrorCode.NETWORK_EXCEPTION)
            if not isinstance(error, OSError):
                raise
            logger.info("verification by broker %d failed: %s", broker_id, error)
            return
        if response.error_code != ErrorCode.NONE:
            for question, asked_ms in questions:
                self._fail(question, asked_ms, _shown(ErrorCode.of(response.error_code)))
            return
        answers = {
            result.transactional_id: {
                TopicPartition(topic.name, partition.partition_index): ErrorCode.of(partition.partition_error_code)
                for topic in result.topic_results
                for partition in topic.results_by_partition
            }
            for result in response.results_by_transaction
        }
        for question, asked_ms in questions:
            errors = answers.get(question.transactional_id, {})
            verdict = {tp: _shown(errors.get(tp, ErrorCode.NETWORK_EXCEPTION)) for tp in question.partitions}
            self._count(asked_ms, sum(error is not ErrorCode.NONE for error in verdict.values()))
            question.verdict(verdict)

    def _fail(self, question: Question, asked_ms: int, error: ErrorCode) -> None:
        self._count(asked_ms, len(question.partitions))
        question.answer(error)

    def _count(self, asked_ms: int, failures: int) -> None:
        """One question is about to be answered, for so many partitions with an error."""
        self._times.update(self._clock.monotonic_ms() - asked_ms)
        self._failures.mark(failures)


# Errors of the coordinator as the waiting append sees them; the rest pass unchanged.
_SHOWN = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorCode.INVALID_TXN_STATE,
}
# What a producer is told: these pass with time, and only NOT_ENOUGH_REPLICAS makes every client try again.
_RETRIED_BY_CLIENT = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


def producer_error(error: ErrorCode, knows_abortable: bool) -> ErrorCode:
    """A verdict as a Produce or TxnOffsetCommit answer shows it.

    `knows_abortable`: the request's version allows TRANSACTION_ABORTABLE (Produce 11, TxnOffsetCommit 4).
    """
    if error in _RETRIED_BY_CLIENT:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error


def _shown(error: ErrorCode) -> ErrorCode:
    return _SHOWN.get(error, error)


def _transaction(question: Question) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for topic, partition in question.partitions:
        topics.setdefault(topic, []).append(partition)
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=True,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=ids) for name, ids in topics.items()],
    )
