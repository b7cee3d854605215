"""Ids by partition: loading, writing and expiry."""

import pytest

from broker.transactions import records
from broker.transactions.coordinator import COMMIT_CHECK_MS, MAX_COMMIT_CHECK_MS
from network.protocol.errors import ErrorCode
from tests.support.transaction_coordinator import T0, Cluster, S


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_an_append_that_ends_after_the_partition_moved_is_not_coordinator(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    cluster.log.hold()
    answers: list[ErrorCode] = []
    cluster.coordinator.end_transaction("tx", producer, True, answers.append)
    cluster.coordinator.on_resignation(0, 1)
    cluster.log.acknowledge()
    assert answers == [ErrorCode.NOT_COORDINATOR]
    assert cluster.init().error is ErrorCode.NOT_COORDINATOR


def test_loading_answers_load_in_progress(cluster: Cluster) -> None:
    cluster.coordinator.store.begin_load(0, 1)
    assert cluster.init().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert cluster.coordinator.store.load(0, 1) == []
    assert cluster.init().error is ErrorCode.NONE


def test_an_overtaken_load_changes_nothing(cluster: Cluster) -> None:
    cluster.init()
    cluster.coordinator.store.begin_load(0, 1)
    cluster.coordinator.store.begin_load(0, 2)
    assert cluster.coordinator.store.load(0, 1) == []
    assert cluster.init().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.coordinator.on_resignation(0, 1)
    assert cluster.init().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_unused_ids_are_forgotten_with_a_tombstone(cluster: Cluster) -> None:
    cluster.init()
    cluster.clock.advance(604_800_000)
    cluster.coordinator.store.expire_ids(604_800_000)
    assert cluster.log.entries()[-1] == (records.encode_key("tx"), None)
    assert cluster.coordinator.store.lookup("tx")[1] is None


def test_an_id_whose_tombstone_was_not_stored_stays_usable(cluster: Cluster) -> None:
    cluster.init()
    cluster.clock.advance(604_800_000)
    cluster.log.errors = [ErrorCode.NOT_ENOUGH_REPLICAS]
    cluster.coordinator.store.expire_ids(604_800_000)
    assert cluster.state is S.EMPTY
    assert cluster.init().error is ErrorCode.NONE


def test_nothing_is_answered_from_records_that_later_leaders_may_not_have(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    cluster.log.committed = False
    cluster.restart(1)
    cluster.advance(1_000)
    assert cluster.add(producer, T0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.log.committed = True
    cluster.advance(MAX_COMMIT_CHECK_MS)
    assert cluster.add(producer, T0) is ErrorCode.NONE


def test_no_markers_are_sent_for_an_end_that_later_leaders_may_not_have(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    assert cluster.end(producer, True) is ErrorCode.NONE
    cluster.log.committed = False
    cluster.restart(1)
    cluster.advance(1_000)
    cluster.deliver_markers()
    assert cluster.sent == []
    cluster.log.committed = True
    cluster.advance(MAX_COMMIT_CHECK_MS)
    cluster.deliver_markers()
    assert cluster.sent == [(1, T0, True)]


def test_a_load_that_waits_ends_with_the_leadership(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def is_committed(partition: int) -> bool:
        looks.append(partition)
        return False

    monkeypatch.setattr(cluster.log, "is_committed", is_committed)
    cluster.restart(1)
    cluster.advance(10_000)
    assert 0 < len(looks) < 30, "it looks less and less often"
    cluster.coordinator.on_resignation(0, 2)
    looks.clear()
    cluster.advance(10_000)
    assert looks == []
    assert cluster.init().error is ErrorCode.NOT_COORDINATOR


def test_a_load_that_waits_goes_on_at_the_newest_epoch_alone(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    cluster.log.committed = False
    cluster.restart(1)
    cluster.coordinator.on_election(0, 2)
    cluster.advance(100)
    cluster.log.committed = True
    cluster.advance(1_000)
    assert cluster.coordinator.store.lookup("tx")[0] == 2
    assert cluster.add(producer, T0) is ErrorCode.NONE


def test_what_is_written_while_it_is_read_counts(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A late write of this broker's epoch before."""
    committed = iter([True, False, True, True])
    monkeypatch.setattr(cluster.log, "is_committed", lambda partition: next(committed))
    cluster.restart(1)
    assert cluster.init().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.advance(COMMIT_CHECK_MS)
    assert cluster.init().error is ErrorCode.NONE
