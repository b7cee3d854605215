"""Commits on their way into the log, and those of transactions."""

import pytest

from broker.groups.offsets.committer import TransactionalProducer
from network.protocol.errors import ErrorCode as E
from tests.support.groups import Coordinator, partition

PRODUCER = TransactionalProducer(7, 0, "tx")


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_one_batch_a_request_with_the_fields_of_kafka(coordinator: Coordinator) -> None:
    coordinator.commit({"t-0": 5, "t-1": 6})
    (batch,) = [batch for batches in coordinator.log.batches.values() for batch in batches]
    assert (batch.record_count, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (2, -1, -1, 0)
    assert not batch.is_transactional
    assert coordinator.log.acks == [-1]


def test_an_offset_is_visible_only_when_acknowledged(coordinator: Coordinator) -> None:
    coordinator.commit({"t-0": 1})
    coordinator.log.hold()
    answer = coordinator.commit({"t-0": 2})
    assert not answer.done
    assert coordinator.committed() == {"t-0": 1}
    assert coordinator.committed(require_stable=True) == {"t-0": "UNSTABLE_OFFSET_COMMIT"}
    coordinator.log.acknowledge()
    assert answer.value[partition("t-0")] is E.NONE
    assert coordinator.committed(require_stable=True) == {"t-0": 2}


@pytest.mark.parametrize(
    ("append_error", "told"),
    [
        (E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.RECORD_LIST_TOO_LARGE, E.INVALID_COMMIT_OFFSET_SIZE),
        (E.NETWORK_EXCEPTION, E.COORDINATOR_LOAD_IN_PROGRESS),
        (E.REQUEST_TIMED_OUT, E.REQUEST_TIMED_OUT),
    ],
)
def test_a_failed_append_changes_nothing(coordinator: Coordinator, append_error: E, told: E) -> None:
    coordinator.commit({"t-0": 1})
    coordinator.log.error = append_error
    assert coordinator.commit({"t-0": 2}).value == {partition("t-0"): told}
    assert coordinator.committed(require_stable=True) == {"t-0": 1}


def test_too_long_metadata_is_refused_alone(coordinator: Coordinator) -> None:
    assert coordinator.commit({"t-0": 1}, metadata="ä" * 4_096).value[partition("t-0")] is E.NONE
    # Two UTF-16 units a character.
    too_long = coordinator.commit({"t-0": 2}, metadata="\U0001f600" * 2_049).value
    assert too_long == {partition("t-0"): E.OFFSET_METADATA_TOO_LARGE}
    assert coordinator.committed() == {"t-0": 1}
    assert len(coordinator.log.entries()) == 1


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_of_a_transaction_wait_for_its_end(coordinator: Coordinator, commit: bool) -> None:
    coordinator.commit({"t-0": 1})
    assert coordinator.commit({"t-0": 2, "t-1": 3}, producer=PRODUCER).value[partition("t-1")] is E.NONE
    assert coordinator.committed() == {"t-0": 1}
    assert coordinator.committed(require_stable=True) == {"t-0": "UNSTABLE_OFFSET_COMMIT"}
    batch = coordinator.log.batches[coordinator.owned.partition_of("g")][-1]
    assert (batch.is_transactional, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (True, 7, 0, 0)
    coordinator.core.on_transaction_completed(7, [0, 1, 2], commit)
    coordinator.scheduler.tick()
    assert coordinator.committed(require_stable=True) == ({"t-0": 2, "t-1": 3} if commit else {"t-0": 1})
    coordinator.core.on_transaction_completed(7, [0, 1, 2], commit)
    coordinator.scheduler.tick()


def test_a_plain_commit_after_that_of_an_open_transaction_wins(coordinator: Coordinator) -> None:
    coordinator.commit({"t-0": 2}, producer=PRODUCER)
    coordinator.commit({"t-0": 9})
    coordinator.core.on_transaction_completed(7, [0, 1, 2], True)
    coordinator.scheduler.tick()
    assert coordinator.committed() == {"t-0": 9}


def test_a_failed_transactional_append_leaves_nothing_pending(coordinator: Coordinator) -> None:
    coordinator.log.error = E.INVALID_PRODUCER_EPOCH
    assert coordinator.commit({"t-0": 2}, producer=PRODUCER).value == {partition("t-0"): E.INVALID_PRODUCER_EPOCH}
    coordinator.log.error = E.NONE
    coordinator.commit({"t-0": 1})
    assert coordinator.committed(require_stable=True) == {"t-0": 1}
    coordinator.core.on_transaction_completed(7, [0, 1, 2], True)
    coordinator.scheduler.tick()
    assert coordinator.committed() == {"t-0": 1}
