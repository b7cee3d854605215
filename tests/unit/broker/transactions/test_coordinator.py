"""What the transaction APIs do."""

import pytest

from broker.transactions.coordinator import (
    ExpectedProducer,
    InitResult,
)
from network.protocol.errors import ErrorCode
from tests.support.transaction_coordinator import T0, T1, Cluster, S


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_init_without_an_id_stores_nothing(cluster: Cluster) -> None:
    answer = cluster.init(None)
    assert (answer.error, answer.producer_id, answer.producer_epoch) == (ErrorCode.NONE, 1001, 0)
    assert cluster.log.entries() == []


def test_adding_known_partitions_writes_nothing(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    before = len(cluster.log.entries())
    assert cluster.add(producer, T0) is ErrorCode.NONE
    assert len(cluster.log.entries()) == before


def test_a_second_init_fences_the_open_transaction(cluster: Cluster) -> None:
    zombie = cluster.begin(T0)
    assert cluster.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert cluster.add(zombie, T1) is ErrorCode.PRODUCER_FENCED
    assert cluster.end(zombie, commit=True) is ErrorCode.PRODUCER_FENCED
    cluster.deliver_markers()
    assert cluster.sent == [(1, T0, False)]
    answer = cluster.init()
    assert (answer.error, answer.producer_epoch) == (ErrorCode.NONE, zombie.producer_epoch + 2)


def test_a_fence_whose_abort_was_not_stored_uses_its_epoch_again(cluster: Cluster) -> None:
    zombie = cluster.begin(T0)
    cluster.log.errors = [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert cluster.init().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert cluster.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    cluster.deliver_markers()
    assert cluster.init().producer_epoch == zombie.producer_epoch + 2


def test_a_lost_init_answer_is_given_again(cluster: Cluster) -> None:
    first = cluster.init()
    claimed = ExpectedProducer(first.producer_id, first.producer_epoch)
    bumped = cluster.init(expected=claimed)
    assert bumped.producer_epoch == 1
    assert cluster.init(expected=claimed) == bumped
    stranger = ExpectedProducer(77, 0)
    assert cluster.init(expected=stranger).error is ErrorCode.PRODUCER_FENCED


def test_an_exhausted_epoch_gets_a_new_producer_id(cluster: Cluster) -> None:
    first = cluster.init()
    metadata = cluster.coordinator.admin.describe("tx")
    metadata.producer_epoch = 32766
    answer = cluster.init(expected=ExpectedProducer(first.producer_id, 32766))
    assert answer.producer_epoch == 0
    assert answer.producer_id != first.producer_id
    assert (metadata.last_producer_id, metadata.last_producer_epoch) == (first.producer_id, 32766)
    # the retry of the rotation claims the old id with its exhausted epoch
    again = cluster.init(expected=ExpectedProducer(first.producer_id, 32766))
    assert (again.error, again.producer_id) == (ErrorCode.NONE, answer.producer_id)


@pytest.mark.parametrize("commit", [True, False])
def test_a_decided_transaction_survives_the_coordinator(cluster: Cluster, commit: bool) -> None:
    producer = cluster.begin(T0, T1)
    cluster.end(producer, commit=commit)
    cluster.coordinator.shutdown()
    cluster.restart(epoch=1)
    cluster.deliver_markers()
    assert sorted(cluster.sent) == [(1, T0, commit), (2, T1, commit)]
    assert cluster.state is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)


def test_a_timed_out_transaction_is_fenced_and_aborted(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    cluster.advance(59_000)
    assert cluster.state is S.ONGOING
    cluster.advance(12_000)
    cluster.deliver_markers()
    assert cluster.sent == [(1, T0, False)]
    assert cluster.state is S.COMPLETE_ABORT  # type: ignore[comparison-overlap]
    assert cluster.end(producer, commit=True) is ErrorCode.PRODUCER_FENCED


def test_verification_knows_only_partitions_of_the_open_transaction(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    assert cluster.coordinator.verify_partitions("tx", producer, [T0, T1]) == {
        T0: ErrorCode.NONE,
        T1: ErrorCode.TRANSACTION_ABORTABLE,
    }
    stale = ExpectedProducer(producer.producer_id, producer.producer_epoch + 1)
    assert cluster.coordinator.verify_partitions("tx", stale, [T0]) == {T0: ErrorCode.PRODUCER_FENCED}
    other = ExpectedProducer(5, 0)
    assert cluster.coordinator.verify_partitions("tx", other, [T0]) == {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_out_of_range_are_refused(cluster: Cluster, timeout_ms: int) -> None:
    answers: list[InitResult] = []
    cluster.coordinator.init_producer_id("tx", timeout_ms, None, answers.append)
    assert answers == [InitResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT)]
