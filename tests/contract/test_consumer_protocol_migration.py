"""Groups with members that change their protocol, and members of both protocols in one group (KIP-848).

As Apache Kafka 4.1.0 in KRaft mode does it.
"""

from __future__ import annotations

import pytest

from network.client.connection import Connection
from network.protocol.errors import ErrorCode as E
from network.protocol.messages import consumer_protocol_subscription as subscription
from network.protocol.messages.join_group import JoinGroupRequestProtocol
from network.protocol.messages.list_groups import ListGroupsRequest
from tests.support.classic_member import TOPIC, ClassicMember, Numbers
from tests.support.consumer_member import RawMember, describe, new_group, wait_until


@pytest.fixture
def group() -> str:
    return new_group()


def numbers(member: RawMember) -> Numbers:
    return {number for _, number in member.owned}


def share_out(classic: ClassicMember, consumer: RawMember) -> None:
    """Both go on until each has half of the partitions."""

    def done() -> bool:
        classic.step()
        consumer.beat()
        return (
            len(classic.owned) == len(consumer.owned) == 2
            and not classic.owned & numbers(consumer)
            and classic.generation_id == consumer.epoch
        )

    wait_until(done, "half of the partitions each")


def type_of(connection: Connection, group: str) -> list[str]:
    return [g.group_type for g in connection.call(ListGroupsRequest(), 5, 20_000).groups if g.group_id == group]


def test_a_consumer_member_upgrades_the_group(connection: Connection, group: str, newcomer: RawMember) -> None:
    classic = ClassicMember(connection, group)
    classic.make_stable()
    assert classic.generation_id == 1
    joined = newcomer.join()
    assert joined.member_epoch == 2
    assert newcomer.owned == set(), "the classic member has them all"
    assert type_of(connection, group) == ["consumer"]
    shown = {member.member_id: member for member in describe(connection, group).members}
    assert (shown[classic.member_id].member_type, shown[newcomer.member_id].member_type) == (0, 1)
    (kept,) = shown[classic.member_id].assignment.topic_partitions
    assert sorted(kept.partitions) == [0, 1, 2, 3]
    assert classic.beat() == E.REBALANCE_IN_PROGRESS
    rejoined = classic.join()
    assert (rejoined.leader, rejoined.members, rejoined.protocol_name) == ("", [], "range")
    assert classic.sync().error_code == 0
    assert len(classic.owned) == 2, "it is told what to keep"
    share_out(classic, newcomer)
    assert describe(connection, group).group_state == "Stable"


def test_an_assignor_that_adds_data_of_its_own_keeps_the_group_classic(
    connection: Connection, group: str, newcomer: RawMember
) -> None:
    classic = ClassicMember(connection, group)
    classic.join()
    classic.sync({0, 1}, b"mine")
    refused = newcomer.full(0)
    assert refused.error_code == E.GROUP_ID_NOT_FOUND
    assert type_of(connection, group) == ["classic"]
    assert classic.beat() == E.NONE


def test_the_last_consumer_member_takes_the_group_down(connection: Connection, group: str, newcomer: RawMember) -> None:
    classic = ClassicMember(connection, group)
    classic.make_stable()
    newcomer.join()
    share_out(classic, newcomer)
    newcomer.leave()
    assert type_of(connection, group) == ["classic"]
    before = classic.generation_id
    assert classic.beat() == E.REBALANCE_IN_PROGRESS
    joined = classic.join()
    assert (joined.error_code, joined.leader) == (0, classic.member_id)
    assert joined.generation_id > before
    assert classic.sync({0, 1, 2, 3}).error_code == 0
    assert classic.beat() == E.NONE


def beat_all(group: str, members: list[RawMember | ClassicMember]) -> None:
    """Until all partitions are shared out."""

    def done() -> bool:
        owned: list[int] = []
        for member in members:
            if isinstance(member, ClassicMember):
                member.step()
                owned.extend(member.owned)
            else:
                member.beat()
                owned.extend(numbers(member))
        epochs = {m.generation_id if isinstance(m, ClassicMember) else m.epoch for m in members}
        return sorted(owned) == [0, 1, 2, 3] and len(epochs) == 1

    wait_until(done, f"{group} is balanced")


@pytest.mark.parametrize("has_others", [False, True], ids=["alone", "with a classic member"])
def test_a_classic_static_member_in_the_place_of_the_last_consumer_member(
    connection: Connection, group: str, has_others: bool
) -> None:
    """The group goes down, and nobody rebalances."""
    leaving = RawMember(connection, group, ["one"], instance_id="i")
    leaving.join()
    others = [ClassicMember(connection, group)] if has_others else []
    for other in others:
        assert other.join().error_code == 0
    beat_all(group, [leaving, *others])
    assert type_of(connection, group) == ["consumer"]
    newcomer = ClassicMember(connection, group, group_instance_id="i")
    joined = newcomer.join()
    assert (joined.error_code, joined.generation_id) == (0, leaving.epoch)
    assert (joined.leader, joined.members, joined.protocol_name) == ("", [], "range")
    assert newcomer.member_id != leaving.member_id
    assert type_of(connection, group) == ["classic"]
    assert newcomer.sync().error_code == 0
    assert newcomer.owned == numbers(leaving)
    assert [member.beat() for member in (newcomer, *others)] == [E.NONE] * (1 + len(others))
    gone = leaving.send(leaving.epoch)
    assert gone.error_code == E.GROUP_ID_NOT_FOUND


def test_a_replaced_member_that_is_not_the_last_of_its_protocol(
    connection: Connection, group: str, newcomer: RawMember
) -> None:
    leaving = RawMember(connection, group, ["one"], instance_id="i")
    leaving.join()
    newcomer.join()
    beat_all(group, [leaving, newcomer])
    assert ClassicMember(connection, group, group_instance_id="i").join().error_code == 0
    assert type_of(connection, group) == ["consumer"]


def test_a_classic_member_joins_a_consumer_group(connection: Connection, group: str, newcomer: RawMember) -> None:
    newcomer.join()
    wait_until(lambda: newcomer.beat() and len(newcomer.owned) == 4, "all partitions")
    classic = ClassicMember(connection, group)
    joined = classic.join()
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, newcomer.epoch + 1, "")
    assert classic.sync().error_code == 0
    assert classic.owned == set(), "nothing is free yet"
    share_out(classic, newcomer)
    assert classic.leave() == E.NONE
    wait_until(lambda: newcomer.beat() and len(newcomer.owned) == 4, "all partitions again")
    assert type_of(connection, group) == ["consumer"]


def test_what_classic_members_are_refused(connection: Connection, group: str, newcomer: RawMember) -> None:
    newcomer.join()
    classic = ClassicMember(connection, group)
    assert classic.join(protocol_type="connect").error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert classic.join(protocols=[]).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert classic.join().error_code == 0
    assert classic.beat(generation_id=99) == E.ILLEGAL_GENERATION
    assert classic.beat(member_id="stranger") == E.UNKNOWN_MEMBER_ID
    assert classic.beat(member_id=newcomer.member_id, generation_id=newcomer.epoch) == E.UNKNOWN_MEMBER_ID
    assert classic.sync(generation_id=99).error_code == E.ILLEGAL_GENERATION
    assert classic.sync(protocol_name="roundrobin").error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert classic.sync(member_id="stranger").error_code == E.UNKNOWN_MEMBER_ID
    other = ClassicMember(connection, group)
    metadata = subscription.ConsumerProtocolSubscription(topics=[TOPIC]).encode_versioned(3)
    unlike = [JoinGroupRequestProtocol(name="sticky", metadata=metadata)]
    assert other.join(protocols=unlike).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    stranger = ClassicMember(connection, group)
    stranger.member_id = "stranger"
    assert stranger.leave() == E.UNKNOWN_MEMBER_ID


def test_static_members_of_the_classic_protocol(connection: Connection, group: str, newcomer: RawMember) -> None:
    newcomer.join()
    first = ClassicMember(connection, group, group_instance_id="i")
    assert first.join().error_code == 0
    first.sync()
    share_out(first, newcomer)
    again = ClassicMember(connection, group, group_instance_id="i")
    assert again.join().error_code == 0
    assert again.member_id != first.member_id
    assert again.sync().error_code == 0
    assert again.owned == first.owned
    assert first.beat() == E.FENCED_INSTANCE_ID
    assert ClassicMember(connection, group, group_instance_id="j").beat(member_id="x") == E.UNKNOWN_MEMBER_ID


def test_silent_classic_members_are_removed(connection: Connection, group: str, newcomer: RawMember) -> None:
    classic = ClassicMember(connection, group, session_timeout_ms=6_000, rebalance_timeout_ms=6_000)
    classic.make_stable()
    newcomer.join()
    wait_until(lambda: newcomer.beat() and len(newcomer.owned) == 4, "the partitions of the silent member")
    assert classic.beat() == E.UNKNOWN_MEMBER_ID
