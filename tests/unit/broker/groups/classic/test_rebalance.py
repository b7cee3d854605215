"""Rounds of a rebalance, and every way out of one."""

from typing import Any

import pytest

from broker.groups.classic.requests import LeavingMember
from network.protocol.errors import ErrorCode as E
from tests.support.groups import Coordinator, subscription


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_one_member_becomes_leader_and_gets_its_assignment(coordinator: Coordinator) -> None:
    joined = coordinator.join()
    coordinator.advance(1)
    member = joined.value
    assert (member.error, member.generation_id, member.leader_id) == (E.NONE, 1, member.member_id)
    assert (member.protocol_type, member.protocol_name) == ("consumer", "range")
    assert [(row.member_id, row.metadata) for row in member.members] == [(member.member_id, subscription("t"))]
    assert coordinator.state() == "CompletingRebalance"
    sync = coordinator.sync(member, {member.member_id: b"all"})
    assert sync.value.assignment == b"all"
    assert coordinator.state() == "Stable"
    assert coordinator.heartbeat(member) is E.NONE


def test_the_initial_delay_gathers_members(coordinator: Coordinator) -> None:
    coordinator = Coordinator(initial_rebalance_delay_ms=3_000)
    first = coordinator.join()
    coordinator.advance(2_900)
    second = coordinator.join()
    coordinator.advance(200)
    # Somebody came during the delay: it is waited once more.
    assert not first.done
    coordinator.advance(2_800)
    assert not first.done
    coordinator.advance(150)
    assert {first.value.generation_id, second.value.generation_id} == {1}
    assert len(first.value.members) == 2
    assert second.value.members == ()


def test_the_initial_delays_end_with_the_rebalance_timeout() -> None:
    coordinator = Coordinator(initial_rebalance_delay_ms=3_000)
    answers = []
    for _ in range(4):
        answers.append(coordinator.join(rebalance_timeout_ms=7_000))
        coordinator.advance(2_000)
    assert answers[0].value.generation_id == 1


def test_an_id_that_never_joins_is_forgotten(coordinator: Coordinator) -> None:
    coordinator.join(require_known_member_id=True)
    assert coordinator.heartbeats.num_delayed == 1
    coordinator.advance(10_100)
    assert coordinator.heartbeats.num_delayed == 0
    assert coordinator.join("client-1").value.error is E.UNKNOWN_MEMBER_ID


def test_a_pending_id_holds_up_the_join_phase_until_it_goes(coordinator: Coordinator) -> None:
    (member,) = coordinator.stable()
    pending = coordinator.join(require_known_member_id=True).value.member_id
    again = coordinator.join(member.member_id)
    assert not again.done
    assert coordinator.leave(LeavingMember(pending)) == [E.NONE]
    assert again.value.generation_id == member.generation_id + 1


def test_a_new_member_starts_a_rebalance_of_all(coordinator: Coordinator) -> None:
    (first,) = coordinator.stable()
    joining = coordinator.join(protocols=(("range", subscription("u")),))
    assert coordinator.heartbeat(first) is E.REBALANCE_IN_PROGRESS
    assert not joining.done
    again = coordinator.join(first.member_id)
    assert again.value.leader_id == first.member_id
    assert {row.metadata for row in again.value.members} == {subscription("t"), subscription("u")}
    follower = joining.value
    waiting = coordinator.sync(follower)
    assert not waiting.done
    coordinator.sync(again.value, {first.member_id: b"1", follower.member_id: b"2", "stranger": b"3"})
    assert waiting.value.assignment == b"2"
    # A follower that syncs late is answered at once.
    assert coordinator.sync(follower).value.assignment == b"2"


def test_who_does_not_rejoin_is_dropped(coordinator: Coordinator) -> None:
    first, second = coordinator.stable(2)
    again = coordinator.join(first.member_id)
    assert not again.done
    for _ in range(11):
        coordinator.heartbeat(second)
        coordinator.advance(5_000)
    assert not again.done
    coordinator.heartbeat(second)
    coordinator.advance(5_100)
    assert again.value.error is E.NONE
    assert [row.member_id for row in again.value.members] == [first.member_id]
    assert coordinator.heartbeat(second) is E.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_rejoin_is_replaced(coordinator: Coordinator) -> None:
    leader, follower = coordinator.stable(2)
    again = coordinator.join(follower.member_id, protocols=(("range", subscription("other")),))
    coordinator.advance(10_100)
    assert again.value.leader_id == follower.member_id
    assert coordinator.heartbeat(leader) is E.UNKNOWN_MEMBER_ID


def test_a_crash_is_noticed_by_the_session(coordinator: Coordinator) -> None:
    first, second = coordinator.stable(2)
    for _ in range(3):
        coordinator.advance(4_000)
        error = coordinator.heartbeat(first)
    assert error is E.REBALANCE_IN_PROGRESS
    again = coordinator.join(first.member_id)
    assert [row.member_id for row in again.value.members] == [first.member_id]
    assert coordinator.join(second.member_id).value.error is E.UNKNOWN_MEMBER_ID


def test_a_rebalance_tells_waiting_syncs_to_join_again(coordinator: Coordinator) -> None:
    first, second = coordinator.stable(2)
    one = coordinator.join(first.member_id)
    two = coordinator.join(second.member_id)
    waiting = coordinator.sync(two.value)
    coordinator.join(first.member_id, protocols=(("range", subscription("x")),))
    assert waiting.value.error is E.REBALANCE_IN_PROGRESS
    assert waiting.value.protocol_name is None
    assert coordinator.sync(one.value, {}).value.error is E.REBALANCE_IN_PROGRESS


def test_members_that_do_not_sync_are_dropped(coordinator: Coordinator) -> None:
    first, second = coordinator.stable(2, session_timeout_ms=300_000, rebalance_timeout_ms=20_000)
    options: dict[str, Any] = {"session_timeout_ms": 300_000, "rebalance_timeout_ms": 20_000}
    one, two = coordinator.join(first.member_id, **options), coordinator.join(second.member_id, **options)
    waiting = coordinator.sync(one.value, {first.member_id: b"1"})
    assert waiting.value.error is E.NONE
    assert two.value.error is E.NONE
    coordinator.advance(20_100)
    assert coordinator.heartbeat(two.value) is E.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat(one.value) is E.REBALANCE_IN_PROGRESS


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
