"""The machines of partitions and replicas: every state with every state that may be asked for, as they execute it.

On the model of ZooKeeper; what brokers are sent is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import pytest

from broker.config.versions import MetadataVersion
from controller.config import ControllerConfig
from controller.context import ControllerContext
from controller.partition_state_machine import PartitionStateMachine, StateChangeFailed
from controller.replica_state_machine import ReplicaStateMachine
from controller.request_batch import RequestBatch, ResponseHandlers
from controller.states import (
    PARTITION_TABLE,
    REPLICA_TABLE,
    PartitionEffect,
    PartitionReplica,
    PartitionStatus,
    ReplicaEffect,
    ReplicaStatus,
)
from controller.zk import paths
from controller.zk.client import ZkClient
from controller.zk.ops import Create
from controller.zk.payloads import PartitionState, ReplicaAssignment
from network.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from network.protocol.messages.stop_replica import StopReplicaRequest
from network.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.simulation.zookeeper import ModelSession, ZooKeeperModel
from tests.unit.controller.harness import RecordingChannels, broker_info, leaderships, metadata, stopped, tp
from timer.clock import ManualClock

P, R, PE, RE = PartitionStatus, ReplicaStatus, PartitionEffect, ReplicaEffect
PARTITION = tp("t-0")
BROKERS = (1, 2, 3)
REPLICA = PartitionReplica(PARTITION, 2)
EPOCH = 4


class Told(NamedTuple):
    """What brokers were sent about the partition: (broker, is-new) of LeaderAndIsr, (broker, delete) of StopReplica."""

    roles: set[tuple[int, bool]] = set()
    stops: set[tuple[int, bool]] = set()
    metadata: set[int] = set()


class Machines:
    """Both machines of a controller that knows three brokers and one partition of theirs."""

    def __init__(self) -> None:
        self.server = ZooKeeperModel(ManualClock())
        self.zk = ZkClient(ModelSession(self.server))
        self.zk.create_startup_paths()
        self.zk.session.submit([Create(paths.CONTROLLER_EPOCH, b"4"), Create("/brokers/topics/t", b"")])
        self.context, self.channels = ControllerContext(), RecordingChannels(answer=False)
        self.context.epoch = EPOCH
        for broker in BROKERS:
            self.context.brokers[broker] = broker_info(broker)
        self.channels.start(self.context.brokers.values())
        self.context.topic_ids["t"] = bytes(range(16))
        self.context.set_assignment(PARTITION, ReplicaAssignment(BROKERS))
        config = ControllerConfig(1, MetadataVersion("3.9"))
        ignored: Callable[..., None] = lambda *_: None  # noqa: E731
        batch = RequestBatch(config, self.context, self.channels, ResponseHandlers(ignored, ignored, ignored))
        self.partitions = PartitionStateMachine(config, self.context, self.zk, batch)
        self.replicas = ReplicaStateMachine(config, self.context, self.zk, batch)

    def change(self, *targets: PartitionStatus) -> Any:
        """The result of the last change for the partition, if there is one."""
        results = {}
        for target in targets:
            results = self.partitions.change([PARTITION], target, self.partitions.offline_rule())
        return results.get(PARTITION)

    def change_replica(self, *targets: ReplicaStatus) -> None:
        for target in targets:
            self.replicas.change([REPLICA], target)

    @property
    def state(self) -> PartitionState | None:
        """The state znode."""
        return self.zk.partition_states([PARTITION]).get(PARTITION)

    def take(self) -> Told:
        """What was sent since the last call."""
        told = Told(set(), set(), set())
        for sent in self.channels.sent:
            if isinstance(sent.request, LeaderAndIsrRequest):
                told.roles.add((sent.broker, leaderships(sent)[PARTITION].is_new))
            elif isinstance(sent.request, StopReplicaRequest):
                told.stops.add((sent.broker, stopped(sent)[PARTITION][1]))
            elif isinstance(sent.request, UpdateMetadataRequest):
                told.metadata.update({sent.broker} if PARTITION in metadata(sent) else ())
        self.channels.sent.clear()
        return told


# -- partitions --------------------------------------------------------------------------------------------------------

PARTITION_WAY = {
    P.NON_EXISTENT: (),
    P.NEW: (P.NEW,),
    P.ONLINE: (P.NEW, P.ONLINE),
    P.OFFLINE: (P.NEW, P.ONLINE, P.OFFLINE),
}
"""What leads a partition to each state."""

PARTITION_EXPECTED = {
    (P.NON_EXISTENT, P.NEW): PE.NOTHING,
    (P.NEW, P.ONLINE): PE.CREATE_LEADERSHIP,
    (P.NEW, P.OFFLINE): PE.NOTHING,
    (P.ONLINE, P.ONLINE): PE.ELECT,
    (P.ONLINE, P.OFFLINE): PE.NOTHING,
    (P.OFFLINE, P.ONLINE): PE.ELECT,
    (P.OFFLINE, P.OFFLINE): PE.NOTHING,
    (P.OFFLINE, P.NON_EXISTENT): PE.NOTHING,
}
PARTITION_TOLD = {
    PE.NOTHING: Told(),
    PE.CREATE_LEADERSHIP: Told(roles={(broker, True) for broker in BROKERS}, metadata=set(BROKERS)),
    PE.ELECT: Told(roles={(broker, False) for broker in BROKERS}, metadata=set(BROKERS)),
}


def partition_in(status: PartitionStatus) -> Machines:
    machines = Machines()
    machines.change(*PARTITION_WAY[status])
    assert machines.context.partition_state(PARTITION) is status
    machines.take()
    return machines


@pytest.mark.parametrize(("status", "target"), list(product(P, P)), ids=lambda value: value.name)
def test_every_pair_of_a_partition_has_its_effect_or_is_refused(
    status: PartitionStatus, target: PartitionStatus, caplog: pytest.LogCaptureFixture
) -> None:
    machines = partition_in(status)
    before, writes = machines.state, len(machines.server.writes)
    result = machines.change(target)
    effect = PARTITION_EXPECTED.get((status, target))
    after = machines.state
    if effect is None:
        assert isinstance(result, StateChangeFailed)
        assert f"Partition t-0 cannot go from {status.name} to {target.name}, only from" in caplog.text
        assert machines.context.partition_state(PARTITION) is status
        assert machines.take() == Told()
        assert (after, len(machines.server.writes)) == (before, writes)
        return
    assert not caplog.records
    assert machines.context.partition_state(PARTITION) is target
    assert machines.take() == PARTITION_TOLD[effect]
    if effect is PE.NOTHING:
        assert (result, after, len(machines.server.writes)) == (None, before, writes)
    elif effect is PE.CREATE_LEADERSHIP:
        assert result is None
        assert after == PartitionState(1, 0, BROKERS, EPOCH)
    else:
        assert before is not None
        assert result == after == PartitionState(1, before.leader_epoch + 1, BROKERS, EPOCH, partition_epoch=1)
    assert machines.context.leadership.get(PARTITION) == after


def test_a_new_partition_without_a_live_replica_stays_new(caplog: pytest.LogCaptureFixture) -> None:
    machines = partition_in(P.NEW)
    machines.context.brokers.clear()
    assert machines.change(P.ONLINE) is None
    assert "No live replica among (1, 2, 3) to lead new partition t-0" in caplog.text
    assert (machines.context.partition_state(PARTITION), machines.state) == (P.NEW, None)
    assert machines.take() == Told()


def test_an_election_without_outcome_leaves_the_state(caplog: pytest.LogCaptureFixture) -> None:
    machines = partition_in(P.OFFLINE)
    before = machines.state
    machines.context.brokers.clear()
    assert isinstance(machines.change(P.ONLINE), StateChangeFailed)
    assert "No leader was elected for" in caplog.text
    assert (machines.context.partition_state(PARTITION), machines.state) == (P.OFFLINE, before)


def test_what_was_elected_before_an_error_is_online() -> None:
    """One partition is written; the other has to be read again, and ZooKeeper fails."""
    machines = partition_in(P.OFFLINE)
    other = tp("t-1")
    machines.context.set_assignment(other, ReplicaAssignment(BROKERS))
    for target in PARTITION_WAY[P.OFFLINE]:
        machines.partitions.change([other], target, machines.partitions.offline_rule())
    reads: list[int] = []

    def rule(states: dict[Any, PartitionState]) -> Any:
        reads.append(len(states))
        if len(reads) == 2:
            raise OSError("no answer")
        # Somebody writes the second partition between the read and the write.
        machines.zk.set_partition_states({other: states[other]}, 0)
        return machines.partitions.offline_rule()(states)

    results = machines.partitions.change([PARTITION, other], P.ONLINE, rule)
    assert reads == [2, 1]
    assert all(isinstance(result, OSError) for result in results.values())
    states = machines.context.partition_states
    assert (states[PARTITION], states[other]) == (P.ONLINE, P.OFFLINE)


def test_the_partition_table_is_whole() -> None:
    assert set(PARTITION_TABLE) == set(P)
    assert {effect for row in PARTITION_TABLE.values() for effect in row.values()} == set(PE)
    assert set(Machines().partitions._effects) == set(PE)
    assert [status.value for status in (P.NEW, P.ONLINE, P.OFFLINE, P.NON_EXISTENT)] == [0, 1, 2, 3]


# -- replicas ----------------------------------------------------------------------------------------------------------

REPLICA_WAY = {
    R.NON_EXISTENT: (),
    R.NEW: (R.NEW,),
    R.ONLINE: (R.NEW, R.ONLINE),
    R.OFFLINE: (R.NEW, R.OFFLINE),
    R.DELETION_STARTED: (R.NEW, R.OFFLINE, R.DELETION_STARTED),
    R.DELETION_SUCCESSFUL: (R.NEW, R.OFFLINE, R.DELETION_STARTED, R.DELETION_SUCCESSFUL),
    R.DELETION_INELIGIBLE: (R.NEW, R.OFFLINE, R.DELETION_INELIGIBLE),
}
"""What leads a replica to each state."""

REPLICA_EXPECTED = {
    (R.NON_EXISTENT, R.NEW): RE.INTRODUCE,
    (R.NEW, R.ONLINE): RE.ENSURE_ASSIGNED,
    (R.NEW, R.OFFLINE): RE.STOP,
    (R.ONLINE, R.ONLINE): RE.ANNOUNCE,
    (R.ONLINE, R.OFFLINE): RE.STOP,
    (R.OFFLINE, R.ONLINE): RE.ANNOUNCE,
    (R.OFFLINE, R.OFFLINE): RE.STOP,
    (R.OFFLINE, R.DELETION_STARTED): RE.DELETE,
    (R.OFFLINE, R.DELETION_INELIGIBLE): RE.NOTHING,
    (R.DELETION_STARTED, R.DELETION_SUCCESSFUL): RE.NOTHING,
    (R.DELETION_STARTED, R.DELETION_INELIGIBLE): RE.NOTHING,
    (R.DELETION_SUCCESSFUL, R.NON_EXISTENT): RE.FORGET,
    (R.DELETION_INELIGIBLE, R.ONLINE): RE.ANNOUNCE,
    (R.DELETION_INELIGIBLE, R.OFFLINE): RE.STOP,
}
REPLICA_TOLD = {
    RE.NOTHING: Told(),
    RE.INTRODUCE: Told(roles={(2, True)}, metadata=set(BROKERS)),
    RE.ENSURE_ASSIGNED: Told(),
    RE.ANNOUNCE: Told(roles={(2, False)}, metadata=set(BROKERS)),
    RE.STOP: Told(roles={(1, False), (3, False)}, stops={(2, False)}, metadata=set(BROKERS)),
    RE.DELETE: Told(stops={(2, True)}),
    RE.FORGET: Told(),
}


def replica_in(status: ReplicaStatus) -> Machines:
    """Broker 2's replica of a partition that broker 1 leads."""
    machines = partition_in(P.ONLINE)
    machines.change_replica(*REPLICA_WAY[status])
    assert machines.context.replica_state(REPLICA) is status
    machines.take()
    return machines


@pytest.mark.parametrize(("status", "target"), list(product(R, R)), ids=lambda value: value.name)
def test_every_pair_of_a_replica_has_its_effect_or_is_refused(
    status: ReplicaStatus, target: ReplicaStatus, caplog: pytest.LogCaptureFixture
) -> None:
    machines = replica_in(status)
    before, writes = machines.state, len(machines.server.writes)
    assert before is not None
    machines.change_replica(target)
    effect = REPLICA_EXPECTED.get((status, target))
    after = machines.state
    if effect is None:
        assert f"Replica 2 of t-0 cannot go from {status.name} to {target.name}, only from" in caplog.text
        assert machines.context.replica_state(REPLICA) is status
        assert machines.take() == Told()
        assert len(machines.server.writes) == writes
        return
    assert not caplog.records
    assert machines.context.replica_state(REPLICA) is target
    assert (REPLICA in machines.context.replica_states) == (target is not R.NON_EXISTENT)
    assert machines.take() == REPLICA_TOLD[effect]
    if effect is RE.STOP and 2 in before.isr:
        assert after == PartitionState(1, before.leader_epoch + 1, (1, 3), EPOCH, partition_epoch=1)
    else:
        assert (after, len(machines.server.writes)) == (before, writes)
    assert machines.context.leadership[PARTITION] == after
    assert machines.context.replicas(PARTITION) == ((1, 3) if effect is RE.FORGET else BROKERS)


def test_the_leader_is_not_introduced_as_new(caplog: pytest.LogCaptureFixture) -> None:
    machines = partition_in(P.ONLINE)
    machines.replicas.change([PartitionReplica(PARTITION, 1)], R.NEW)
    assert "Replica 1 of t-0 cannot be new: it leads the partition" in caplog.text
    assert machines.context.replica_state(PartitionReplica(PARTITION, 1)) is R.NON_EXISTENT
    assert machines.take() == Told()


def test_a_new_replica_that_is_not_assigned_is_added_when_it_goes_online() -> None:
    machines = partition_in(P.NEW)
    machines.context.set_assignment(PARTITION, ReplicaAssignment((1, 3)))
    machines.change_replica(R.NEW, R.ONLINE)
    assert machines.context.replicas(PARTITION) == (1, 3, 2)


@pytest.mark.parametrize("target", [R.NEW, R.ONLINE, R.OFFLINE], ids=lambda value: value.name)
def test_without_leadership_nobody_is_told_of_a_role(target: ReplicaStatus) -> None:
    machines = partition_in(P.NEW)
    machines.change_replica(R.NEW)
    if target is not R.NEW:
        machines.change_replica(target)
    assert machines.take() == Told(stops={(2, False)} if target is R.OFFLINE else set())
    assert machines.context.replica_state(REPLICA) is target


def test_replicas_of_a_topic_that_is_being_deleted_are_stopped_and_the_others_not_told() -> None:
    machines = replica_in(R.ONLINE)
    machines.context.queue_for_deletion(["t"])
    machines.change_replica(R.OFFLINE)
    assert machines.take() == Told(stops={(2, False)})
    assert machines.state == PartitionState(1, 1, (1, 3), EPOCH, partition_epoch=1)


def test_the_last_of_the_isr_stays_in_it_and_no_longer_leads() -> None:
    machines = partition_in(P.NEW)
    machines.context.set_assignment(PARTITION, ReplicaAssignment((2,)))
    machines.change(P.ONLINE)
    machines.replicas.change([REPLICA], R.NEW)
    machines.change_replica(R.ONLINE)
    assert machines.context.replica_state(REPLICA) is R.NON_EXISTENT, "the leader is not new"
    machines.context.set_replica_state(REPLICA, R.ONLINE)
    machines.change_replica(R.OFFLINE)
    assert machines.state == PartitionState(-1, 1, (2,), EPOCH, partition_epoch=1)


def test_the_replica_table_is_whole() -> None:
    assert set(REPLICA_TABLE) == set(R)
    assert {effect for row in REPLICA_TABLE.values() for effect in row.values()} == set(RE)
    assert set(Machines().replicas._effects) == set(RE)
    assert [status.value for status in R] == [1, 2, 3, 4, 5, 6, 7]
