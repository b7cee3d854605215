"""Members of both protocols in one group, and groups that change their protocol with members in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker.groups.classic.requests import JoinRequest, JoinResult, LeavingMember
from broker.groups.consumer.config import MigrationPolicy
from network.protocol.errors import ApiError
from network.protocol.errors import ErrorCode as E
from network.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tests.support.consumer_groups import CONFIG, Client, consumer_coordinator, group_of, stored_state
from tests.support.groups import Answer, Coordinator, subscription


def make(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL) -> Coordinator:
    made = consumer_coordinator(config=replace(CONFIG, migration_policy=policy))
    made.topics.set("t", 4)
    return made


@pytest.fixture
def coordinator() -> Coordinator:
    return make()


def assignment(*partitions: int) -> bytes:
    topics = [TopicPartition(topic="t", partitions=list(partitions))]
    return ConsumerProtocolAssignment(assigned_partitions=topics).encode_versioned(1)


def classic_group(coordinator: Coordinator) -> JoinResult:
    """One member that has everything."""
    answer = coordinator.join()
    coordinator.advance(5, 1)
    member = answer.value
    assert coordinator.sync(member, {member.member_id: assignment(0, 1, 2, 3)}).value.error is E.NONE
    return member


def rejoin(coordinator: Coordinator, member: JoinResult, **options: Any) -> JoinResult:
    return coordinator.join(member.member_id, **options).value


def type_of(coordinator: Coordinator) -> list[str]:
    return [group.group_type for group in coordinator.admin.list_groups()[1]]


def loaded(coordinator: Coordinator) -> Coordinator:
    made = consumer_coordinator(coordinator.log, config=coordinator.core.consumer.config, clock=coordinator.clock)
    made.topics = coordinator.topics
    return made


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_the_policy_decides(policy: MigrationPolicy) -> None:
    coordinator = make(policy)
    classic = classic_group(coordinator)
    newcomer = Client(coordinator, "new", "t")
    if not policy.allows_upgrade:
        with pytest.raises(ApiError):
            newcomer.join()
        assert type_of(coordinator) == ["classic"]
        assert coordinator.heartbeat(classic) is E.NONE
        return
    newcomer.join()
    assert type_of(coordinator) == ["consumer"]
    newcomer.leave()
    assert type_of(coordinator) == (["classic"] if policy.allows_downgrade else ["consumer"])


def test_a_refused_upgrade_leaves_the_group_as_it_was(coordinator: Coordinator) -> None:
    classic = classic_group(coordinator)
    coordinator.log.error = E.NOT_ENOUGH_REPLICAS
    newcomer = Client(coordinator, "new", "t")
    assert newcomer.join().error is E.COORDINATOR_NOT_AVAILABLE
    coordinator.log.error = E.NONE
    assert type_of(coordinator) == ["classic"]
    # Its members have to join again, as after any failure of the coordinator.
    assert coordinator.heartbeat(classic) is E.REBALANCE_IN_PROGRESS
    assert rejoin(coordinator, classic).error is E.NONE
    assert newcomer.join().error is E.NONE
    assert group_of(coordinator).members.keys() == {classic.member_id, "new"}


def test_a_refused_downgrade_leaves_a_group_that_works(coordinator: Coordinator) -> None:
    classic = classic_group(coordinator)
    newcomer = Client(coordinator, "new", "t")
    newcomer.join()
    coordinator.log.error = E.NOT_ENOUGH_REPLICAS
    assert newcomer.leave().error is E.COORDINATOR_NOT_AVAILABLE
    coordinator.log.error = E.NONE
    assert type_of(coordinator) == ["consumer"]
    assert newcomer.leave().error is E.NONE
    assert type_of(coordinator) == ["classic"]
    joined = coordinator.join(classic.member_id)
    assert joined.value.leader_id == classic.member_id
    assert loaded(coordinator).state() == "Stable"


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_a_static_member_that_comes_back_classic(policy: MigrationPolicy) -> None:
    coordinator = make(policy)
    static = Client(coordinator, "old", "t", instance_id="i")
    static.join()
    joined = coordinator.join(group_instance_id="i").value
    assert (joined.error, joined.generation_id) == (E.NONE, static.epoch)
    assert type_of(coordinator) == (["classic"] if policy.allows_downgrade else ["consumer"])
    synced = coordinator.sync(joined).value
    assert synced.error is E.NONE
    assert ConsumerProtocolAssignment.decode_versioned(synced.assignment).assigned_partitions == [
        TopicPartition(topic="t", partitions=[0, 1, 2, 3])
    ]
    assert coordinator.heartbeat(joined) is E.NONE
    assert static.error() in (E.GROUP_ID_NOT_FOUND, E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID)


def test_members_that_miss_partitions_rebalance_when_the_group_goes_down(coordinator: Coordinator) -> None:
    """Their generation is right, so nothing else would tell them."""
    static = Client(coordinator, "old", "t", instance_id="i")
    static.join()
    waiting = coordinator.join().value
    assert group_of(coordinator).target(waiting.member_id) != group_of(coordinator).current(waiting.member_id).assigned
    assert coordinator.join(group_instance_id="i").value.error is E.NONE
    assert type_of(coordinator) == ["classic"]
    assert coordinator.heartbeat(waiting) is E.REBALANCE_IN_PROGRESS


def test_a_refused_downgrade_leaves_the_static_member_where_it_was(coordinator: Coordinator) -> None:
    static = Client(coordinator, "old", "t", instance_id="i")
    static.join()
    coordinator.log.error = E.NOT_ENOUGH_REPLICAS
    assert coordinator.join(group_instance_id="i").value.error is E.COORDINATOR_NOT_AVAILABLE
    coordinator.log.error = E.NONE
    assert type_of(coordinator) == ["consumer"]
    assert static.beat().error is E.NONE
    assert coordinator.join(group_instance_id="i").value.error is E.NONE
    assert type_of(coordinator) == ["classic"]
    assert loaded(coordinator).state() == "Stable"


def test_waiting_members_are_told_to_join_again(coordinator: Coordinator) -> None:
    classic = classic_group(coordinator)
    waiting: Answer[JoinResult] = coordinator.join()
    assert not waiting.done
    Client(coordinator, "new", "t").join()
    assert waiting.value.error is E.REBALANCE_IN_PROGRESS
    assert classic.member_id in group_of(coordinator).members
    assert coordinator.rebalances.watched == 0


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
