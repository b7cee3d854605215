"""The group APIs on the wire: every answer as Apache Kafka gives it, errors included."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from network.client.connection import Connection
from network.protocol.errors import ErrorCode as E
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.delete_groups import DeleteGroupsRequest
from network.protocol.messages.describe_groups import DescribeGroupsRequest
from network.protocol.messages.find_coordinator import FindCoordinatorRequest
from network.protocol.messages.heartbeat import HeartbeatRequest
from network.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from network.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from network.protocol.messages.list_groups import ListGroupsRequest
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from network.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from network.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from network.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from network.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.cluster import CLOCK, HOST, Cluster
from tests.support.groups import subscription

SUBSCRIPTION = subscription("subscribed")


class Client:
    """One connection; `start` sends from a thread, for answers that wait."""

    def __init__(self, cluster: Cluster, client_id: str = "contract") -> None:
        self.connection = Connection(HOST, cluster.brokers[0].port, client_id, CLOCK)
        self._pool = ThreadPoolExecutor(1)

    def call(self, message: Any, version: int) -> Any:
        return self.connection.call(message, version, 20_000)

    def start(self, message: Any, version: int) -> Future[Any]:
        return self._pool.submit(self.call, message, version)

    def close(self) -> None:
        self.connection.close()
        self._pool.shutdown(wait=False)


@pytest.fixture
def new_client(cluster: Cluster) -> Iterator[Callable[..., Client]]:
    made: list[Client] = []

    def make(client_id: str = "contract") -> Client:
        made.append(Client(cluster, client_id))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(new_client: Callable[..., Client]) -> Client:
    return new_client()


@pytest.fixture(scope="module")
def ready(cluster: Cluster) -> Cluster:
    """The offsets topic exists and is loaded, and topics `one` (2 partitions) and `subscribed` are there."""
    topics = [
        CreatableTopic(name="one", num_partitions=2, replication_factor=1),
        CreatableTopic(name="subscribed", num_partitions=1, replication_factor=1),
    ]
    with cluster.client() as client:
        client.call_controller(CreateTopicsRequest(topics=topics, timeout_ms=15_000))
        client.coordinator("any")
        end = time.monotonic() + 60
        while any(
            client.call_coordinator(f"warm-{n}", 0, DescribeGroupsRequest(groups=[f"warm-{n}"])).groups[0].error_code
            for n in range(100)
        ):
            assert time.monotonic() < end
            time.sleep(0.2)
    return cluster


@pytest.fixture
def group(ready: Cluster) -> str:
    return f"group-{uuid.uuid4().hex[:10]}"


def join(group: str, member_id: str = "", **options: Any) -> JoinGroupRequest:
    protocols = options.pop("protocols", [("range", SUBSCRIPTION)])
    return JoinGroupRequest(
        **{
            "group_id": group,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 15_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
            **options,
        }
    )


def sync(group: str, member: Any, assignment: dict[str, bytes] | None = None, **options: Any) -> SyncGroupRequest:
    return SyncGroupRequest(
        **{
            "group_id": group,
            "generation_id": member.generation_id,
            "member_id": member.member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [
                SyncGroupRequestAssignment(member_id=name, assignment=data) for name, data in (assignment or {}).items()
            ],
            **options,
        }
    )


def commit(group: str, offsets: dict[tuple[str, int], int], metadata: str | None = "", **options: Any) -> Any:
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=metadata
                    )
                ],
            )
            for (topic, index), offset in offsets.items()
        ],
        **options,
    )


def codes(answer: Any) -> dict[tuple[str, int], E]:
    return {
        (topic.name, partition.partition_index): E.of(partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    }


def alone(client: Client, group: str, version: int = 9, **options: Any) -> Any:
    """Join as the only member and take the assignment `all`."""
    answer = client.call(join(group, **options), version)
    if answer.error_code == E.MEMBER_ID_REQUIRED:
        answer = client.call(join(group, answer.member_id, **options), version)
    assert answer.error_code == 0
    instance = {"group_instance_id": options["group_instance_id"]} if "group_instance_id" in options else {}
    synced = client.call(sync(group, answer, {answer.member_id: b"all"}, **instance), 5)
    assert (synced.error_code, bytes(synced.assignment)) == (0, b"all")
    return answer


def heartbeat(client: Client, group: str, member: Any, version: int = 4, **options: Any) -> E:
    request = HeartbeatRequest(
        **{"group_id": group, "generation_id": member.generation_id, "member_id": member.member_id, **options}
    )
    return E.of(client.call(request, version).error_code)


@pytest.mark.parametrize("version", range(10))
def test_every_version_of_join(version: int, client: Client, group: str) -> None:
    answer = client.call(join(group), version)
    if version >= 4:
        assert (answer.error_code, answer.generation_id, answer.leader) == (E.MEMBER_ID_REQUIRED, -1, "")
        assert answer.protocol_name in (None, "")
        assert answer.member_id.startswith("contract-")
        answer = client.call(join(group, answer.member_id), version)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.leader == answer.member_id
    assert [(row.member_id, bytes(row.metadata)) for row in answer.members] == [(answer.member_id, SUBSCRIPTION)]
    if version >= 7:
        assert answer.protocol_type == "consumer"
    assert answer.skip_assignment is False


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"session_timeout_ms": 5_999}, E.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, E.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, E.UNKNOWN_MEMBER_ID),
        ({"group": ""}, E.INVALID_GROUP_ID),
        ({"protocols": []}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, E.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
@pytest.mark.parametrize("version", [3, 5, 9])
def test_joins_that_are_refused(options: dict[str, Any], error: E, version: int, client: Client, group: str) -> None:
    answer = client.call(
        join(options.get("group", group), **{k: v for k, v in options.items() if k != "group"}), version
    )
    assert (E.of(answer.error_code), answer.generation_id, answer.leader, answer.members) == (error, -1, "", [])
    assert answer.member_id == options.get("member_id", "")
    assert answer.protocol_name == (None if version >= 7 else "")


def test_a_member_id_that_is_known_elsewhere(client: Client, group: str) -> None:
    alone(client, group)
    answer = client.call(join(group, "nobody"), 9)
    assert (E.of(answer.error_code), answer.member_id) == (E.UNKNOWN_MEMBER_ID, "nobody")
    assert E.of(client.call(join(group, protocol_type="connect"), 9).error_code) is E.INCONSISTENT_GROUP_PROTOCOL
    assert E.of(client.call(join(group, protocols=[("x", b"")]), 9).error_code) is E.INCONSISTENT_GROUP_PROTOCOL


def test_a_rebalance_timeout_of_nothing_leaves_no_time_to_sync(client: Client, group: str) -> None:
    # kafkajs joins so when it is not told one. The session, 10 s, is not what ends.
    refused = client.call(join(group, rebalance_timeout_ms=0), 5)
    member = client.call(join(group, refused.member_id, rebalance_timeout_ms=0), 5)
    assert (member.error_code, member.generation_id) == (0, 1)
    deadline = time.monotonic() + 5
    while heartbeat(client, group, member) is not E.UNKNOWN_MEMBER_ID:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert E.of(client.call(sync(group, member), 3).error_code) is E.UNKNOWN_MEMBER_ID


def test_offsets_of_a_transaction_that_is_not_there(client: Client, group: str) -> None:
    topic = TxnOffsetCommitRequestTopic(
        name="one", partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    )
    request = TxnOffsetCommitRequest(
        transactional_id="not there", group_id=group, producer_id=999, producer_epoch=999, topics=[topic]
    )
    # The coordinator of transactions is asked, and is there a while after somebody has looked for it.
    client.call(FindCoordinatorRequest(key="not there", key_type=1), 3)
    early = (E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR)
    deadline = time.monotonic() + 30
    while (answer := codes(client.call(request, 3))[("one", 0)]) in early:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert answer is E.INVALID_PRODUCER_ID_MAPPING


def test_two_members(client: Client, new_client: Callable[..., Client], group: str) -> None:
    first = alone(client, group)
    other = new_client("other")
    refused = other.call(join(group), 9)
    waiting = other.start(join(group, refused.member_id), 9)
    deadline = time.monotonic() + 30
    while heartbeat(client, group, first) is not E.REBALANCE_IN_PROGRESS:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    # Commits go on while the group prepares, in the old generation.
    committed = client.call(
        commit(group, {("one", 0): 5}, generation_id_or_member_epoch=1, member_id=first.member_id), 9
    )
    assert codes(committed) == {("one", 0): E.NONE}
    leader = client.call(join(group, first.member_id), 9)
    follower = waiting.result(20)
    assert (leader.generation_id, follower.generation_id, follower.members) == (2, 2, [])
    assert follower.leader == leader.member_id == first.member_id
    assert {row.member_id for row in leader.members} == {leader.member_id, follower.member_id}
    # Between join and sync they must not commit; heartbeats are fine.
    committed = client.call(
        commit(group, {("one", 0): 6}, generation_id_or_member_epoch=2, member_id=first.member_id), 9
    )
    assert codes(committed) == {("one", 0): E.REBALANCE_IN_PROGRESS}
    assert heartbeat(client, group, leader) is E.NONE
    late = other.start(sync(group, follower), 5)
    time.sleep(0.2)
    assert not late.done()
    own = client.call(sync(group, leader, {leader.member_id: b"1", follower.member_id: b"2", "stranger": b"3"}), 5)
    assert (own.error_code, bytes(own.assignment), own.protocol_type, own.protocol_name) == (
        0, b"1", "consumer", "range",
    )  # fmt: skip
    assert bytes(late.result(20).assignment) == b"2"
    assert heartbeat(client, group, first) is E.ILLEGAL_GENERATION
    described = client.call(DescribeGroupsRequest(groups=[group]), 5).groups[0]
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert {(m.client_id, m.client_host, bytes(m.member_assignment)) for m in described.members} == {
        ("contract", "/127.0.0.1", b"1"),
        ("other", "/127.0.0.1", b"2"),
    }
    left = client.call(
        LeaveGroupRequest(
            group_id=group,
            members=[MemberIdentity(member_id=follower.member_id), MemberIdentity(member_id="nobody")],
        ),
        5,
    )
    assert left.error_code == 0
    assert [E.of(each.error_code) for each in left.members] == [E.NONE, E.UNKNOWN_MEMBER_ID]
    assert heartbeat(client, group, leader) is E.REBALANCE_IN_PROGRESS


def test_syncs_and_heartbeats_that_are_refused(client: Client, group: str) -> None:
    member = alone(client, group)

    def sync_error(**options: Any) -> E:
        answer = client.call(sync(options.pop("to", group), member, **options), 5)
        assert (bytes(answer.assignment), answer.protocol_type, answer.protocol_name) == (b"", None, None)
        return E.of(answer.error_code)

    assert sync_error(generation_id=9) is E.ILLEGAL_GENERATION
    assert sync_error(member_id="x") is E.UNKNOWN_MEMBER_ID
    assert sync_error(group_instance_id="x") is E.UNKNOWN_MEMBER_ID
    assert sync_error(protocol_type="x") is E.INCONSISTENT_GROUP_PROTOCOL
    assert sync_error(protocol_name="x") is E.INCONSISTENT_GROUP_PROTOCOL
    assert sync_error(protocol_name=None) is E.INCONSISTENT_GROUP_PROTOCOL
    assert sync_error(to="") is E.INVALID_GROUP_ID
    assert sync_error(to="none-such") is E.UNKNOWN_MEMBER_ID
    assert bytes(client.call(sync(group, member), 5).assignment) == b"all"
    assert heartbeat(client, group, member) is E.NONE
    assert heartbeat(client, group, member, generation_id=9) is E.ILLEGAL_GENERATION
    assert heartbeat(client, group, member, member_id="x") is E.UNKNOWN_MEMBER_ID
    assert heartbeat(client, "none-such", member) is E.UNKNOWN_MEMBER_ID
    assert heartbeat(client, "", member) is E.INVALID_GROUP_ID


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_static_member_comes_back(version: int, client: Client, group: str) -> None:
    member = alone(client, group, group_instance_id="i")
    assert member.member_id.startswith("i-")
    back = client.call(join(group, group_instance_id="i"), version)
    assert (back.error_code, back.generation_id) == (0, 1)
    assert back.member_id != member.member_id
    if version >= 9:
        assert (back.leader, back.skip_assignment) == (back.member_id, True)
        assert [row.group_instance_id for row in back.members] == ["i"]
    else:
        assert (back.leader, back.members) == (member.member_id, [])
    synced = client.call(sync(group, back, group_instance_id="i"), 5)
    assert bytes(synced.assignment) == b"all"
    assert heartbeat(client, group, member, group_instance_id="i") is E.FENCED_INSTANCE_ID
    assert heartbeat(client, group, back, group_instance_id="i") is E.NONE
    fenced = commit(
        group, {("one", 0): 1}, generation_id_or_member_epoch=1, member_id=member.member_id, group_instance_id="i"
    )
    assert codes(client.call(fenced, 9)) == {("one", 0): E.FENCED_INSTANCE_ID}
    left = client.call(
        LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id="", group_instance_id="i")]), 5
    )
    assert [(m.member_id, m.group_instance_id, m.error_code) for m in left.members] == [("", "i", 0)]


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_leave(version: int, client: Client, group: str) -> None:
    member = alone(client, group)
    if version <= 2:
        requests = [LeaveGroupRequest(group_id=group, member_id=name) for name in ("x", member.member_id)]
        assert [E.of(client.call(r, version).error_code) for r in requests] == [E.UNKNOWN_MEMBER_ID, E.NONE]
    else:
        names = ["x", member.member_id]
        request = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=name) for name in names])
        answer = client.call(request, version)
        assert (answer.error_code, [E.of(m.error_code) for m in answer.members]) == (0, [E.UNKNOWN_MEMBER_ID, E.NONE])
    assert client.call(DescribeGroupsRequest(groups=[group]), 5).groups[0].group_state == "Empty"


@pytest.mark.parametrize("version", range(1, 10))
def test_every_version_of_offset_commit_and_fetch(version: int, client: Client, group: str) -> None:
    answer = client.call(
        commit(group, {("one", 0): 7, ("one", 9): 1, ("none", 0): 1}, None if version % 2 else "meta"), version
    )
    unknown = E.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(answer) == {("one", 0): E.NONE, ("one", 9): unknown, ("none", 0): unknown}
    if version >= 8:
        topics = [OffsetFetchRequestTopics(name="one", partition_indexes=[0, 1])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
        (found,) = client.call(request, version).groups
    else:
        wanted = [OffsetFetchRequestTopic(name="one", partition_indexes=[0, 1])]
        found = client.call(OffsetFetchRequest(group_id=group, topics=wanted), version)
    rows = {
        p.partition_index: (p.committed_offset, p.metadata, p.error_code) for t in found.topics for p in t.partitions
    }
    assert rows == {0: (7, "" if version % 2 else "meta", 0), 1: (-1, "", 0)}
    assert found.error_code == 0


@pytest.mark.parametrize("retention", [2**63 - 1, 0, -(2**63)])
@pytest.mark.parametrize("version", [2, 4])
def test_a_retention_beyond_the_end_of_time(client: Client, group: str, retention: int, version: int) -> None:
    """Until expired offsets are looked for the next time, any is kept."""
    answer = client.call(commit(group, {("one", 0): 7}, retention_time_ms=retention), version)
    assert codes(answer) == {("one", 0): E.NONE}
    wanted = [OffsetFetchRequestTopic(name="one", partition_indexes=[0])]
    found = client.call(OffsetFetchRequest(group_id=group, topics=wanted), version)
    kept = {7} if retention > 0 else {7, -1}  # what has expired may have been looked for just now
    assert {p.committed_offset for t in found.topics for p in t.partitions} <= kept


def test_all_offsets_of_many_groups(client: Client, group: str) -> None:
    client.call(commit(group, {("one", 0): 1, ("subscribed", 0): 2}), 9)
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in (group, "none-such", "")]
    answers = {
        each.group_id: each for each in client.call(OffsetFetchRequest(groups=groups, require_stable=True), 9).groups
    }
    found = {(t.name, p.partition_index): p.committed_offset for t in answers[group].topics for p in t.partitions}
    assert found == {("one", 0): 1, ("subscribed", 0): 2}
    assert (answers["none-such"].error_code, answers["none-such"].topics) == (0, [])
    assert (answers[""].error_code, answers[""].topics) == (0, [])


def test_commits_that_are_refused(client: Client, group: str) -> None:
    member = alone(client, group)

    def error(**options: Any) -> E:
        (code,) = codes(client.call(commit(options.pop("to", group), {("one", 0): 1}, **options), 9)).values()
        return code

    known = {"generation_id_or_member_epoch": 1, "member_id": member.member_id}
    assert error(**known) is E.NONE
    assert error(**{**known, "generation_id_or_member_epoch": 2}) is E.ILLEGAL_GENERATION
    assert error(**{**known, "generation_id_or_member_epoch": -1}) is E.ILLEGAL_GENERATION
    assert error(**{**known, "member_id": "x"}) is E.UNKNOWN_MEMBER_ID
    assert error(**{**known, "group_instance_id": "x"}) is E.UNKNOWN_MEMBER_ID
    assert error() is E.UNKNOWN_MEMBER_ID
    assert error(to="none-such", generation_id_or_member_epoch=1) is E.ILLEGAL_GENERATION
    assert error(metadata="x" * 4_097, **known) is E.OFFSET_METADATA_TOO_LARGE
    assert error(metadata="x" * 4_096, **known) is E.NONE


def test_offsets_in_zookeeper(client: Client, group: str) -> None:
    """Version 0 of commit and fetch is a storage of its own."""
    assert codes(client.call(commit(group, {("one", 0): 11, ("none", 0): 1}), 0)) == {
        ("one", 0): E.NONE,
        ("none", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
    }
    wanted = [OffsetFetchRequestTopic(name="one", partition_indexes=[0, 1])]
    found = client.call(OffsetFetchRequest(group_id=group, topics=wanted), 0)
    rows = {p.partition_index: (p.committed_offset, E.of(p.error_code)) for t in found.topics for p in t.partitions}
    assert rows == {0: (11, E.NONE), 1: (-1, E.UNKNOWN_TOPIC_OR_PARTITION)}
    in_kafka = client.call(OffsetFetchRequest(group_id=group, topics=wanted), 1)
    assert {p.committed_offset for t in in_kafka.topics for p in t.partitions} == {-1}


def test_deleting_offsets_and_groups(client: Client, group: str) -> None:
    def delete(name: str, *topics: str) -> Any:
        partitions = [OffsetDeleteRequestPartition(partition_index=0)]
        request = OffsetDeleteRequest(
            group_id=name, topics=[OffsetDeleteRequestTopic(name=topic, partitions=partitions) for topic in topics]
        )
        return client.call(request, 0)

    def delete_groups(*names: str) -> dict[str, E]:
        answer = client.call(DeleteGroupsRequest(groups_names=list(names)), 2)
        return {each.group_id: E.of(each.error_code) for each in answer.results}

    assert E.of(delete("none-such", "one").error_code) is E.GROUP_ID_NOT_FOUND
    member = alone(client, group)
    known = {"generation_id_or_member_epoch": 1, "member_id": member.member_id}
    client.call(commit(group, {("one", 0): 1, ("subscribed", 0): 2}, **known), 9)
    assert codes(delete(group, "one", "subscribed", "none")) == {
        ("one", 0): E.NONE,
        ("subscribed", 0): E.GROUP_SUBSCRIBED_TO_TOPIC,
        ("none", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert delete_groups(group, "none-such") == {group: E.NON_EMPTY_GROUP, "none-such": E.GROUP_ID_NOT_FOUND}
    client.call(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member.member_id)]), 5)
    assert delete_groups(group) == {group: E.NONE}
    assert client.call(DescribeGroupsRequest(groups=[group]), 5).groups[0].group_state == "Dead"


def test_listing_groups(client: Client, group: str) -> None:
    alone(client, group)
    simple = f"{group}-simple"
    client.call(commit(simple, {("one", 0): 1}), 9)

    def listed(**filters: Any) -> dict[str, tuple[str, str, str]]:
        answer = client.call(ListGroupsRequest(**filters), 5)
        assert answer.error_code == 0
        return {
            g.group_id: (g.protocol_type, g.group_state, g.group_type) for g in answer.groups if group in g.group_id
        }

    both = {group: ("consumer", "Stable", "classic"), simple: ("", "Empty", "classic")}
    assert listed() == both
    assert listed(types_filter=["Classic"]) == both
    assert listed(types_filter=["consumer"]) == {}
    assert listed(states_filter=["stable"]) == {group: both[group]}
    assert listed(states_filter=["nonsense"]) == {}


def test_describing_what_is_not_there(client: Client, ready: Cluster) -> None:
    request = DescribeGroupsRequest(groups=["none-such", ""], include_authorized_operations=True)
    for found in client.call(request, 5).groups:
        assert (found.error_code, found.group_state, found.members) == (0, "Dead", [])
        assert found.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8


@pytest.mark.parametrize("version", range(7))
def test_every_version_of_find_coordinator(version: int, client: Client, ready: Cluster) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["a", "b"]) if version >= 4 else FindCoordinatorRequest(key="a")
    answer = client.call(request, version)
    rows = answer.coordinators if version >= 4 else [answer]
    assert {(row.error_code, row.node_id, row.host, row.port) for row in rows} == {(0, 0, HOST, ready.brokers[0].port)}
    if version >= 4:
        assert [row.key for row in rows] == ["a", "b"]


def test_coordinators_that_cannot_be_found(client: Client, ready: Cluster) -> None:
    (row,) = client.call(FindCoordinatorRequest(key_type=9, coordinator_keys=["a"]), 4).coordinators
    assert (E.of(row.error_code), row.node_id, row.host, row.port) == (E.INVALID_REQUEST, -1, "", -1)


def test_a_session_ends_without_heartbeats(client: Client, group: str) -> None:
    start = time.monotonic()
    member = alone(client, group, session_timeout_ms=6_000)
    while client.call(DescribeGroupsRequest(groups=[group]), 5).groups[0].group_state == "Stable":
        assert time.monotonic() - start < 30
        time.sleep(0.1)
    assert time.monotonic() - start >= 5.5
    assert heartbeat(client, group, member) is E.UNKNOWN_MEMBER_ID


def test_many_members_at_once(new_client: Callable[..., Client], group: str) -> None:
    """Twenty members that join together end in one generation, each answered once."""
    clients = [new_client(f"c{number}") for number in range(20)]
    lock = threading.Lock()
    members: dict[int, Any] = {}

    def run(number: int) -> None:
        member_id, generation = "", -1
        while True:
            answer = clients[number].call(join(group, member_id), 9)
            member_id = answer.member_id
            if answer.error_code == E.MEMBER_ID_REQUIRED:
                continue
            assert answer.error_code == 0, E.of(answer.error_code)
            given = {row.member_id: row.member_id.encode() for row in answer.members}
            synced = clients[number].call(sync(group, answer, given), 5)
            if synced.error_code == E.REBALANCE_IN_PROGRESS:
                continue
            assert (synced.error_code, bytes(synced.assignment)) == (0, member_id.encode())
            generation = answer.generation_id
            with lock:
                members[number] = answer
            while True:
                with lock:
                    if len({m.generation_id for m in members.values()}) == 1 and len(members) == 20:
                        return
                if heartbeat(clients[number], group, answer) is not E.NONE:
                    break
                time.sleep(0.05)
            assert generation

    with ThreadPoolExecutor(20) as pool:
        for done in [pool.submit(run, number) for number in range(20)]:
            done.result(60)
    assert len({answer.leader for answer in members.values()}) == 1
