"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: rounds of a rebalance, and every way out of one."""

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


def test_a_dynamic_member_first_gets_an_id(coordinator: Coordinator) -> None:
    refused = coordinator.join(require_known_member_id=True).value
    assert (refused.error, refused.member_id) == (E.MEMBER_ID_REQUIRED, "client-1")
    assert coordinator.state() == "Empty"
    joined = coordinator.join(refused.member_id, require_known_member_id=True)
    coordinator.advance(1)
    assert joined.value.member_id == "client-1"
    assert coordinator.heartbeats.num_delayed == 1


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


def test_heartbeats_keep_a_session_alive(coordinator: Coordinator) -> None:
    (member,) = coordinator.stable()
    for _ in range(50):
        coordinator.advance(9_000, 1_000)
        assert coordinator.heartbeat(member) is E.NONE
    assert coordinator.heartbeats.num_delayed == 1
    coordinator.advance(10_100)
    assert coordinator.heartbeat(member) is E.UNKNOWN_MEMBER_ID
    assert coordinator.state() == "Empty"


def test_the_last_to_leave_empties_the_group(coordinator: Coordinator) -> None:
    members = coordinator.stable(3)
    errors = coordinator.leave(*(LeavingMember(member.member_id) for member in members), LeavingMember("nobody"))
    assert errors == [E.NONE] * 3 + [E.UNKNOWN_MEMBER_ID]
    assert coordinator.state() == "Empty"
    assert coordinator.heartbeats.num_delayed == 0
    # The next generation goes on counting.
    (again,) = coordinator.stable()
    assert again.generation_id == members[0].generation_id + 2


def test_who_waits_and_is_removed_is_answered(coordinator: Coordinator) -> None:
    first, second = coordinator.stable(2)
    again = coordinator.join(second.member_id, protocols=(("range", b"\x00\x00\x00\x00\x00\x00"),))
    coordinator.leave(LeavingMember(second.member_id))
    assert (again.value.error, again.value.member_id) == (E.UNKNOWN_MEMBER_ID, "")
    rejoined = coordinator.join(first.member_id).value
    sync = coordinator.sync(rejoined)
    assert sync.done


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
    options = {"session_timeout_ms": 300_000, "rebalance_timeout_ms": 20_000}
    one, two = coordinator.join(first.member_id, **options), coordinator.join(second.member_id, **options)
    waiting = coordinator.sync(one.value, {first.member_id: b"1"})
    assert waiting.value.error is E.NONE
    assert two.value.error is E.NONE
    coordinator.advance(20_100)
    assert coordinator.heartbeat(two.value) is E.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat(one.value) is E.REBALANCE_IN_PROGRESS


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


def test_syncs_and_heartbeats_that_are_refused(coordinator: Coordinator) -> None:
    (member,) = coordinator.stable()
    assert coordinator.sync(member._replace(generation_id=7)).value.error is E.ILLEGAL_GENERATION
    assert coordinator.sync(member._replace(member_id="x")).value.error is E.UNKNOWN_MEMBER_ID
    assert coordinator.sync(member._replace(protocol_type="x")).value.error is E.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.sync(member._replace(protocol_name="x")).value.error is E.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.sync(member, group_id="none").value.error is E.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat(member._replace(generation_id=7)) is E.ILLEGAL_GENERATION
    assert coordinator.heartbeat(member, group_id="none") is E.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat(member, group_id="") is E.INVALID_GROUP_ID
    assert coordinator.heartbeat(member, instance_id="x") is E.UNKNOWN_MEMBER_ID
    coordinator.core.shutdown()
    assert coordinator.heartbeat(member) is E.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("append_error", "told"),
    [
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.UNKNOWN_TOPIC_OR_PARTITION, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR),
        (E.REQUEST_TIMED_OUT, E.REBALANCE_IN_PROGRESS),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
        (E.CORRUPT_MESSAGE, E.CORRUPT_MESSAGE),
    ],
)
def test_an_assignment_that_is_not_stored(coordinator: Coordinator, append_error: E, told: E) -> None:
    joined = coordinator.join()
    coordinator.advance(1)
    coordinator.log.error = append_error
    sync = coordinator.sync(joined.value, {joined.value.member_id: b"1"})
    assert (sync.value.error, sync.value.assignment) == (told, b"")
    assert coordinator.state() == "PreparingRebalance"
    coordinator.log.error = E.NONE
    again = coordinator.join(joined.value.member_id)
    assert coordinator.sync(again.value, {joined.value.member_id: b"1"}).value.assignment == b"1"


def test_an_assignment_stored_too_late_is_ignored(coordinator: Coordinator) -> None:
    joined = coordinator.join()
    coordinator.advance(1)
    coordinator.log.hold()
    sync = coordinator.sync(joined.value, {joined.value.member_id: b"1"})
    second = coordinator.join()
    assert sync.value.error is E.REBALANCE_IN_PROGRESS
    coordinator.log.acknowledge()
    assert coordinator.state() == "PreparingRebalance"
    again = coordinator.join(joined.value.member_id)
    assert second.value.generation_id == again.value.generation_id == 2


def test_nobody_is_left_waiting_when_the_partition_moves(coordinator: Coordinator) -> None:
    first, second = coordinator.stable(2)
    join = coordinator.join(first.member_id)
    coordinator.resign()
    assert join.value.error is E.NOT_COORDINATOR
    assert coordinator.heartbeat(second) is E.NOT_COORDINATOR
    assert coordinator.heartbeats.num_delayed == 0
    coordinator.advance(60_100)
    assert coordinator.rebalances.num_delayed == 0
