"""The controller writes from what it knows, and reads only where that is not what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from controller.zk import paths
from controller.zk.ops import SetData
from controller.zk.payloads import PartitionState, encode_partition_state
from log.topic_partition import TopicPartition
from tests.unit.controller.harness import Harness, tp

pytestmark = pytest.mark.both_zookeepers

LED, FOLLOWED = tp("t-0"), tp("t-1")
Reads = list[TopicPartition]


def watched_reads(cluster: Harness, monkeypatch: pytest.MonkeyPatch) -> Reads:
    found: Reads = []
    real = cluster.zk.partition_states

    def partition_states(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        found.extend(partitions)
        return real(partitions)

    monkeypatch.setattr(cluster.zk, "partition_states", partition_states)
    return found


def lose_broker_2(cluster: Harness) -> None:
    cluster.kill(2)
    cluster.run_until(lambda: 2 not in cluster.context.brokers, "the end of broker 2")
    cluster.settle()


def test_nothing_is_read_of_what_the_controller_wrote_itself(cluster: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.create_topic("t", {0: [2, 1, 3], 1: [1, 2, 3]})
    reads = watched_reads(cluster, monkeypatch)
    lose_broker_2(cluster)
    # Out of the ISR by the election already: that is made sure of.
    assert reads == [LED]
    assert cluster.leader_isr(LED) == (1, (1, 3), 1)
    assert cluster.leader_isr(FOLLOWED) == (1, (1, 3), 1)


def test_what_somebody_else_wrote_is_read_before_it_is_decided_on(
    cluster: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("t", {0: [2, 1, 3], 1: [1, 2, 3]})
    # Broker 1 would be elected by what the controller remembers, and has not every record.
    for partition, isr in ((LED, (2, 3)), (FOLLOWED, (1, 2))):
        written = encode_partition_state(replace(cluster.state(partition), isr=isr))
        (answer,) = cluster.zk.session.submit([SetData(paths.partition_state(partition), written)])
        assert answer.ok
    reads = watched_reads(cluster, monkeypatch)
    lose_broker_2(cluster)
    assert reads.count(FOLLOWED) == 1
    assert cluster.leader_isr(LED) == (3, (3,), 1)
    assert cluster.leader_isr(FOLLOWED) == (1, (1,), 1)


def test_it_looks_before_it_says_that_nobody_can_lead(cluster: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader with `inter.broker.protocol.version` of old, which writes ISRs itself, has taken broker 3 in."""
    cluster.create_topic("t", {0: [2, 3], 1: [2]})
    cluster.context.set_leadership(LED, replace(cluster.state(LED), isr=(2,)))
    reads = watched_reads(cluster, monkeypatch)
    lose_broker_2(cluster)
    assert cluster.leader_isr(LED) == (3, (3,), 1)
    # And nobody can lead the other, however often it is looked at.
    assert cluster.leader_isr(FOLLOWED)[0] == -1
    assert reads.count(FOLLOWED) <= 2


def test_where_leaders_write_the_states_they_are_read_first(
    make: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make(version="2.6")
    cluster.start(2, 3)
    cluster.create_topic("t", {0: [2, 1, 3], 1: [1, 2, 3]})
    reads = watched_reads(cluster, monkeypatch)
    lose_broker_2(cluster)
    assert sorted(reads) == [LED, LED, FOLLOWED]
    assert cluster.leader_isr(LED) == (1, (1, 3), 1)
