"""SyncGroup, Heartbeat and LeaveGroup; partitions that come and go."""

import pytest

from broker.groups.classic.requests import LeavingMember
from network.protocol.errors import ErrorCode as E
from tests.support.groups import Coordinator


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


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


def test_an_administrator_removes_by_instance_id(coordinator: Coordinator) -> None:
    coordinator.stable(group_instance_id="i1")
    errors = coordinator.leave(LeavingMember("", "i1"), LeavingMember("", "i2"), LeavingMember("x", "i1"))
    assert errors == [E.NONE, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID]
    assert coordinator.state() == "Empty"


def test_a_group_larger_than_allowed_is_rebalanced_after_the_load() -> None:
    first = Coordinator()
    first.stable(3)
    assert Coordinator(first.log, first.clock, max_size=2).state() == "PreparingRebalance"
