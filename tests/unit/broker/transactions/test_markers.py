"""Markers on their way to partition leaders."""

from types import SimpleNamespace
from typing import cast

import pytest

from broker.cluster.metadata_cache import MetadataCache
from broker.requests.context import BrokerContext
from broker.transactions.wiring import MetadataLeaders
from controller.zk import paths
from controller.zk.client import ZkClient
from controller.zk.payloads import ReplicaAssignment, TopicZnode, encode_topic
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from tests.simulation.zookeeper import ModelSession, ZooKeeperModel
from tests.support.transaction_coordinator import T0, T1, U0, Cluster, S
from timer.clock import ManualClock


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
    cluster.leaders.deleted.add(T1)
    cluster.end(producer, commit=False)
    cluster.advance(500)
    cluster.deliver_markers()
    assert cluster.state is S.PREPARE_ABORT
    cluster.leaders.leader[T0] = 1
    cluster.advance(100)
    cluster.deliver_markers()
    assert cluster.state is S.COMPLETE_ABORT  # type: ignore[comparison-overlap]


def test_partitions_of_which_nobody_has_told_yet_are_not_taken_for_deleted(cluster: Cluster) -> None:
    """After the loss of all brokers, the coordinator knows of its own partition before it knows of the others."""
    producer = cluster.begin(T0)
    cluster.end(producer, commit=True)
    cluster.leaders.leader.clear()
    cluster.restart(epoch=1)
    cluster.advance(500)
    cluster.deliver_markers()
    assert cluster.state is S.PREPARE_COMMIT
    cluster.leaders.leader[T0] = 2
    cluster.advance(100)
    cluster.deliver_markers()
    assert cluster.sent == [(2, T0, True)]
    assert cluster.state is S.COMPLETE_COMMIT  # type: ignore[comparison-overlap]


def test_who_has_a_leader_does_not_wait_for_the_question_whether_others_are_deleted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And an error that nobody expects there loses no marker."""
    producer = cluster.begin(T0, T1)
    cluster.leaders.leader[T0] = None
    cluster.marker_errors[T1] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    cluster.end(producer, commit=True)
    asked: list[int] = []

    def is_deleted(partition: TopicPartition) -> bool:
        cluster.deliver_markers()  # as their threads do meanwhile
        asked.append(len(cluster.sent))
        if len(asked) == 2:
            raise ValueError("planted")
        return False

    monkeypatch.setattr(cluster.leaders, "is_deleted", is_deleted)
    cluster.deliver_markers()
    cluster.advance(100)
    assert asked[0] == 1, "T1 had its second chance first"
    cluster.advance(100)
    cluster.leaders.leader[T0] = 1
    cluster.advance(100)
    cluster.deliver_markers()
    assert cluster.sent == [(2, T1, True), (1, T0, True)]
    assert cluster.state is S.COMPLETE_COMMIT


def test_only_what_zookeeper_does_not_have_is_deleted() -> None:
    session = ModelSession(ZooKeeperModel(ManualClock()))
    zk = ZkClient(session)
    zk.create_startup_paths()
    zk.create_recursive(paths.topic("t"), encode_topic(TopicZnode(None, {0: ReplicaAssignment((1,))})))
    leaders = MetadataLeaders(cast("BrokerContext", SimpleNamespace(metadata_cache=MetadataCache(1), zk=zk)))
    assert leaders.live_leader(T0) is None
    assert [leaders.is_deleted(each) for each in (T0, T1, U0)] == [False, True, True]
    zk.create_delete_topic("t")
    assert leaders.is_deleted(T0)
    session.close()
    assert not leaders.is_deleted(U0)


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
