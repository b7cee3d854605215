"""What clients are told of brokers around the first word of the controller."""

from __future__ import annotations

from dataclasses import fields

import pytest

from broker.cluster.metadata_cache import LiveBroker, MetadataCache, Node
from network.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)

OWN = LiveBroker(1, {"PLAINTEXT": ("one", 9092)}, "rack")


def told(*brokers: int) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=2,
        live_brokers=[
            UpdateMetadataBroker(
                id=number, endpoints=[UpdateMetadataEndpoint(listener="PLAINTEXT", host=f"host-{number}", port=9092)]
            )
            for number in brokers
        ],
    )


def test_a_broker_names_itself_until_it_is_told_of_others() -> None:
    cache = MetadataCache(1)
    cache.begin_with(OWN)
    assert cache.snapshot.nodes("PLAINTEXT") == [Node(1, "one", 9092, "rack")]
    assert cache.snapshot.nodes("OTHER") == []
    cache.update(told(2, 3), 8)
    assert [node.id for node in cache.snapshot.nodes("PLAINTEXT")] == [2, 3]


@pytest.mark.parametrize("updates", [[], [(1,)], [(1, 2)], [(1, 2), (2, 3)]])
def test_there_is_one_view_of_the_live_brokers(updates: list[tuple[int, ...]]) -> None:
    """Whatever way a live broker is looked up, the answer is the same."""
    cache = MetadataCache(1)
    cache.begin_with(OWN)
    for brokers in updates:
        cache.update(told(*brokers), 8)
    snapshot = cache.snapshot
    live = sorted(snapshot.brokers)
    assert live == list(updates[-1] if updates else [1])
    assert [node.id for node in snapshot.nodes("PLAINTEXT")] == live
    assert [number for number in range(5) if cache.is_alive(number)] == live
    assert [number for number in range(5) if cache.broker_node(number, "PLAINTEXT")] == live
    # No second field of the snapshot holds brokers, so nothing can disagree with the first.
    holding = [each.name for each in fields(snapshot) if LiveBroker.__name__ in str(each.type)]
    assert holding == ["brokers"]


def test_what_has_been_told_stands() -> None:
    cache = MetadataCache(1)
    cache.update(told(1, 2), 8)
    cache.begin_with(OWN)
    assert [node.host for node in cache.snapshot.nodes("PLAINTEXT")] == ["host-1", "host-2"]
