"""A new controller makes up for brokers that went and came back while there was none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller.missed_returns import without_returned
from controller.zk.access import UNFENCED
from controller.zk.payloads import PartitionState
from log.topic_partition import TopicPartition
from network.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from tests.unit.controller.harness import Harness, tp

pytestmark = pytest.mark.both_zookeepers


def state(leader: int, *isr: int) -> PartitionState:
    return PartitionState(leader, 4, isr, 1)


@pytest.mark.parametrize(
    ("before", "epochs", "after"),
    [
        pytest.param(state(3, 3, 1, 2), {1: 5, 2: 6, 3: 7}, None, id="all have been there"),
        pytest.param(state(3, 3, 1, 2), {1: 5, 2: 6, 3: 90}, (1, (1, 2)), id="the leader has been away"),
        pytest.param(state(3, 3, 1, 2), {1: 5, 2: 60, 3: 7}, (3, (3, 1)), id="a follower has been away"),
        pytest.param(state(3, 3, 1, 2), {1: 60, 2: 6}, (2, (2,)), id="one has been away and the leader is"),
        pytest.param(state(3, 3, 1, 2), {1: 5, 2: 6}, None, id="who is away is for the election"),
        pytest.param(state(3, 3, 1, 2), {1: 60, 2: 70, 3: 80}, None, id="nobody has stayed"),
        pytest.param(state(3, 3, 1), {2: 6, 3: 80}, None, id="nobody of the ISR has stayed"),
        pytest.param(state(3, 3), {1: 5, 3: 80}, None, id="an ISR of one"),
        pytest.param(state(-1, 3, 1), {1: 5, 3: 80}, (1, (1,)), id="there was no leader"),
    ],
)
def test_who_has_been_away_leaves_the_isr(
    before: PartitionState, epochs: dict[int, int], after: tuple[int, tuple[int, ...]] | None
) -> None:
    found = without_returned(before, (3, 1, 2), 50, epochs)
    assert (None if found is None else (found.leader, found.isr)) == after
    if found is not None:
        assert found.leader_epoch == before.leader_epoch + 1
        assert found.partition_epoch == before.partition_epoch


def _three_brokers(cluster: Harness, assigned: dict[TopicPartition, list[int]]) -> None:
    """With these partitions, all in sync; then broker 3 goes and comes back while nobody is the controller."""
    for broker in (1, 2, 3):
        cluster.register(broker)
    cluster.zk.create_topic("t", None, {item.partition: replicas for item, replicas in assigned.items()})
    states = {item: PartitionState(replicas[0], 4, tuple(replicas), 0) for item, replicas in assigned.items()}
    cluster.zk.create_partition_states(states, UNFENCED)
    cluster.kill(3)
    cluster.register(3)


def _become_controller(cluster: Harness) -> None:
    cluster.controller.startup(own_thread=False)
    cluster.run_until(lambda: cluster.controller.is_active, "election")
    cluster.settle()


def test_a_leader_that_came_back_before_there_was_a_controller_does_not_lead_on(make: Callable[..., Harness]) -> None:
    cluster = make()
    led, followed, alone = tp("t-0"), tp("t-1"), tp("t-2")
    _three_brokers(cluster, {led: [3, 1, 2], followed: [2, 3, 1], alone: [3]})
    _become_controller(cluster)
    assert cluster.leader_isr(led) == (1, (1, 2), 5)
    assert cluster.leader_isr(followed) == (2, (2, 1), 5)
    assert cluster.leader_isr(alone) == (3, (3,), 4)
    # Nobody was told otherwise first.
    told = cluster.sent(LeaderAndIsrRequest, 3)
    assert told
    for sent in told:
        for topic in sent.request.topic_states:
            for each in topic.partition_states:
                assert each.partition_index == alone.partition or each.leader != 3


def test_a_write_whose_answer_was_lost_is_read_again(
    make: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make()
    led = tp("t-0")
    _three_brokers(cluster, {led: [3, 1, 2]})
    real = cluster.zk.set_partition_states

    def loses_its_answer(states: dict[TopicPartition, PartitionState], fence: int) -> object:
        real(states, fence)
        return real(states, fence)  # as the session sends it again

    monkeypatch.setattr(cluster.zk, "set_partition_states", loses_its_answer)
    _become_controller(cluster)
    assert cluster.leader_isr(led) == (1, (1, 2), 5)
