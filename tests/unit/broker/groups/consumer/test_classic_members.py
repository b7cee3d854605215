"""Members that speak the classic protocol in a group of the consumer protocol."""

from __future__ import annotations

import pytest

from broker.groups.classic.requests import JoinRequest, JoinResult, LeavingMember
from network.protocol.errors import ErrorCode as E
from network.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from tests.support.consumer_groups import Client, group_of, stored_state
from tests.support.groups import Answer, Coordinator, subscription
from tests.support.mixed_groups import classic_group, loaded, make, rejoin


@pytest.fixture
def coordinator() -> Coordinator:
    return make()


def test_the_next_coordinator_knows_members_of_both_protocols(coordinator: Coordinator) -> None:
    classic = classic_group(coordinator)
    newcomer = Client(coordinator, "new", "t")
    newcomer.join()
    again = loaded(coordinator)
    assert stored_state(group_of(again)) == stored_state(group_of(coordinator))
    assert again.heartbeat(classic) is E.REBALANCE_IN_PROGRESS
    joined = rejoin(again, classic)
    assert joined.generation_id == 2
    content = ConsumerProtocolAssignment.decode_versioned(again.sync(joined).value.assignment)
    assert [len(topic.partitions) for topic in content.assigned_partitions] == [2]


def test_a_classic_member_that_does_not_join_again_is_removed(coordinator: Coordinator) -> None:
    classic = classic_group(coordinator)
    newcomer = Client(coordinator, "new", "t")
    newcomer.join()
    for _ in range(70):
        coordinator.heartbeat(classic)
        newcomer.beat()
        coordinator.advance(1_000, 1_000)
    assert group_of(coordinator).members.keys() == {"new"}
    assert newcomer.owned == coordinator.topics.partitions("t")


def test_a_classic_member_that_does_not_sync_is_removed(coordinator: Coordinator) -> None:
    classic = classic_group(coordinator)
    newcomer = Client(coordinator, "new", "t")
    newcomer.join()
    joined = rejoin(coordinator, classic, rebalance_timeout_ms=3_000)
    assert joined.error is E.NONE
    for _ in range(5):
        newcomer.beat()
        coordinator.advance(1_000, 1_000)
    assert group_of(coordinator).members.keys() == {"new"}


def test_leaving_members_make_one_epoch(coordinator: Coordinator) -> None:
    first = classic_group(coordinator)
    newcomer = Client(coordinator, "new", "t")
    newcomer.join()
    second = coordinator.join().value
    before = group_of(coordinator).epoch
    left = coordinator.leave(LeavingMember(first.member_id), LeavingMember(second.member_id), LeavingMember("new"))
    assert left == [E.NONE, E.NONE, E.UNKNOWN_MEMBER_ID]
    assert group_of(coordinator).epoch == before + 1


def test_session_timeouts_are_checked(coordinator: Coordinator) -> None:
    Client(coordinator, "new", "t").join()
    answer: Answer[JoinResult] = Answer()
    request = JoinRequest("g", "", "c", "/h", 1, 1, "consumer", (("range", subscription("t")),))
    coordinator.core.join_group(request, answer)
    assert answer.value.error is E.INVALID_SESSION_TIMEOUT
