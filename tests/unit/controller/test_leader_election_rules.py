"""The four election rules, exhaustively over small clusters, and the tables of states."""

from __future__ import annotations

import itertools

import pytest

from controller.leader_election_rules import (
    elect_for_controlled_shutdown,
    elect_for_reassignment,
    elect_offline,
    elect_preferred,
)
from controller.zk.payloads import RECOVERED, RECOVERING, PartitionState, ReplicaAssignment

IDS = (1, 2, 3)
SUBSETS = [subset for size in range(4) for subset in itertools.combinations(IDS, size)]
ORDERS = list(itertools.permutations(IDS))


def state(isr: tuple[int, ...], recovery: int = RECOVERED) -> PartitionState:
    return PartitionState(1, 5, isr, 7, recovery, partition_epoch=11)


@pytest.mark.parametrize("order", ORDERS)
def test_offline(order: tuple[int, ...]) -> None:
    assignment = ReplicaAssignment(order)
    for isr, online, unclean in itertools.product(SUBSETS, SUBSETS, (False, True)):
        found = elect_offline(assignment, state(isr), online, unclean_allowed=unclean, record_recovery=True)
        clean = [item for item in order if item in online and item in isr]
        alive = [item for item in order if item in online]
        if clean:
            assert found.state is not None
            assert (found.state.leader, found.unclean) == (clean[0], False)
            # The order of the ISR is kept, the dead leave it.
            assert found.state.isr == tuple(item for item in isr if item in online)
            assert found.state.recovery_state == RECOVERED
        elif unclean and alive:
            assert found.state is not None
            assert (found.state.leader, found.state.isr, found.unclean) == (alive[0], (alive[0],), True)
            assert found.state.recovery_state == RECOVERING
        else:
            assert found.state is None
            continue
        assert found.recipients == tuple(alive)
        assert found.state.leader_epoch == 6
        assert found.state.partition_epoch == 11


def test_unclean_election_before_ibp_3_2_records_nothing() -> None:
    found = elect_offline(ReplicaAssignment((1, 2)), state((2,)), {1}, unclean_allowed=True, record_recovery=False)
    assert found.state is not None
    assert found.state.recovery_state == RECOVERED


@pytest.mark.parametrize("order", ORDERS)
def test_preferred(order: tuple[int, ...]) -> None:
    for isr, online in itertools.product(SUBSETS, SUBSETS):
        found = elect_preferred(ReplicaAssignment(order), state(isr, RECOVERING), online)
        if order[0] in isr and order[0] in online:
            assert found.state == PartitionState(order[0], 6, isr, 7, RECOVERING, 11)
            assert found.recipients == order
        else:
            assert found.state is None
    assert elect_preferred(ReplicaAssignment(()), state((1,)), {1}).state is None


@pytest.mark.parametrize("order", ORDERS)
def test_reassignment(order: tuple[int, ...]) -> None:
    for removing, isr, online in itertools.product(SUBSETS, SUBSETS, SUBSETS):
        assignment = ReplicaAssignment(order, removing=removing)
        target = [item for item in order if item not in removing]
        found = elect_for_reassignment(assignment, state(isr), online)
        able = [item for item in target if item in isr and item in online]
        if able:
            assert found.state == PartitionState(able[0], 6, isr, 7, RECOVERED, 11)
            assert found.recipients == tuple(target)
        else:
            assert found.state is None


@pytest.mark.parametrize("order", ORDERS)
def test_controlled_shutdown(order: tuple[int, ...]) -> None:
    for isr, registered, leaving in itertools.product(SUBSETS, SUBSETS, SUBSETS):
        found = elect_for_controlled_shutdown(ReplicaAssignment(order), state(isr), registered, leaving)
        able = [item for item in order if item in isr and item in registered and item not in leaving]
        if able:
            assert found.state is not None
            assert found.state.leader == able[0]
            assert found.state.isr == tuple(item for item in isr if item not in leaving)
            assert found.recipients == tuple(item for item in order if item in registered)
        else:
            # With no other member of the ISR the partition stays where it is.
            assert found.state is None
