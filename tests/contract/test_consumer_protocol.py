"""The consumer group protocol (KIP-848) on the wire: every answer as Apache Kafka 4.1.0 gives it in KRaft mode.

The four modules of this protocol take about two minutes together; they share a broker of each kind.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from network.client.connection import Connection
from network.protocol.errors import ErrorCode as E
from network.protocol.messages.api_versions import ApiVersionsRequest
from network.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from network.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.delete_groups import DeleteGroupsRequest
from network.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from network.protocol.messages.describe_groups import DescribeGroupsRequest
from network.protocol.messages.list_groups import ListGroupsRequest
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.cluster import Cluster
from tests.support.consumer_member import (
    RawMember,
    describe,
    encode_owned,
    groups_everywhere,
    new_group,
    settle,
    wait_assignable,
    wait_until,
)
from tests.support.consumer_protocol import OFFSETS_PARTITIONS

Topic = tuple[str, bytes]


@pytest.fixture
def group() -> str:
    return new_group()


@pytest.fixture
def make_topic(consumer_cluster: Cluster, connection: Connection) -> Callable[..., Topic]:
    """Creates a topic; returns its name and id."""

    def make(partitions: int, name: str | None = None) -> Topic:
        name = name or f"topic-{uuid.uuid4().hex[:10]}"
        wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        with consumer_cluster.client() as client:
            (result,) = client.call_controller(CreateTopicsRequest(topics=[wanted], timeout_ms=15_000)).topics
        assert result.error_code == 0, result.error_message

        def known() -> bytes | None:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
            (topic,) = connection.call(request, 12, 20_000).topics
            return topic.topic_id if not topic.error_code and len(topic.partitions) == partitions else None

        topic = name, wait_until(known, f"{name} in the metadata")
        wait_assignable(connection, groups_everywhere(OFFSETS_PARTITIONS), [name], partitions)
        return topic

    return make


@pytest.fixture
def topic(make_topic: Callable[..., Topic]) -> Topic:
    return make_topic(4)


@pytest.fixture
def new_member(connection: Connection, group: str) -> Callable[..., RawMember]:
    return lambda *topics, **options: RawMember(connection, group, list(topics) if topics else None, **options)


def owned(topic: Topic, *partitions: int) -> set[tuple[bytes, int]]:
    return {(topic[1], number) for number in partitions}


NewMember = Callable[..., RawMember]


# --- entering ---


def test_versions_are_advertised(connection: Connection) -> None:
    found = {
        key.api_key: (key.min_version, key.max_version) for key in connection.call(ApiVersionsRequest(), 0).api_keys
    }
    assert found[68] == (0, 1)
    assert found[69] == (0, 1)


def test_the_first_member_gets_everything(new_member: NewMember, topic: Topic) -> None:
    member = new_member(topic[0])
    response = member.join()
    assert response.member_id == member.member_id
    assert response.member_epoch == 1
    assert response.heartbeat_interval_ms == 300
    assert member.owned == owned(topic, 0, 1, 2, 3)
    again = member.beat()
    assert (again.member_epoch, again.assignment) == (1, None)
    assert member.full(1).assignment is not None


def test_version_0_lets_the_coordinator_make_the_id(new_member: NewMember, topic: Topic) -> None:
    member = new_member(topic[0], version=0, member_id="")
    member.join()
    assert len(member.member_id) == 22
    assert member.owned == owned(topic, 0, 1, 2, 3)


def test_a_member_may_subscribe_to_nothing_and_to_what_is_not_there_yet(
    new_member: NewMember, make_topic: Callable[..., Topic]
) -> None:
    name = f"later-{uuid.uuid4().hex[:8]}"
    idle, early = new_member(), new_member(name)
    assert idle.join().member_epoch == 1
    assignment = early.join().assignment
    assert assignment is not None
    assert assignment.topic_partitions == []
    made = make_topic(2, name)

    def given() -> bool:
        idle.beat()
        early.beat()
        return early.owned == owned(made, 0, 1)

    wait_until(given, "the new topic")
    assert idle.owned == set()


@pytest.mark.parametrize(
    "fields",
    [
        {"group_id": ""},
        {"group_id": "  "},
        {"member_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"topic_partitions": encode_owned({(bytes(16), 0)})},
        {"subscribed_topic_names": None},
        {"member_epoch": -3},
        {"member_epoch": -2},
        {"member_epoch": -1, "member_id": ""},
        {"member_epoch": 1, "member_id": ""},
    ],
    ids=str,
)
def test_requests_that_make_no_sense(connection: Connection, group: str, fields: dict) -> None:  # type: ignore[type-arg]
    request = ConsumerGroupHeartbeatRequest(
        **{
            "group_id": group,
            "member_id": "m",
            "member_epoch": 0,
            "rebalance_timeout_ms": 1_000,
            "subscribed_topic_names": ["t"],
            "topic_partitions": [],
            **fields,
        }
    )
    response = connection.call(request, 1)
    assert E.of(response.error_code) == E.INVALID_REQUEST
    assert response.error_message


def test_an_unknown_assignor(new_member: NewMember, topic: Topic) -> None:
    response = new_member(topic[0], assignor="best").full(0)
    assert response.error_code == E.UNSUPPORTED_ASSIGNOR


def test_an_invalid_regular_expression(new_member: NewMember) -> None:
    response = new_member(regex="to(pic").full(0)
    assert response.error_code == E.INVALID_REGULAR_EXPRESSION


# --- who is who ---


def test_unknown_groups_and_members(new_member: NewMember, topic: Topic) -> None:
    stranger = new_member(topic[0])
    assert stranger.send(3).error_code == E.GROUP_ID_NOT_FOUND
    assert stranger.leave().error_code == E.GROUP_ID_NOT_FOUND
    new_member(topic[0]).join()
    assert stranger.send(3).error_code == E.UNKNOWN_MEMBER_ID
    assert stranger.leave().error_code == E.UNKNOWN_MEMBER_ID


def test_wrong_epochs_are_fenced(new_member: NewMember, topic: Topic, make_topic: Callable[..., Topic]) -> None:
    member = new_member(topic[0])
    member.join()
    other = make_topic(1)
    member.send(1, subscribed_topic_names=[topic[0], other[0]])
    assert member.epoch == 2
    assert member.send(3).error_code == E.FENCED_MEMBER_EPOCH
    assert member.send(0 + 1).error_code == E.FENCED_MEMBER_EPOCH, "without what it owns"
    assert member.send(1, topic_partitions=encode_owned({(bytes(16), 9)})).error_code == E.FENCED_MEMBER_EPOCH
    # An answer got lost: what the member owns is a part of what it was given.
    response = member.send(1, topic_partitions=encode_owned(owned(topic, 0, 1)))
    assert (response.error_code, response.member_epoch) == (0, 2)


def test_joining_once_more_with_epoch_0(new_member: NewMember, topic: Topic) -> None:
    member = new_member(topic[0])
    member.join()
    response = member.full(0)
    assert (response.error_code, response.member_epoch) == (0, 1)
    assert member.owned == owned(topic, 0, 1, 2, 3)


# --- reconciliation ---


def test_partitions_move_in_three_steps(
    connection: Connection, new_member: NewMember, group: str, topic: Topic
) -> None:
    first, second = new_member(topic[0]), new_member(topic[0])
    first.join()
    assert second.join().member_epoch == 2
    assert second.owned == set()
    before = set(first.owned)
    told = first.beat()
    assert told.member_epoch == 1, "the epoch stays until the partitions are given up"
    assert len(first.owned) == 2
    kept = set(first.owned)
    assert describe(connection, group).group_state == "Reconciling"
    assert first.send(1, topic_partitions=encode_owned(before)).assignment is None, "not given up yet"
    assert second.beat().assignment is None
    first.owned = kept
    done = first.beat()
    assert (done.member_epoch, done.assignment) == (2, None)
    second.beat()
    assert second.owned == before - kept
    assert describe(connection, group).group_state == "Stable"


def test_who_leaves_makes_room(new_member: NewMember, topic: Topic) -> None:
    members = [new_member(topic[0]) for _ in range(3)]
    for member in members:
        member.join()
    settle(members, owned(topic, 0, 1, 2, 3))
    gone = members.pop()
    response = gone.leave()
    assert (response.error_code, response.member_id, response.member_epoch) == (0, gone.member_id, -1)
    settle(members, owned(topic, 0, 1, 2, 3))
    assert gone.send(gone.epoch).error_code == E.UNKNOWN_MEMBER_ID


def test_ranges(new_member: NewMember, topic: Topic, make_topic: Callable[..., Topic]) -> None:
    other = make_topic(4)
    members = [new_member(topic[0], other[0], assignor="range") for _ in range(2)]
    for member in members:
        member.join()
    settle(members, owned(topic, 0, 1, 2, 3) | owned(other, 0, 1, 2, 3))
    low = owned(topic, 0, 1) | owned(other, 0, 1)
    assert sorted([members[0].owned == low, members[1].owned == low]) == [False, True]


def test_five_members_and_a_hundred_partitions(new_member: NewMember, make_topic: Callable[..., Topic]) -> None:
    big = make_topic(100)
    members = [new_member(big[0]) for _ in range(5)]
    for member in members:
        member.join()
    settle(members, owned(big, *range(100)))
    members.pop(0).leave()
    settle(members, owned(big, *range(100)))


# --- time ---


def test_a_silent_member_is_removed(new_member: NewMember, topic: Topic) -> None:
    silent, other = new_member(topic[0]), new_member(topic[0])
    started = time.monotonic()
    silent.join()
    other.join()

    def alone() -> bool:
        other.beat()
        return other.owned == owned(topic, 0, 1, 2, 3)

    wait_until(alone, "the partitions of the silent member")
    assert time.monotonic() - started > 11
    assert silent.send(silent.epoch).error_code == E.UNKNOWN_MEMBER_ID


def test_who_does_not_give_partitions_up_in_time_is_removed(new_member: NewMember, topic: Topic) -> None:
    greedy, other = new_member(topic[0], rebalance_timeout_ms=1_500), new_member(topic[0])
    greedy.join()
    everything = encode_owned(greedy.owned)
    other.join()
    greedy.beat()

    def removed() -> bool:
        other.beat()
        return greedy.send(greedy.epoch, topic_partitions=everything).error_code == E.UNKNOWN_MEMBER_ID

    wait_until(removed, "the end of the rebalance timeout")

    def alone() -> bool:
        other.beat()
        return other.owned == owned(topic, 0, 1, 2, 3)

    wait_until(alone, "the partitions")


# --- static members ---


def test_a_static_member_comes_back_to_its_partitions(
    connection: Connection, new_member: NewMember, group: str, topic: Topic
) -> None:
    one, two = new_member(topic[0], instance_id="one"), new_member(topic[0], instance_id="two")
    one.join()
    two.join()
    settle([one, two], owned(topic, 0, 1, 2, 3))
    had, epoch = set(one.owned), one.epoch
    late = new_member(topic[0], instance_id="one")
    assert late.full(0).error_code == E.UNRELEASED_INSTANCE_ID
    gone = one.leave(-2)
    assert (gone.error_code, gone.member_epoch) == (0, -2)
    two.beat()
    assert len(two.owned) == 2, "the partitions are reserved"
    back = late.join()
    assert back.member_epoch == epoch
    assert late.owned == had
    assert one.send(epoch).error_code == E.FENCED_INSTANCE_ID
    assert one.leave(-2).error_code == E.FENCED_INSTANCE_ID
    two.beat()
    assert two.epoch == epoch
    assert new_member(instance_id="three").send(1).error_code == E.UNKNOWN_MEMBER_ID
    assert {member.member_id for member in describe(connection, group).members} == {late.member_id, two.member_id}


def test_a_static_member_that_left_for_a_while_has_its_session_only(new_member: NewMember, topic: Topic) -> None:
    one, two = new_member(topic[0], instance_id="one"), new_member(topic[0])
    one.join()
    two.join()
    settle([one, two], owned(topic, 0, 1, 2, 3))
    one.leave(-2)

    def alone() -> bool:
        two.beat()
        return two.owned == owned(topic, 0, 1, 2, 3)

    wait_until(alone, "the end of the session")


# --- changes of topics ---


def test_added_partitions(consumer_cluster: Cluster, new_member: NewMember, topic: Topic) -> None:
    member = new_member(topic[0])
    member.join()
    with consumer_cluster.client() as client:
        wanted = CreatePartitionsTopic(name=topic[0], count=6, assignments=None)
        (result,) = client.call_controller(CreatePartitionsRequest(topics=[wanted], timeout_ms=15_000)).results
    assert result.error_code == 0, result.error_message
    wait_until(lambda: member.beat() and len(member.owned) == 6, "the new partitions")
    assert member.epoch > 1


def test_a_deleted_topic(
    consumer_cluster: Cluster, new_member: NewMember, topic: Topic, make_topic: Callable[..., Topic]
) -> None:
    other = make_topic(2)
    member = new_member(topic[0], other[0])
    member.join()
    assert len(member.owned) == 6
    with consumer_cluster.client() as client:
        gone = DeleteTopicState(name=other[0])
        client.call_controller(DeleteTopicsRequest(topics=[gone], timeout_ms=15_000))
    wait_until(lambda: member.beat() and member.owned == owned(topic, 0, 1, 2, 3), "the end of the topic")


def test_regular_expressions(
    connection: Connection, group: str, new_member: NewMember, make_topic: Callable[..., Topic]
) -> None:
    prefix = f"re-{uuid.uuid4().hex[:8]}"
    first = make_topic(2, f"{prefix}-1")
    make_topic(2, f"x-{prefix}-1")
    member = new_member(regex=f"{prefix}-[0-9]+")
    member.join()
    wait_until(lambda: member.beat() and member.owned == owned(first, 0, 1), "the matching topic")
    (shown,) = describe(connection, group).members
    assert (shown.subscribed_topic_regex, shown.subscribed_topic_names) == (member.regex, [])
    # Topics by name in the place of the expression.
    other = make_topic(1)
    assert member.send(member.epoch, subscribed_topic_regex="", subscribed_topic_names=[other[0]]).error_code == 0
    wait_until(lambda: member.beat() and member.owned == owned(other, 0), "the topic by name")


# --- describing and deleting ---


def test_describe(connection: Connection, new_member: NewMember, group: str, topic: Topic) -> None:
    assert describe(connection, group).error_code == E.GROUP_ID_NOT_FOUND
    member = new_member(topic[0], instance_id="i")
    member.join(rack_id="r")
    found = describe(connection, group)
    assert (found.error_code, found.group_state, found.assignor_name) == (0, "Stable", "uniform")
    assert (found.group_epoch, found.assignment_epoch) == (1, 1)
    (shown,) = found.members
    assert (shown.member_id, shown.instance_id, shown.rack_id) == (member.member_id, "i", "r")
    assert (shown.member_epoch, shown.client_id, shown.client_host) == (1, "contract", "/127.0.0.1")
    assert (shown.subscribed_topic_names, shown.member_type) == ([topic[0]], 1)
    for assignment in (shown.assignment, shown.target_assignment):
        (given,) = assignment.topic_partitions
        assert (given.topic_id, given.topic_name, sorted(given.partitions)) == (topic[1], topic[0], [0, 1, 2, 3])
    assert found.authorized_operations == -2147483648
    member.leave()
    assert describe(connection, group).group_state == "Empty"


def test_list_describe_and_delete(connection: Connection, new_member: NewMember, group: str, topic: Topic) -> None:
    member = new_member(topic[0])
    member.join()

    def listed(**filters: Any) -> list[tuple[str, str, str]]:
        groups = connection.call(ListGroupsRequest(**filters), 5).groups
        return [(g.protocol_type, g.group_type, g.group_state) for g in groups if g.group_id == group]

    assert listed() == [("consumer", "consumer", "Stable")]
    assert listed(types_filter=["Consumer"]) == listed(states_filter=["stable"]) == listed()
    assert listed(types_filter=["classic"]) == listed(states_filter=["Empty"]) == []
    (shown,) = connection.call(DescribeGroupsRequest(groups=[group]), 5).groups
    assert (shown.error_code, shown.group_state, shown.members) == (0, "Dead", [])

    def delete() -> E:
        return E.of(connection.call(DeleteGroupsRequest(groups_names=[group]), 2).results[0].error_code)

    assert delete() == E.NON_EMPTY_GROUP
    member.leave()
    assert delete() == E.NONE
    assert delete() == E.GROUP_ID_NOT_FOUND
    assert describe(connection, group).error_code == E.GROUP_ID_NOT_FOUND
    assert listed() == []
