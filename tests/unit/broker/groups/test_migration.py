"""Groups that change their protocol with members in them."""

from __future__ import annotations

import pytest

from broker.groups.classic.requests import JoinResult
from broker.groups.consumer.config import MigrationPolicy
from network.protocol.errors import ApiError
from network.protocol.errors import ErrorCode as E
from network.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tests.support.consumer_groups import Client, group_of
from tests.support.groups import Answer, Coordinator
from tests.support.mixed_groups import classic_group, loaded, make, rejoin, type_of


@pytest.fixture
def coordinator() -> Coordinator:
    return make()


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
