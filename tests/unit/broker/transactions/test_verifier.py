"""Questions to coordinators: each is answered once, whatever becomes of the request."""

from __future__ import annotations

import pytest

from broker.coordinator.batch_verification import Errors, Question
from broker.transactions.verifier import TransactionVerifier, UnsupportedByPeerError, producer_error
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode as E
from network.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Peer:
    """The broker of every coordinator; `answer` is what it says of each partition."""

    def __init__(self) -> None:
        self.broker_id: int | None = 3
        self.requests: list[AddPartitionsToTxnRequest] = []
        self.answer = E.NONE
        self.error = E.NONE
        self.failure: Exception | None = None
        self.verifier = TransactionVerifier(lambda _: self.broker_id, self.send, threaded=False)

    def send(self, broker_id: int, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        self.requests.append(request)
        if self.failure is not None:
            raise self.failure
        return AddPartitionsToTxnResponse(
            error_code=self.error,
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index, partition_error_code=self.answer
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in transaction.topics
                    ],
                )
                for transaction in request.transactions
            ],
        )

    def ask(self, *partitions: TopicPartition, transactional_id: str = "tx", epoch: int = 0) -> list[Errors]:
        verdicts: list[Errors] = []
        self.verifier.verify(Question(transactional_id, 1, epoch, list(partitions), verdicts.append))
        return verdicts


@pytest.fixture
def peer() -> Peer:
    return Peer()


def test_questions_that_wait_go_out_in_one_request(peer: Peer) -> None:
    first, second = peer.ask(T0, T1), peer.ask(T1, transactional_id="other")
    assert (first, second) == ([], [])
    peer.verifier.step(3)
    assert first == [{T0: E.NONE, T1: E.NONE}]
    assert second == [{T1: E.NONE}]
    (request,) = peer.requests
    assert [transaction.verify_only for transaction in request.transactions] == [True, True]
    peer.verifier.step(3)
    assert len(peer.requests) == 1, "nothing is left to ask"


def test_nobody_coordinates(peer: Peer) -> None:
    peer.broker_id = None
    assert peer.ask(T0) == [{T0: E.COORDINATOR_NOT_AVAILABLE}]


@pytest.mark.parametrize(
    ("epoch", "first", "second"),
    [(1, [{T0: E.NETWORK_EXCEPTION}], [{T1: E.NONE}]), (2, [{T0: E.INVALID_PRODUCER_EPOCH}], [{T1: E.NONE}]),
     (0, [{T0: E.NONE}], [{T1: E.INVALID_PRODUCER_EPOCH}])],
)  # fmt: skip
def test_a_second_question_of_the_same_id(peer: Peer, epoch: int, first: list[Errors], second: list[Errors]) -> None:
    earlier, later = peer.ask(T0, epoch=1), peer.ask(T1, epoch=epoch)
    peer.verifier.step(3)
    assert (earlier, later) == (first, second)


@pytest.mark.parametrize(
    ("failure", "told"), [(OSError("gone"), E.NETWORK_EXCEPTION), (UnsupportedByPeerError(3), E.NONE)]
)
def test_a_request_that_is_not_answered(peer: Peer, failure: Exception, told: E) -> None:
    peer.failure = failure
    verdicts = peer.ask(T0)
    peer.verifier.step(3)
    assert verdicts == [{T0: told}]


def test_an_unexpected_failure_leaves_nobody_waiting(peer: Peer) -> None:
    peer.failure = ValueError("a fault of ours")
    verdicts = peer.ask(T0)
    with pytest.raises(ValueError, match="a fault"):
        peer.verifier.step(3)
    assert verdicts == [{T0: E.NETWORK_EXCEPTION}]


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE),
        (E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH),
        (E.CLUSTER_AUTHORIZATION_FAILED, E.INVALID_TXN_STATE),
    ],
)
def test_what_the_coordinator_says(peer: Peer, answer: E, shown: E) -> None:
    peer.answer = answer
    verdicts = peer.ask(T0)
    peer.verifier.step(3)
    assert verdicts == [{T0: shown}]


def test_an_error_of_the_whole_request(peer: Peer) -> None:
    peer.error = E.CLUSTER_AUTHORIZATION_FAILED
    verdicts = peer.ask(T0)
    peer.verifier.step(3)
    assert verdicts == [{T0: E.INVALID_TXN_STATE}]


def test_shutdown_answers_what_waits(peer: Peer) -> None:
    verdicts = peer.ask(T0)
    peer.verifier.shutdown()
    assert verdicts == [{T0: E.NETWORK_EXCEPTION}]


@pytest.mark.parametrize(
    ("error", "knows_abortable", "shown"),
    [
        (E.COORDINATOR_LOAD_IN_PROGRESS, True, E.NOT_ENOUGH_REPLICAS),
        (E.NETWORK_EXCEPTION, False, E.NOT_ENOUGH_REPLICAS),
        (E.TRANSACTION_ABORTABLE, True, E.TRANSACTION_ABORTABLE),
        (E.TRANSACTION_ABORTABLE, False, E.INVALID_TXN_STATE),
        (E.INVALID_PRODUCER_EPOCH, True, E.INVALID_PRODUCER_EPOCH),
    ],
)
def test_what_a_producer_is_shown(error: E, knows_abortable: bool, shown: E) -> None:
    assert producer_error(error, knows_abortable) is shown
