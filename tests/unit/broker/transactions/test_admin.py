"""Listing transactional ids."""

import pytest

from tests.support.transaction_coordinator import T0, Cluster, S


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_list_filters(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    cluster.advance(2000)
    listing = cluster.coordinator.admin.list_transactions
    assert [m.transactional_id for m in listing(None, frozenset(), -1)] == ["tx"]
    assert listing(frozenset({S.EMPTY}), frozenset(), -1) == []
    assert listing(None, frozenset({producer.producer_id + 1}), -1) == []
    assert len(listing(None, frozenset(), 1000)) == 1
    assert listing(None, frozenset(), 3000) == []
