"""Consumer groups with confluent-kafka, kafka-python and aiokafka, each member a process of its own."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest

from network.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from network.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from network.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from tests.clients.group_harness import Members, group_name, names, produce, wait_for
from tests.clients.offsets import committed_offsets, wait_committed
from tests.support.cluster import Cluster

LIBRARIES = ["confluent", "kafka-python", "aiokafka"]


def described(cluster: Cluster, group: str) -> DescribedGroup:
    with cluster.client() as client:
        found: DescribedGroup = client.call_coordinator(group, 0, DescribeGroupsRequest(groups=[group])).groups[0]
        return found


@pytest.mark.parametrize("library", LIBRARIES)
def test_members_come_and_go(
    library: str, cluster: Cluster, members: Members, create_topic: Callable[..., str]
) -> None:
    topic, group = create_topic(6), group_name()
    first = members.add(library, group, topic)
    members.wait_balanced([first], names(topic, 6))
    members.wait_values(produce(cluster, topic, 60, 6))
    second = members.add(library, group, topic)
    members.wait_balanced([first, second], names(topic, 6))
    # With the assignment settled, each record goes to exactly one of them.
    values = produce(cluster, topic, 120, 6)
    members.wait_values(values)
    assert set(members.counts(values).values()) == {1}
    second.leave()
    assert second.closed
    members.wait_balanced([first], names(topic, 6))
    values = produce(cluster, topic, 60, 6)
    members.wait_values(values)
    assert set(members.counts(values).values()) == {1}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_crashed_member_is_replaced_within_its_session(
    library: str, cluster: Cluster, members: Members, create_topic: Callable[..., str]
) -> None:
    topic, group = create_topic(4), group_name()
    first, second = (members.add(library, group, topic, session_timeout_ms=2_000) for _ in range(2))
    members.wait_balanced([first, second], names(topic, 4))
    second.kill()
    killed = time.monotonic()
    members.wait_balanced([first], names(topic, 4))
    assert time.monotonic() - killed < 30
    values = produce(cluster, topic, 40, 4)
    members.wait_values(values)


def test_three_libraries_in_one_group(cluster: Cluster, members: Members, create_topic: Callable[..., str]) -> None:
    topic, group = create_topic(9), group_name()
    mixed = [members.add(library, group, topic) for library in LIBRARIES]
    members.wait_balanced(mixed, names(topic, 9))
    values = produce(cluster, topic, 180, 9)
    members.wait_values(values)
    assert set(members.counts(values).values()) == {1}
    for member in mixed[:2]:
        member.leave()
    members.wait_balanced(mixed[2:], names(topic, 9))


def test_a_group_grows_to_many_members_and_shrinks(
    cluster: Cluster, members: Members, create_topic: Callable[..., str]
) -> None:
    topic, group = create_topic(12), group_name()
    crowd = [members.add(LIBRARIES[number % 3], group, topic) for number in range(8)]
    members.wait_balanced(crowd, names(topic, 12))
    values = produce(cluster, topic, 120, 12)
    members.wait_values(values)
    assert set(members.counts(values).values()) == {1}
    for member in crowd[3:]:
        member.process.terminate()
    members.wait_balanced(crowd[:3], names(topic, 12))


def test_twelve_members_of_three_libraries(
    cluster: Cluster, members: Members, create_topic: Callable[..., str]
) -> None:
    """They come all at once; then a third crashes while a third leaves."""
    topic, group = create_topic(24), group_name()
    mixed = [members.add(library, group, topic) for library in LIBRARIES * 4]
    members.wait_balanced(mixed, names(topic, 24), spread=0)
    values = produce(cluster, topic, 480, 24)
    members.wait_values(values)
    assert set(members.counts(values).values()) == {1}
    crashing, leaving, staying = mixed[:4], mixed[4:8], mixed[8:]
    for member in crashing:
        member.kill()
    for member in leaving:
        member.leave()
    members.wait_balanced(staying, names(topic, 24), spread=0)
    values = produce(cluster, topic, 240, 24)
    members.wait_values(values)
    assert set(members.counts(values).values()) == {1}


@pytest.mark.parametrize("library", ["confluent", "aiokafka"])
def test_a_static_member_restarts_without_a_rebalance(
    library: str, cluster: Cluster, members: Members, create_topic: Callable[..., str]
) -> None:
    topic, group = create_topic(4), group_name()
    options = {"session_timeout_ms": 20_000}
    stays = members.add(library, group, topic, instance_id="a", **options)
    members.wait_balanced([stays], names(topic, 4))
    goes = members.add(library, group, topic, instance_id="b", **options)
    members.wait_balanced([stays, goes], names(topic, 4))
    before, owned = stays.assignments, set(goes.owned)
    goes.kill()
    back = members.add(library, group, topic, instance_id="b", **options)
    wait_for(lambda: back.owned == owned, lambda: f"{back} gets {owned}")
    values = produce(cluster, topic, 40, 4)
    members.wait_values(values)
    assert stays.assignments == before
    assert stays.revoked.count((topic, 0)) <= 1


def test_cooperative_members_keep_what_they_need_not_give_up(
    cluster: Cluster, members: Members, create_topic: Callable[..., str]
) -> None:
    topic, group = create_topic(6), group_name()
    first = members.add("confluent", group, topic, strategy="cooperative-sticky")
    members.wait_balanced([first], names(topic, 6))
    second = members.add("confluent", group, topic, strategy="cooperative-sticky")
    members.wait_balanced([first, second], names(topic, 6))
    assert len(first.revoked) == 3
    values = produce(cluster, topic, 60, 6)
    members.wait_values(values)
    assert set(members.counts(values).values()) == {1}


def test_a_member_that_stops_polling_loses_its_partitions(
    cluster: Cluster, members: Members, create_topic: Callable[..., str]
) -> None:
    topic, group = create_topic(2), group_name()
    options = {"session_timeout_ms": 6_000, "max_poll_interval_ms": 8_000}
    first = members.add("confluent", group, topic, **options)
    stalling = members.add("confluent", group, topic, stall_after=1, **options)
    members.wait_balanced([first, stalling], names(topic, 2))
    produce(cluster, topic, 4, 2)
    wait_for(lambda: len(first.owned) == 2, lambda: f"{first} takes over")
    values = produce(cluster, topic, 20, 2)
    wait_for(lambda: {record[3] for record in first.records} >= set(values), lambda: f"{first} reads on")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_pattern_finds_topics_that_come_later(
    library: str, cluster: Cluster, members: Members, create_topic: Callable[..., str]
) -> None:
    prefix = f"topic-{uuid.uuid4().hex[:8]}"
    one = create_topic(2, f"{prefix}-1")
    member = members.add(library, group_name(), pattern=f"^{prefix}-.*")
    members.wait_balanced([member], names(one, 2))
    two = create_topic(2, f"{prefix}-2")
    members.wait_balanced([member], names(one, 2) | names(two, 2))


@pytest.mark.parametrize("library", LIBRARIES)
def test_new_partitions_are_assigned(
    library: str, cluster: Cluster, members: Members, create_topic: Callable[..., str]
) -> None:
    topic = create_topic(2)
    member = members.add(library, group_name(), topic)
    members.wait_balanced([member], names(topic, 2))
    grown = CreatePartitionsTopic(name=topic, count=4, assignments=None)
    with cluster.client() as client:
        client.call_controller(CreatePartitionsRequest(topics=[grown], timeout_ms=10_000, validate_only=False))
    members.wait_balanced([member], names(topic, 4))
    members.wait_values(produce(cluster, topic, 20, 4))


def test_a_deleted_topic_loses_its_offsets(
    cluster: Cluster, members: Members, create_topic: Callable[..., str]
) -> None:
    topic, group = create_topic(2), group_name()
    member = members.add("confluent", group, topic)
    members.wait_values(produce(cluster, topic, 10, 2))
    wait_committed(cluster, group, topic, 2, 5)
    member.leave()
    with cluster.client() as client:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], topic_names=[topic], timeout_ms=10_000)
        assert client.call_controller(request).responses[0].error_code == 0
    wait_for(lambda: committed_offsets(cluster, group) == {}, "the offsets are gone")


@pytest.mark.parametrize("library", LIBRARIES)
def test_offsets_resume_after_restarts_of_member_and_broker(
    library: str, cluster: Cluster, members: Members, create_topic: Callable[..., str]
) -> None:
    topic, group = create_topic(3), group_name()
    first = members.add(library, group, topic)
    old = produce(cluster, topic, 30, 3)
    members.wait_values(old)
    wait_committed(cluster, group, topic, 3, 10)
    first.leave()
    new = produce(cluster, topic, 30, 3)
    second = members.add(library, group, topic)
    members.wait_values(new)
    assert not {record[3] for record in second.records} & set(old)
    wait_committed(cluster, group, topic, 3, 20)
    # The broker, and with it the coordinator, goes away and comes back with all that was stored.
    members.restart(cluster)
    newest = produce(cluster, topic, 30, 3)
    members.wait_values(newest)
    wait_committed(cluster, group, topic, 3, 30)
    second.leave()
    third = members.add(library, group, topic)
    last = produce(cluster, topic, 30, 3)
    members.wait_values(last)
    assert not {record[3] for record in third.records} & set(old + new + newest)


def test_offsets_survive_a_killed_broker(cluster: Cluster, members: Members, create_topic: Callable[..., str]) -> None:
    topic, group = create_topic(3), group_name()
    member = members.add("confluent", group, topic)
    old = produce(cluster, topic, 30, 3)
    members.wait_values(old)
    wait_committed(cluster, group, topic, 3, 10)
    member.leave()
    cluster.brokers[0].kill()
    cluster.brokers[0].start()
    cluster.wait_ready()
    again = members.add("confluent", group, topic)
    new = produce(cluster, topic, 30, 3)
    members.wait_values(new)
    assert not {record[3] for record in again.records} & set(old)
    assert described(cluster, group).group_state == "Stable"
