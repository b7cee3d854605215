"""Reassignment by API and znode, phase by phase; elections by API, znode and the rebalancer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from controller.election_requests import ElectionResult, ElectionType
from controller.states import PartitionReplica, ReplicaStatus
from controller.zk import paths
from controller.zk.ops import Create, SetData
from controller.zk.payloads import PartitionState, ReplicaAssignment, encode_partitions, encode_reassignment
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from network.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from network.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from network.protocol.messages.stop_replica import StopReplicaRequest
from network.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.unit.controller.harness import Harness, stopped, tp
from tests.unit.controller.test_controller import alter

Make = Callable[..., Harness]


@pytest.fixture
def five(make: Make) -> Harness:
    harness = make()
    harness.start(2, 3, 4, 5)
    return harness


def reassign(harness: Harness, partition: TopicPartition, target: Sequence[int] | None) -> tuple[int, str | None]:
    answers: list[AlterPartitionReassignmentsResponse] = []
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=partition.topic,
                partitions=[
                    ReassignablePartition(
                        partition_index=partition.partition, replicas=None if target is None else list(target)
                    )
                ],
            )
        ]
    )
    harness.controller.alter_partition_reassignments(request, answers.append)
    harness.run_until(lambda: bool(answers), "answer")
    answers[0].encode(0)
    assert answers[0].error_code == 0
    result = answers[0].responses[0].partitions[0]
    return result.error_code, result.error_message


def running(harness: Harness, *partitions: TopicPartition) -> dict[TopicPartition, tuple[list[int], ...]]:
    answers: list[ListPartitionReassignmentsResponse] = []
    request = ListPartitionReassignmentsRequest()
    if partitions:
        request.topics = [
            ListPartitionReassignmentsTopics(name=item.topic, partition_indexes=[item.partition]) for item in partitions
        ]
    harness.controller.list_partition_reassignments(request, answers.append)
    harness.run_until(lambda: bool(answers), "answer")
    return {
        TopicPartition(topic.name, item.partition_index): (item.replicas, item.adding_replicas, item.removing_replicas)
        for topic in answers[0].topics
        for item in topic.partitions
    }


def assignment(harness: Harness, partition: TopicPartition) -> ReplicaAssignment:
    """In ZooKeeper, and the same in memory."""
    znode = harness.zk.topic(partition.topic)
    assert znode is not None
    found = znode.assignment[partition.partition]
    assert found == harness.context.assignment(partition)
    return found


def test_phases(five: Harness) -> None:
    """Origin [1, 2], target [3, 1]: the example of the facts."""
    partition = tp("t-0")
    five.create_topic("t", {0: [1, 2], 1: [1, 2]})
    topic_id = five.context.topic_ids["t"]
    five.take()
    assert reassign(five, partition, [3, 1]) == (0, None)
    # U and A: the union in ZooKeeper, leader epoch raised, LeaderAndIsr to origin and, as new, to the adding one.
    assert assignment(five, partition) == ReplicaAssignment((3, 1, 2), adding=(3,), removing=(2,))
    assert five.leader_isr(partition) == (1, (1, 2), 1)
    told = five.told(LeaderAndIsrRequest, partition)
    assert {broker: (state.is_new, state.leader_epoch, state.replicas) for broker, state in told.items()} == {
        1: (False, 1, [3, 1, 2]),
        2: (False, 1, [3, 1, 2]),
        3: (True, 1, [3, 1, 2]),
    }
    assert (told[1].adding_replicas, told[1].removing_replicas) == ([3], [2])
    assert five.context.replica_state(PartitionReplica(partition, 3)) is ReplicaStatus.NEW
    assert running(five) == {partition: ([3, 1, 2], [3], [2])}
    assert running(five, tp("t-1")) == {}
    five.take()
    # B: once 3 is in the ISR.
    alter(five, partition, 1, [1, 2, 3])
    five.settle()
    assert assignment(five, partition) == ReplicaAssignment((3, 1))
    # Leader 1 stays (leader epoch 2), then 2 leaves the ISR (leader epoch 3).
    assert five.leader_isr(partition) == (1, (1, 3), 3)
    assert [stopped(item)[partition] for item in five.sent(StopReplicaRequest, 2)] == [(2, False), (3, True)]
    assert set(five.told(LeaderAndIsrRequest, partition)) == {1, 3}
    assert five.told(UpdateMetadataRequest, partition)[5].replicas == [3, 1]
    assert running(five) == {}
    znode = five.zk.topic("t")
    assert znode is not None
    assert znode.topic_id == topic_id
    assert assignment(five, tp("t-1")) == ReplicaAssignment((1, 2))
    assert five.context.preferred_imbalance_count == 1
    assert PartitionReplica(partition, 2) not in five.context.replica_states


def test_leader_moves_with_the_assignment(five: Harness) -> None:
    partition = tp("t-0")
    five.create_topic("t", {0: [1, 2]})
    reassign(five, partition, [4, 5])
    alter(five, partition, 1, [1, 2, 4])
    five.settle()
    assert five.context.assignment(partition).being_reassigned
    alter(five, partition, 1, [1, 2, 4, 5])
    five.settle()
    leader, isr, _ = five.leader_isr(partition)
    assert (leader, isr) == (4, (4, 5))
    assert assignment(five, partition) == ReplicaAssignment((4, 5))
    assert {item.broker for item in five.sent(StopReplicaRequest) if partition in stopped(item)} == {1, 2}


def test_only_the_order_changes(five: Harness) -> None:
    partition = tp("t-0")
    five.create_topic("t", {0: [1, 2]})
    assert reassign(five, partition, [2, 1])[0] == 0
    five.settle()
    assert assignment(five, partition) == ReplicaAssignment((2, 1))
    assert five.leader_isr(partition) == (1, (1, 2), 1)


def test_override_drops_what_the_first_target_added(five: Harness) -> None:
    partition = tp("t-0")
    five.create_topic("t", {0: [1, 2]})
    reassign(five, partition, [3, 4])
    alter(five, partition, 1, [1, 2, 3])
    five.take()
    assert reassign(five, partition, [4, 5])[0] == 0
    assert assignment(five, partition) == ReplicaAssignment((4, 5, 1, 2), adding=(4, 5), removing=(1, 2))
    # 3 was in the ISR already: it leaves it before its data is deleted.
    assert 3 not in five.state(partition).isr
    stops = [stopped(item)[partition][1] for item in five.sent(StopReplicaRequest, 3)]
    assert stops == [False, True]
    alter(five, partition, 1, [1, 2, 4, 5])
    five.settle()
    assert assignment(five, partition) == ReplicaAssignment((4, 5))


def test_cancel(five: Harness) -> None:
    partition = tp("t-0")
    five.create_topic("t", {0: [1, 2]})
    assert reassign(five, partition, None)[0] == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    reassign(five, partition, [3, 4])
    alter(five, partition, 1, [1, 2, 3])
    assert reassign(five, partition, None)[0] == 0
    five.settle()
    assert assignment(five, partition) == ReplicaAssignment((1, 2))
    leader, isr, _ = five.leader_isr(partition)
    assert (leader, isr) == (1, (1, 2))
    assert running(five) == {}
    assert {item.broker for item in five.sent(StopReplicaRequest)} == {3, 4}


def test_a_cancel_that_would_delete_the_last_in_sync_replica_is_refused(five: Harness) -> None:
    """Found by the simulation: the adding replica leads and is the only one in sync when the move is cancelled."""
    partition = tp("t-0")
    five.create_topic("t", {0: [4, 5]})
    reassign(five, partition, [3, 2])
    alter(five, partition, 4, [4, 5, 3])
    for broker in (4, 5):
        five.kill(broker)
        five.run_until(lambda broker=broker: broker not in five.context.brokers, "broker failure")  # type: ignore[misc]
        five.settle()
    assert five.leader_isr(partition)[:2] == (3, (3,))
    five.take()
    for target in (None, [4, 2], [2]):
        code, message = reassign(five, partition, target)
        assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert message
    assert not five.sent(StopReplicaRequest)
    assert assignment(five, partition) == ReplicaAssignment((3, 2, 4, 5), adding=(3, 2), removing=(4, 5))
    # Back in sync, it can be cancelled.
    five.register(4)
    five.run_until(lambda: 4 in five.context.brokers, "broker arrival")
    alter(five, partition, 3, [3, 4])
    assert reassign(five, partition, None)[0] == 0


def test_refusals(five: Harness) -> None:
    partition = tp("t-0")
    five.create_topic("t", {0: [1, 2]})
    for target in ([], [1, 1], [1, -1], [1, 9]):
        code, message = reassign(five, partition, target)
        assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert message
    assert reassign(five, tp("gone-0"), [1])[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert reassign(five, tp("t-9"), [1])[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    five.channels.answer = False
    five.admin.delete_topic("t")
    five.run_until(lambda: "t" in five.context.topics_deletion_started, "deletion")
    assert reassign(five, partition, [3])[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_dead_broker_may_stay_in_the_target(five: Harness) -> None:
    partition = tp("t-0")
    five.create_topic("t", {0: [1, 2]})
    five.kill(2)
    five.run_until(lambda: 2 not in five.context.brokers, "broker failure")
    assert reassign(five, partition, [2, 3])[0] == 0
    alter(five, partition, 1, [1, 3])
    assert running(five) == {partition: ([2, 3, 1], [3], [1])}
    five.register(2)
    five.run_until(lambda: 2 in five.context.brokers, "broker arrival")
    alter(five, partition, 1, [1, 3, 2])
    five.settle()
    leader, isr, _ = five.leader_isr(partition)
    assert (leader, isr) == (2, (3, 2))


def test_znode(five: Harness) -> None:
    first, second = tp("t-0"), tp("t-1")
    five.create_topic("t", {0: [1, 2], 1: [1, 2]})
    content = encode_reassignment({first: [3, 2], second: [2, 1], tp("gone-0"): [1]})
    five.zk.session.submit([Create(paths.REASSIGN_PARTITIONS, content)])
    five.run_until(lambda: first in five.context.reassigning, "reassignment")
    five.settle()
    # t-1 was complete at once, gone-0 is unknown: both are taken out.
    assert five.zk.reassign_partitions() == {first: (3, 2)}
    assert assignment(five, second) == ReplicaAssignment((2, 1))
    alter(five, first, 1, [1, 2, 3])
    five.settle()
    assert assignment(five, first) == ReplicaAssignment((3, 2))
    assert not five.zk.exists(paths.REASSIGN_PARTITIONS)
    # The znode is watched again.
    five.zk.session.submit([Create(paths.REASSIGN_PARTITIONS, encode_reassignment({second: [4]}))])
    five.run_until(lambda: second in five.context.reassigning, "second reassignment")
    # The API overrides the znode.
    assert reassign(five, second, [5])[0] == 0
    assert assignment(five, second) == ReplicaAssignment((5, 2, 1), adding=(5,), removing=(2, 1))
    assert not five.zk.exists(paths.REASSIGN_PARTITIONS)


def test_invalid_znode_stays(five: Harness) -> None:
    five.create_topic("t", {0: [1, 2]})
    content = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3],"log_dirs":["any"]}]}'
    five.zk.session.submit([Create(paths.REASSIGN_PARTITIONS, content)])
    five.settle()
    assert not five.context.reassigning
    assert five.zk.exists(paths.REASSIGN_PARTITIONS)


def test_deletion_waits_for_the_reassignment(five: Harness) -> None:
    partition = tp("t-0")
    five.create_topic("t", {0: [1, 2]})
    reassign(five, partition, [3, 1])
    five.admin.delete_topic("t")
    five.run_until(lambda: "t" in five.context.topics_ineligible, "waiting")
    assert five.zk.topic_exists("t")
    alter(five, partition, 1, [1, 2, 3])
    five.run_until(lambda: "t" not in five.context.topics, "deletion")


def test_failover_resumes_in_every_phase(make: Make) -> None:
    """A controller dies in the middle of a move; the next one finishes it from the topic's znode alone."""
    one, two = make(broker_id=1), make(broker_id=2)
    one.start()
    for broker in (3, 4):
        one.register(broker)
    one.settle()
    one.create_topic("a", {0: [3, 1]})
    one.create_topic("b", {0: [3, 1]})
    one.create_topic("c", {0: [3, 1]})
    reassign(one, tp("a-0"), [4, 3])
    reassign(one, tp("b-0"), [4, 3])
    alter(one, tp("a-0"), 3, [3, 1, 4])
    one.settle()
    one.zk.session.submit([Create(paths.REASSIGN_PARTITIONS, encode_reassignment({tp("c-0"): [4]}))])
    two.register(2)
    two.controller.startup(own_thread=False)
    two.settle()
    one.controller.shutdown()
    one.zk.close()
    two.run_until(lambda: two.controller.is_active, "takeover")
    two.settle()
    assert assignment(two, tp("a-0")) == ReplicaAssignment((4, 3))
    assert assignment(two, tp("b-0")) == ReplicaAssignment((4, 3, 1), adding=(4,), removing=(1,))
    assert two.context.reassigning == {tp("b-0"), tp("c-0")}
    alter(two, tp("b-0"), 3, [3, 4])
    alter(two, tp("c-0"), 3, [3, 4])
    two.settle()
    assert assignment(two, tp("b-0")) == ReplicaAssignment((4, 3))
    assert assignment(two, tp("c-0")) == ReplicaAssignment((4,))
    assert not two.zk.exists(paths.REASSIGN_PARTITIONS)


def test_old_ibp_completes_by_the_watched_state(make: Make) -> None:
    harness = make("2.6")
    harness.start(2, 3)
    partition = tp("t-0")
    harness.create_topic("t", {0: [1, 2]})
    assert reassign(harness, partition, [3, 1])[0] == 0
    state = harness.state(partition)
    grown = PartitionState(1, state.leader_epoch, (1, 2, 3), 1, partition_epoch=state.partition_epoch)
    assert harness.zk.set_partition_state_as_leader(partition, grown) is not None
    harness.run_until(lambda: not harness.context.reassigning, "completion")
    assert assignment(harness, partition) == ReplicaAssignment((3, 1))
    handlers = harness.zk.session._handlers  # type: ignore[attr-defined]
    assert paths.partition_state(partition) not in handlers._data


# -- elections ---------------------------------------------------------------------------------------------------------


def elect(
    harness: Harness, election: ElectionType, *partitions: TopicPartition
) -> dict[TopicPartition, ElectionResult]:
    answers: list[dict[TopicPartition, ElectionResult]] = []
    harness.controller.elect_leaders(partitions, election, answers.append)
    harness.run_until(lambda: bool(answers), "answer")
    return answers[0]


def move_leaders_away(harness: Harness, broker: int) -> None:
    harness.kill(broker)
    harness.run_until(lambda: broker not in harness.context.brokers, "broker failure")
    harness.register(broker)
    harness.run_until(lambda: broker in harness.context.brokers, "broker arrival")
    harness.settle()


def test_preferred_election_by_api(five: Harness) -> None:
    five.create_topic("t", {0: [2, 1], 1: [2, 3], 2: [1, 2]})
    move_leaders_away(five, 2)
    alter(five, tp("t-0"), 1, [1, 2])
    five.take()
    results = elect(five, ElectionType.PREFERRED, tp("t-0"), tp("t-1"), tp("t-2"), tp("no-0"))
    assert results[tp("t-0")] == ElectionResult(ErrorCode.NONE, leader=2)
    assert results[tp("t-1")].code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert results[tp("t-2")].code is ErrorCode.ELECTION_NOT_NEEDED
    assert results[tp("no-0")].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    # The ISR is unchanged, everyone assigned is told.
    assert five.leader_isr(tp("t-0"))[:2] == (2, (1, 2))
    assert set(five.told(LeaderAndIsrRequest, tp("t-0"))) == {1, 2}


def test_unclean_election_by_api(five: Harness) -> None:
    five.create_topic("t", {0: [2, 3], 1: [2]})
    for broker in (3, 2):
        five.kill(broker)
        five.run_until(lambda broker=broker: broker not in five.context.brokers, "broker failure")  # type: ignore[misc]
    assert elect(five, ElectionType.UNCLEAN, tp("t-0"))[tp("t-0")].code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    five.register(3)
    five.run_until(lambda: 3 in five.context.brokers, "broker arrival")
    results = elect(five, ElectionType.UNCLEAN, tp("t-0"), tp("t-1"))
    assert results[tp("t-0")] == ElectionResult(ErrorCode.NONE, leader=3)
    assert results[tp("t-1")].code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    state = five.state(tp("t-0"))
    assert (state.leader, state.isr, state.recovery_state) == (3, (3,), 1)
    assert elect(five, ElectionType.UNCLEAN, tp("t-0"))[tp("t-0")].code is ErrorCode.ELECTION_NOT_NEEDED


def test_preferred_election_by_znode(five: Harness) -> None:
    five.create_topic("t", {0: [2, 1], 1: [2, 1]})
    move_leaders_away(five, 2)
    alter(five, tp("t-0"), 1, [1, 2])
    five.zk.session.submit([Create(paths.PREFERRED_ELECTION, encode_partitions([tp("t-0"), tp("gone-0")]))])
    five.run_until(lambda: five.context.leadership[tp("t-0")].leader == 2, "election")
    five.settle()
    assert not five.zk.exists(paths.PREFERRED_ELECTION)
    assert five.leader_isr(tp("t-1"))[0] == 1
    # And once more: the znode is watched again.
    alter(five, tp("t-1"), 1, [1, 2])
    five.zk.create_preferred_election([tp("t-1")])
    five.run_until(lambda: five.context.leadership[tp("t-1")].leader == 2, "election")


def test_rebalancer(five: Harness) -> None:
    five.create_topic("t", {number: [2, 1] for number in range(4)})
    move_leaders_away(five, 2)
    for number in range(3):
        alter(five, TopicPartition("t", number), 1, [1, 2])
    assert five.context.preferred_imbalance_count == 4
    five.clock.advance(4999)
    five.scheduler.tick()
    five.settle()
    assert five.context.preferred_imbalance_count == 4
    five.clock.advance(1)
    five.scheduler.tick()
    five.settle()
    # The one whose preferred leader is not in the ISR stays.
    assert [five.leader_isr(TopicPartition("t", number))[0] for number in range(4)] == [2, 2, 2, 1]
    alter(five, tp("t-3"), 1, [1, 2])
    five.clock.advance(300_000)
    five.scheduler.tick()
    five.settle()
    assert five.context.preferred_imbalance_count == 0


def test_rebalancer_tolerates_a_small_imbalance(make: Make) -> None:
    harness = make(leader_imbalance_per_broker_percentage=50)
    harness.start(2)
    harness.create_topic("t", {0: [2, 1], 1: [2, 1]})
    move_leaders_away(harness, 2)
    for number in range(2):
        alter(harness, TopicPartition("t", number), 1, [1, 2])
    elect(harness, ElectionType.PREFERRED, tp("t-0"))
    harness.clock.advance(5000)
    harness.scheduler.tick()
    harness.settle()
    assert harness.leader_isr(tp("t-1"))[0] == 1


def test_conflicting_write_is_repeated(five: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody writes the state between the controller's read and its write: it reads again."""
    five.create_topic("t", {0: [2, 1]})
    real = five.zk.set_partition_states
    conflicts = [1]

    def set_partition_states(states: dict[TopicPartition, PartitionState], fence: int) -> object:
        if conflicts:
            conflicts.pop()
            path = paths.partition_state(tp("t-0"))
            found = five.zk.read(path)
            assert found is not None
            five.zk.session.submit([SetData(path, found[0])])
        return real(states, fence)

    monkeypatch.setattr(five.zk, "set_partition_states", set_partition_states)
    five.kill(2)
    five.run_until(lambda: 2 not in five.context.brokers, "broker failure")
    assert five.leader_isr(tp("t-0")) == (1, (1,), 1)
    assert five.state(tp("t-0")).partition_epoch == 2
