"""Ids by partition: loading, writing and expiry."""

import pytest

from broker.transactions import records
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
