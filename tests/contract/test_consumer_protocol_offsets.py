"""Offsets of groups of the consumer protocol, and groups that change their protocol while nobody is in them.

As Apache Kafka 4.1.0 in KRaft mode does it.
"""

from __future__ import annotations

import uuid

import pytest

from network.client.connection import Connection
from network.protocol.errors import ErrorCode as E
from network.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
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
    OffsetFetchRequestTopics,
)
from network.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.consumer_member import RawMember, describe, new_group, wait_until
from tests.support.groups import subscription


@pytest.fixture
def group() -> str:
    return new_group()


@pytest.fixture
def member(connection: Connection, group: str) -> RawMember:
    """One that has joined and owns the topic `one`."""
    made = RawMember(connection, group, ["one"])
    made.join()
    wait_until(lambda: made.beat() and len(made.owned) == 4, "the partitions")
    return made


def commit(
    connection: Connection,
    group: str,
    offset: int,
    member_id: str = "",
    epoch: int = -1,
    version: int = 9,
    topic: str = "one",
) -> E:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    return E.of(connection.call(request, version, 20_000).topics[0].partitions[0].error_code)


def fetch(connection: Connection, group: str, member_id: str | None = None, epoch: int = -1) -> int | E:
    """The committed offset, or the error."""
    wanted = OffsetFetchRequestGroup(
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        topics=[OffsetFetchRequestTopics(name="one", partition_indexes=[0])],
    )
    (found,) = connection.call(OffsetFetchRequest(groups=[wanted]), 9, 20_000).groups
    if found.error_code:
        return E.of(found.error_code)
    offset: int = found.topics[0].partitions[0].committed_offset
    return offset


def test_members_commit_at_their_epoch(connection: Connection, group: str, member: RawMember) -> None:
    assert commit(connection, group, 7, member.member_id, member.epoch) == E.NONE
    assert fetch(connection, group) == 7
    assert commit(connection, group, 8, member.member_id, member.epoch - 1) == E.STALE_MEMBER_EPOCH
    assert commit(connection, group, 8, member.member_id, member.epoch + 1) == E.STALE_MEMBER_EPOCH
    assert commit(connection, group, 8, "stranger", member.epoch) == E.UNKNOWN_MEMBER_ID
    assert commit(connection, group, 8) == E.UNKNOWN_MEMBER_ID
    assert commit(connection, group, 8, member.member_id, member.epoch, version=8) == E.UNSUPPORTED_VERSION
    assert fetch(connection, group) == 7


def test_fetching_checks_the_epoch_if_there_is_one(connection: Connection, group: str, member: RawMember) -> None:
    commit(connection, group, 7, member.member_id, member.epoch)
    assert fetch(connection, group, member.member_id, member.epoch) == 7
    assert fetch(connection, group, member.member_id, member.epoch + 1) == E.STALE_MEMBER_EPOCH
    assert fetch(connection, group, "stranger", member.epoch) == E.UNKNOWN_MEMBER_ID


def test_anybody_commits_while_nobody_is_there(connection: Connection, group: str, member: RawMember) -> None:
    member.leave()
    assert commit(connection, group, 3) == E.NONE
    assert commit(connection, group, 4, member.member_id, member.epoch) == E.UNKNOWN_MEMBER_ID
    assert fetch(connection, group) == 3


def test_commits_to_groups_that_do_not_exist(connection: Connection, group: str) -> None:
    assert commit(connection, group, 1, "m", 1) == E.GROUP_ID_NOT_FOUND
    assert commit(connection, group, 1, "m", 1, version=8) == E.ILLEGAL_GENERATION
    assert fetch(connection, group) == -1


def test_offsets_of_a_topic_that_is_read_are_not_deleted(connection: Connection, group: str, member: RawMember) -> None:
    for topic in ("one", "other"):
        assert commit(connection, group, 1, member.member_id, member.epoch, topic=topic) == E.NONE
    topics = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        for name in ("one", "other")
    ]
    response = connection.call(OffsetDeleteRequest(group_id=group, topics=topics), 0, 20_000)
    assert response.error_code == E.NONE
    errors = {topic.name: E.of(topic.partitions[0].error_code) for topic in response.topics}
    assert errors == {"one": E.GROUP_SUBSCRIBED_TO_TOPIC, "other": E.NONE}


# --- groups that change their protocol ---


def join(connection: Connection, group: str, member_id: str = "") -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("one"))],
    )
    answer: JoinGroupResponse = connection.call(request, 9, 20_000)
    return answer


def classic_member(connection: Connection, group: str) -> JoinGroupResponse:
    """Enter as the only member of a classic group, until it is stable."""
    required = join(connection, group)
    assert required.error_code == E.MEMBER_ID_REQUIRED
    joined = join(connection, group, required.member_id)
    assert joined.error_code == E.NONE
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")],
    )
    assert connection.call(request, 5, 20_000).error_code == E.NONE
    return joined


def leave(connection: Connection, group: str, member_id: str) -> None:
    request = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id)])
    assert connection.call(request, 5, 20_000).error_code == E.NONE


def type_of(connection: Connection, group: str) -> list[str]:
    return [g.group_type for g in connection.call(ListGroupsRequest(), 5, 20_000).groups if g.group_id == group]


def test_an_empty_classic_group_becomes_a_consumer_group(connection: Connection, group: str) -> None:
    classic = classic_member(connection, group)
    assert commit(connection, group, 11, classic.member_id, classic.generation_id) == E.NONE
    newcomer = RawMember(connection, group, ["one"])
    assert type_of(connection, group) == ["classic"]
    leave(connection, group, classic.member_id)
    newcomer.join()
    assert type_of(connection, group) == ["consumer"]
    assert fetch(connection, group) == 11
    assert describe(connection, group).members[0].member_id == newcomer.member_id


def test_an_empty_consumer_group_becomes_a_classic_group(connection: Connection, group: str, member: RawMember) -> None:
    assert commit(connection, group, 12, member.member_id, member.epoch) == E.NONE
    member.leave()
    classic = classic_member(connection, group)
    assert classic.generation_id == 1
    assert type_of(connection, group) == ["classic"]
    assert fetch(connection, group) == 12
    assert describe(connection, group).error_code == E.GROUP_ID_NOT_FOUND
    leave(connection, group, classic.member_id)
    member.member_id = uuid.uuid4().hex
    member.join()
    assert type_of(connection, group) == ["consumer"]
    assert fetch(connection, group) == 12


def test_offsets_of_nobody_make_a_classic_group_that_gives_way(connection: Connection, group: str) -> None:
    assert commit(connection, group, 5) == E.NONE
    assert type_of(connection, group) == ["classic"]
    newcomer = RawMember(connection, group, ["one"])
    newcomer.join()
    assert type_of(connection, group) == ["consumer"]
    assert fetch(connection, group) == 5
