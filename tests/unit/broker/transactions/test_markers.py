"""Markers on their way to partition leaders."""

import pytest

from network.protocol.errors import ErrorCode
from tests.support.transaction_coordinator import T0, T1, U0, Cluster, S


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_commit_writes_markers_to_all_leaders_then_completes(cluster: Cluster) -> None:
    producer = cluster.begin(T0, T1)
    assert cluster.add(producer, U0) is ErrorCode.NONE
    assert cluster.end(producer, commit=True) is ErrorCode.NONE
    assert cluster.end(producer, commit=True) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert cluster.add(producer, T0) is ErrorCode.CONCURRENT_TRANSACTIONS
    cluster.deliver_markers()
    assert sorted(cluster.sent) == [(1, T0, True), (1, U0, True), (2, T1, True)]
    assert cluster.state is S.COMPLETE_COMMIT
    assert cluster.stored_states() == [S.EMPTY, S.ONGOING, S.ONGOING, S.PREPARE_COMMIT, S.COMPLETE_COMMIT]
    assert cluster.end(producer, commit=True) is ErrorCode.NONE
    assert cluster.end(producer, commit=False) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("failure", [ErrorCode.NOT_LEADER_OR_FOLLOWER, OSError("reset"), ErrorCode.KAFKA_STORAGE_ERROR])
def test_failed_markers_go_to_the_current_leader(cluster: Cluster, failure: ErrorCode | OSError) -> None:
    producer = cluster.begin(T0)
    cluster.marker_errors[T0] = [failure]
    cluster.end(producer, commit=True)
    cluster.deliver_markers()
    assert cluster.state is S.PREPARE_COMMIT
    cluster.leaders.leader[T0] = 2
    cluster.advance(100)
    cluster.deliver_markers()
    assert cluster.sent == [(2, T0, True)]
    assert cluster.state is S.COMPLETE_COMMIT  # type: ignore[comparison-overlap]


def test_markers_survive_an_error_that_nobody_expects(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    cluster.marker_errors[T0] = [ValueError("planted")]
    cluster.end(producer, commit=True)
    with pytest.raises(ValueError, match="planted"):
        cluster.deliver_markers()
    cluster.advance(100)
    cluster.deliver_markers()
    assert cluster.sent == [(1, T0, True)]
    assert cluster.state is S.COMPLETE_COMMIT


def test_partitions_without_leader_wait_and_deleted_ones_are_done(cluster: Cluster) -> None:
    producer = cluster.begin(T0, T1)
    cluster.leaders.leader[T0] = None
    del cluster.leaders.leader[T1]
    cluster.end(producer, commit=False)
    cluster.advance(500)
    cluster.deliver_markers()
    assert cluster.state is S.PREPARE_ABORT
    cluster.leaders.leader[T0] = 1
    cluster.advance(100)
    cluster.deliver_markers()
    assert cluster.state is S.COMPLETE_ABORT  # type: ignore[comparison-overlap]


def test_markers_superseded_by_a_newer_owner_are_dropped(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    cluster.marker_errors[T0] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    cluster.end(producer, commit=True)
    cluster.deliver_markers()
    cluster.advance(1000)
    cluster.deliver_markers()
    cluster.advance(60_000)
    cluster.deliver_markers()
    assert cluster.sent == []


def test_a_complete_record_that_finds_no_replicas_is_stored_later(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    cluster.end(producer, commit=True)
    cluster.log.errors = [ErrorCode.NOT_ENOUGH_REPLICAS]
    cluster.deliver_markers()
    assert cluster.state is S.PREPARE_COMMIT
    assert cluster.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    cluster.advance(100)
    assert cluster.state is S.COMPLETE_COMMIT  # type: ignore[comparison-overlap]
