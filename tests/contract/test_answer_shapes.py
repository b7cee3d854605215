"""Requests that name one thing twice, in two ways, or beside what does not exist: answers shaped as Apache Kafka's.

Each request goes to a broker of each kind; names, error codes and order of the answers are compared. Where Kafka's
order comes out of a hash table the order is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from network.protocol.fields import Field
from network.protocol.message import Struct
from network.protocol.messages import offset_commit
from network.protocol.messages.find_coordinator import FindCoordinatorRequest
from network.protocol.messages.init_producer_id import InitProducerIdRequest
from network.protocol.messages.metadata import MetadataRequest
from network.protocol.uuids import ZERO_UUID
from tests.support import wire
from tests.support.cluster import Cluster, Kind, running_cluster
from tests.support.consumer_member import wait_until
from tests.support.shape_cases import CASES, Case, World

# What says which entry an answer belongs to, and how it went.
SHOWN = {
    "name", "topic", "topic_name", "group_id", "transactional_id", "key", "partition_index", "partition",
    "partition_id", "index", "partition_error_code", "error_code", "low_watermark", "committed_offset",
    "unknown_state_filters", "resource_type", "resource_name", "member_id", "group_instance_id", "feature",
}  # fmt: skip


@pytest.fixture(scope="module")
def worlds(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Kind, World]]:
    kinds: list[Kind] = ["kafka", "odradek"]
    with ExitStack() as stack:
        made = {}
        for kind in kinds:
            directory = tmp_path_factory.mktemp(f"shapes-{kind}")
            cluster = stack.enter_context(running_cluster([kind], directory, f"{zookeeper}/shapes-{kind}"))
            made[kind] = _furnish(cluster)
        yield made


def _furnish(cluster: Cluster) -> World:
    (broker,) = cluster.brokers
    gone = [f"gone-{name}" for name in ("a", "b", "c", "d", *range(6))]
    for name in ("one", "two", *gone):
        wire.create_topic(cluster, name, partitions=2 if name == "two" else 1)
    topics = wire.call(broker, MetadataRequest(topics=None), 12).topics
    asked = InitProducerIdRequest(
        transactional_id="tx", transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    part = offset_commit.OffsetCommitRequestPartition(partition_index=1, committed_offset=5, committed_metadata="m")
    topic = offset_commit.OffsetCommitRequestTopic(name="two", partitions=[part])
    committed = offset_commit.OffsetCommitRequest(group_id="group", topics=[topic])

    def commits() -> bool:
        wire.call(broker, FindCoordinatorRequest(coordinator_keys=["group"], key_type=0), 4)
        return bool(wire.call(broker, committed, 8).topics[0].partitions[0].error_code == 0)

    def begins() -> bool:
        wire.call(broker, FindCoordinatorRequest(coordinator_keys=["tx"], key_type=1), 4)
        return bool(wire.call(broker, asked, 4).error_code == 0)

    wait_until(commits, "a group coordinator")
    wait_until(begins, "a transaction coordinator")
    answer = wire.call(broker, asked, 4)
    return World(broker, {topic.name: topic.topic_id for topic in topics}, (answer.producer_id, answer.producer_epoch))


def _holds_structs(field: Field) -> bool:
    return field.element is not None and field.element.struct is not None


def shape(value: Any, ordered: bool) -> Any:
    """What an answer says of which entry; ids only as far as they are there."""
    if isinstance(value, Struct):
        found = {
            field.name: shape(getattr(value, field.name), ordered)
            for field in value.FIELDS
            if field.name in SHOWN
            or (field.name != "configs" and field.element is not None and field.element.struct is not None)
        }
        if hasattr(value, "topic_id"):
            found["has id"] = value.topic_id != ZERO_UUID
        return found
    if isinstance(value, list):
        items = [shape(each, ordered) for each in value]
        return items if ordered else sorted(items, key=str)
    return value


@pytest.mark.parametrize(
    ("asked", "version"),
    [(each, version) for each in CASES for version in each.versions],
    ids=[f"{each.name}-v{version}" for each in CASES for version in each.versions],
)
def test_answers_are_shaped_as_those_of_apache_kafka(worlds: dict[Kind, World], asked: Case, version: int) -> None:
    found = {
        kind: shape(wire.call(world.broker, asked.make(world, version), version), asked.ordered)
        for kind, world in worlds.items()
    }
    assert found["odradek"] == found["kafka"]
