"""The assignors keep what they promise for any members and topics."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.groups.consumer.assignors import ASSIGNORS, configured
from broker.groups.consumer.assignors.range import assign_range
from broker.groups.consumer.assignors.spec import NO_PARTITIONS, Assignor, AssignorMember, Partitions, TopicIdPartition
from broker.groups.consumer.assignors.uniform import assign_uniform

TOPICS = [bytes([number]) * 16 for number in range(1, 6)]
T, U, V = TOPICS[:3]
Counts = dict[bytes, int]
Members = dict[str, AssignorMember]


def partitions(topic: bytes, *numbers: int) -> Partitions:
    return frozenset(TopicIdPartition(topic, number) for number in numbers)


def members_of(topics: dict[str, set[bytes]], current: dict[str, Partitions] | None = None) -> Members:
    current = current or {}
    return {name: AssignorMember(frozenset(of), current.get(name, NO_PARTITIONS)) for name, of in topics.items()}


def after(members: Members, assigned: dict[str, Partitions], without: str | None = None) -> Members:
    """The members with what they were assigned, but one."""
    return {
        name: AssignorMember(member.topics, assigned.get(name, NO_PARTITIONS), member.instance_id)
        for name, member in members.items()
        if name != without
    }


@st.composite
def groups(draw: st.DrawFn, same: bool = False) -> tuple[Members, Counts]:
    counts = {topic: draw(st.integers(0, 7)) for topic in TOPICS}
    names = draw(st.lists(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=7, unique=True))
    subscription = st.frozensets(st.sampled_from(TOPICS), max_size=5)
    common = draw(subscription)
    known = [TopicIdPartition(topic, number) for topic in TOPICS for number in range(8)]
    owner = {each: draw(st.sampled_from([None, *names])) for each in draw(st.sets(st.sampled_from(known), max_size=12))}
    return {
        name: AssignorMember(
            common if same else draw(subscription),
            frozenset(each for each, held_by in owner.items() if held_by == name),
            draw(st.none() | st.just(f"i-{name}")),
        )
        for name in names
    }, counts


def check_valid(members: Members, counts: Counts, assigned: dict[str, Partitions]) -> None:
    """Each partition with a subscriber has one owner, who subscribes to it; nothing else is assigned."""
    assert assigned.keys() == members.keys()
    wanted = {
        TopicIdPartition(topic, number)
        for member in members.values()
        for topic in member.topics
        for number in range(counts[topic])
    }
    given_out = [each for owned in assigned.values() for each in owned]
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == wanted
    for name, owned in assigned.items():
        assert {each.topic_id for each in owned} <= members[name].topics


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=ASSIGNORS.keys())
@given(group=groups())
@settings(max_examples=60, deadline=None)
def test_every_partition_goes_to_one_subscriber(assignor: Assignor, group: tuple[Members, Counts]) -> None:
    check_valid(*group, assignor(*group))


@given(group=groups(same=True))
@settings(max_examples=40, deadline=None)
def test_uniform_is_even_for_members_of_one_subscription(group: tuple[Members, Counts]) -> None:
    sizes = [len(owned) for owned in assign_uniform(*group).values()]
    assert max(sizes) - min(sizes) <= 1


@given(group=groups())
@settings(max_examples=40, deadline=None)
def test_uniform_leaves_no_move_that_would_even_it_out(group: tuple[Members, Counts]) -> None:
    members, _ = group
    assigned = assign_uniform(*group)
    for name, owned in assigned.items():
        for other, member in members.items():
            if len(owned) - len(assigned[other]) >= 2:
                assert not {each.topic_id for each in owned} & member.topics, (name, other)


@given(group=groups())
@settings(max_examples=40, deadline=None)
def test_uniform_changes_nothing_when_nothing_changed(group: tuple[Members, Counts]) -> None:
    members, counts = group
    assigned = assign_uniform(members, counts)
    assert assign_uniform(after(members, assigned), counts) == assigned


@given(group=groups(same=True), data=st.data())
@settings(max_examples=40, deadline=None)
def test_uniform_moves_as_few_as_can_be_when_a_member_goes(group: tuple[Members, Counts], data: st.DataObject) -> None:
    members, counts = group
    if len(members) < 2:
        return
    assigned = assign_uniform(members, counts)
    gone = data.draw(st.sampled_from(sorted(members)))
    again = assign_uniform(after(members, assigned, without=gone), counts)
    assert all(assigned[name] <= owned for name, owned in again.items())


def test_uniform_gives_a_new_member_only_its_share() -> None:
    before = assign_uniform(members_of({"a": {T, U}, "b": {T, U}}), {T: 4, U: 5})
    again = assign_uniform(members_of({"a": {T, U}, "b": {T, U}, "c": {T, U}}, before), {T: 4, U: 5})
    assert [len(again[name]) for name in "abc"] == [3, 3, 3]
    assert again["a"] < before["a"]
    assert again["b"] < before["b"]


def test_uniform_does_not_give_twice_what_two_members_claim() -> None:
    claimed = partitions(T, 0, 1)
    assigned = assign_uniform(members_of({"a": {T}, "b": {T}}, {"a": claimed, "b": claimed}), {T: 2})
    check_valid(members_of({"a": {T}, "b": {T}}), {T: 2}, assigned)


def test_uniform_balances_members_that_want_different_topics() -> None:
    members = members_of({"a": {T, U}, "b": {U}}, {"a": partitions(T, 0, 1) | partitions(U, 0, 1)})
    assigned = assign_uniform(members, {T: 2, U: 2})
    assert assigned == {"a": partitions(T, 0, 1), "b": partitions(U, 0, 1)}


def test_range_gives_contiguous_ranges_and_the_first_members_one_more() -> None:
    assigned = assign_range(members_of({"b": {T, U}, "a": {T, U}, "c": {T, U}}), {T: 7, U: 2})
    assert assigned["a"] == partitions(T, 0, 1, 2) | partitions(U, 0)
    assert assigned["b"] == partitions(T, 3, 4) | partitions(U, 1)
    assert assigned["c"] == partitions(T, 5, 6)


def test_range_orders_static_members_first_by_instance() -> None:
    members = {
        "a": AssignorMember(frozenset({T})),
        "z": AssignorMember(frozenset({T}), instance_id="2"),
        "y": AssignorMember(frozenset({T}), instance_id="1"),
    }
    assigned = assign_range(members, {T: 3})
    assert (assigned["y"], assigned["z"], assigned["a"]) == tuple(partitions(T, number) for number in range(3))


def test_range_counts_only_subscribers_of_a_topic() -> None:
    assigned = assign_range(members_of({"a": {T, V}, "b": {V}}), {T: 2, V: 2})
    assert assigned == {"a": partitions(T, 0, 1) | partitions(V, 0), "b": partitions(V, 1)}


def test_a_group_without_members_gets_nothing() -> None:
    assert assign_uniform({}, {}) == {}
    assert assign_range({}, {}) == {}


def test_assignors_are_configured_by_name_or_by_kafkas_class() -> None:
    package = "org.apache.kafka.coordinator.group.assignor"
    assert list(configured([f"{package}.RangeAssignor", "uniform"])) == ["range", "uniform"]
    for names in ([], ["com.example.Own"]):
        with pytest.raises(ValueError, match=r"group\.consumer\.assignors"):
            configured(names)
