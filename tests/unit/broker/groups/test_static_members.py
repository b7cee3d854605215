"""Static members (KIP-345): a restart without a rebalance, and fencing."""

import pytest

from broker.groups.classic.group import ClassicGroup
from broker.groups.classic.requests import LeavingMember
from network.protocol.errors import ErrorCode as E
from tests.support.groups import Coordinator, subscription


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_a_restart_keeps_the_assignment_without_a_rebalance(coordinator: Coordinator) -> None:
    (member,) = coordinator.stable(group_instance_id="i1")
    assert member.member_id == "i1-1"
    back = coordinator.join(group_instance_id="i1").value
    assert (back.error, back.generation_id, back.leader_id) == (E.NONE, member.generation_id, back.member_id)
    assert back.skip_assignment
    assert [row.member_id for row in back.members] == [back.member_id]
    assert coordinator.sync(back, instance_id="i1").value.assignment == b"a0"
    assert coordinator.state() == "Stable"
    # The old id is fenced, the new one lives, and one session runs.
    assert coordinator.heartbeat(member, instance_id="i1") is E.FENCED_INSTANCE_ID
    assert coordinator.heartbeat(member) is E.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat(back, instance_id="i1") is E.NONE
    assert coordinator.heartbeats.num_delayed == 1


def test_an_old_client_is_not_shown_itself_as_leader(coordinator: Coordinator) -> None:
    (member,) = coordinator.stable(group_instance_id="i1")
    back = coordinator.join(group_instance_id="i1", skips_assignment=False).value
    assert (back.leader_id, back.members, back.skip_assignment) == (member.member_id, (), False)


def test_a_restart_with_other_protocols_rebalances(coordinator: Coordinator) -> None:
    coordinator.stable(group_instance_id="i1", protocols=(("range", b"r"), ("sticky", b"s")))
    back = coordinator.join(group_instance_id="i1", protocols=(("sticky", b"s"), ("range", b"r")))
    assert coordinator.state() == "CompletingRebalance"
    assert back.value.protocol_name == "sticky"


def test_who_waits_under_the_old_id_is_fenced(coordinator: Coordinator) -> None:
    (first,) = coordinator.stable(group_instance_id="i1")
    coordinator.join(group_instance_id="i2")
    waiting = coordinator.join(first.member_id, group_instance_id="i1")
    assert waiting.done
    coordinator.join(group_instance_id="i3")
    waiting = coordinator.join(first.member_id, group_instance_id="i1")
    assert not waiting.done
    coordinator.join(group_instance_id="i1")
    assert (waiting.value.error, waiting.value.member_id) == (E.FENCED_INSTANCE_ID, first.member_id)


def test_a_restart_during_the_sync_phase_rebalances(coordinator: Coordinator) -> None:
    joined = coordinator.join(group_instance_id="i1")
    coordinator.advance(1)
    assert coordinator.state() == "CompletingRebalance"
    back = coordinator.join(group_instance_id="i1")
    assert back.value.generation_id == joined.value.generation_id + 1


def test_a_replacement_that_is_not_stored_is_undone(coordinator: Coordinator) -> None:
    (member,) = coordinator.stable(group_instance_id="i1")
    coordinator.log.error = E.NOT_ENOUGH_REPLICAS
    back = coordinator.join(group_instance_id="i1", protocols=(("range", subscription("u")),)).value
    assert (back.error, back.member_id, back.generation_id) == (
        E.COORDINATOR_NOT_AVAILABLE,
        "",
        member.generation_id,
    )
    assert coordinator.heartbeat(member, instance_id="i1") is E.NONE
    assert coordinator.heartbeats.num_delayed == 1
    group = coordinator.owned.find_as("g", ClassicGroup)
    assert group is not None
    assert group.members[member.member_id].protocols == (("range", subscription("t")),)
    assert group.leader_id == member.member_id


def test_static_members_that_do_not_rejoin_stay_until_their_session_ends(coordinator: Coordinator) -> None:
    (first,) = coordinator.stable(group_instance_id="i1", session_timeout_ms=120_000)
    second = coordinator.join()
    coordinator.advance(60_100)
    assert second.value.error is E.NONE
    assert {row.member_id for row in second.value.members} == {first.member_id, second.value.member_id}
    coordinator.sync(second.value, {})
    assert coordinator.heartbeat(first, instance_id="i1") is E.ILLEGAL_GENERATION


def test_nobody_but_absent_static_members(coordinator: Coordinator) -> None:
    """With nobody there the join phase is waited for again, until the sessions end."""
    (first,) = coordinator.stable(group_instance_id="i1", session_timeout_ms=200_000, rebalance_timeout_ms=60_000)
    pending = coordinator.join(session_timeout_ms=6_000)
    coordinator.leave(LeavingMember(pending.value.member_id if pending.done else "client-2"))
    assert coordinator.state() == "PreparingRebalance"
    coordinator.advance(130_000, 500)
    assert coordinator.state() == "PreparingRebalance"
    coordinator.advance(75_000, 500)
    assert coordinator.state() == "Empty"
    assert coordinator.heartbeat(first, instance_id="i1") is E.UNKNOWN_MEMBER_ID


def test_an_administrator_removes_by_instance_id(coordinator: Coordinator) -> None:
    coordinator.stable(group_instance_id="i1")
    errors = coordinator.leave(LeavingMember("", "i1"), LeavingMember("", "i2"), LeavingMember("x", "i1"))
    assert errors == [E.NONE, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID]
    assert coordinator.state() == "Empty"
