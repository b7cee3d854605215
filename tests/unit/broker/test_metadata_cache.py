"""What clients are told of brokers around the first word of the controller."""

from __future__ import annotations

from broker.metadata_cache import LiveBroker, MetadataCache, Node
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
    # Nothing is placed on it before the controller knows it.
    assert not cache.snapshot.brokers
    assert not cache.is_alive(1)

    cache.update(told(2, 3), 8)
    assert [node.id for node in cache.snapshot.nodes("PLAINTEXT")] == [2, 3]


def test_what_has_been_told_stands() -> None:
    cache = MetadataCache(1)
    cache.update(told(1, 2), 8)
    cache.begin_with(OWN)
    assert [node.host for node in cache.snapshot.nodes("PLAINTEXT")] == ["host-1", "host-2"]
