"""JoinGroup: who may enter as whom; static members (KIP-345) that come back."""

import pytest

from broker.groups.classic.group import ClassicGroup
from network.protocol.errors import ErrorCode as E
from tests.support.groups import Coordinator, subscription


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_a_dynamic_member_first_gets_an_id(coordinator: Coordinator) -> None:
    refused = coordinator.join(require_known_member_id=True).value
    assert (refused.error, refused.member_id) == (E.MEMBER_ID_REQUIRED, "client-1")
    assert coordinator.state() == "Empty"
    joined = coordinator.join(refused.member_id, require_known_member_id=True)
    coordinator.advance(1)
    assert joined.value.member_id == "client-1"
    assert coordinator.heartbeats.num_delayed == 1


def test_a_lost_join_answer_is_given_again(coordinator: Coordinator) -> None:
    first, second = coordinator.stable(2)
    assert coordinator.join(second.member_id).value.generation_id == second.generation_id
    assert coordinator.state() == "Stable"
    # A leader that joins again may have seen new metadata.
    coordinator.join(first.member_id)
    assert coordinator.state() == "PreparingRebalance"


def test_protocols_are_voted_on(coordinator: Coordinator) -> None:
    range_, sticky, own = (("range", b"r"), ("sticky", b"s"), ("own", b"o"))
    first = coordinator.join(protocols=(own, range_, sticky))
    coordinator.advance(1)
    assert first.value.protocol_name == "own"
    second = coordinator.join(protocols=(sticky, range_))
    third = coordinator.join(protocols=(sticky, range_))
    again = coordinator.join(first.value.member_id, protocols=(own, range_, sticky))
    assert again.value.protocol_name == "sticky"
    assert {row.metadata for row in again.value.members} == {b"s"}
    assert second.value.protocol_name == third.value.protocol_name == "sticky"
    assert coordinator.join(protocols=(own,)).value.error is E.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.join(protocol_type="connect").value.error is E.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"session_timeout_ms": 5_999}, E.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, E.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, E.UNKNOWN_MEMBER_ID),
        ({"group_id": ""}, E.INVALID_GROUP_ID),
        ({"protocol_type": ""}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, E.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_joins_that_are_refused(coordinator: Coordinator, options: dict[str, object], error: E) -> None:
    refused = coordinator.join(**options).value  # type: ignore[arg-type]
    assert (refused.error, refused.generation_id, refused.members) == (error, -1, ())


def test_the_group_size_is_bounded() -> None:
    coordinator = Coordinator(max_size=2)
    members = coordinator.stable(2)
    assert coordinator.join().value.error is E.GROUP_MAX_SIZE_REACHED
    assert coordinator.state() == "Stable"
    # Known members still come in, and while preparing it is those who wait that count.
    first = coordinator.join(members[0].member_id)
    waiting = coordinator.join()
    refused = coordinator.join(members[1].member_id).value
    assert (refused.error, refused.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")
    coordinator.advance(1)
    assert first.done == waiting.done


# --- static members ---


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
