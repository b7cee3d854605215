"""What clients are told of brokers around the first word of the controller."""

from __future__ import annotations

from dataclasses import fields

import pytest

from broker.cluster.metadata_cache import LiveBroker, MetadataCache, Node
from network.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
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


def update(*leaders: int) -> UpdateMetadataRequest:
    """Of a topic with so many partitions, by their leaders; replicas are all different lists, as from the wire."""
    states = [
        UpdateMetadataPartitionState(
            partition_index=number, leader=leader, leader_epoch=3, isr=[leader], replicas=[1, 2]
        )
        for number, leader in enumerate(leaders)
    ]
    topic = UpdateMetadataTopicState(topic_name="t", topic_id=b"t" * 16, partition_states=states)
    return UpdateMetadataRequest.decode(UpdateMetadataRequest(topic_states=[topic]).encode(8), 8)


def test_partitions_of_which_the_same_is_true_share_what_is_known() -> None:
    cache = MetadataCache(1)
    cache.update(update(*(1 + number % 2 for number in range(1000))), 8)
    known = cache.snapshot.topics["t"]
    assert [known[number].leader for number in (0, 1, 998, 999)] == [1, 2, 1, 2]
    assert known[0] == (1, 3, (1,), (1, 2), ())
    assert len({id(each) for each in known.values()}) == 2
    # Those that another update tells of, too.
    cache.update(update(2), 8)
    assert cache.snapshot.topics["t"][0] is known[1]
    assert cache.snapshot.topics["t"][1] is known[1]
