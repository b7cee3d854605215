"""The four leader election rules, as pure functions over one partition.

Each returns the new leadership (leader epoch raised by one, partition epoch still the expected znode version) or None
if no replica may lead, and the brokers that have to hear of it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from controller.zk.payloads import RECOVERING, PartitionState, ReplicaAssignment


@dataclass(frozen=True, slots=True)
class Election:
    """The outcome for one partition. `unclean`: the leader was not in the ISR, records may be lost."""

    state: PartitionState | None
    recipients: tuple[int, ...] = ()
    unclean: bool = False


def elect_offline(
    assignment: ReplicaAssignment,
    state: PartitionState,
    online: Collection[int],
    *,
    unclean_allowed: bool,
    record_recovery: bool,
) -> Election:
    """For a partition without a live leader: the first assigned replica that is online and in the ISR.

    If there is none and `unclean_allowed`, the first online replica; the ISR is then that one alone. `record_recovery`
    (IBP 3.2) marks such a leader as recovering.
    """
    live = tuple(item for item in assignment.replicas if item in online)
    for leader in live:
        if leader in state.isr:
            isr = tuple(item for item in state.isr if item in online)
            return Election(_elected(state, leader, isr), live)
    if not unclean_allowed or not live:
        return Election(None)
    elected = _elected(state, live[0], (live[0],))
    if record_recovery:
        elected = replace(elected, recovery_state=RECOVERING)
    return Election(elected, live, unclean=True)


def elect_for_reassignment(assignment: ReplicaAssignment, state: PartitionState, online: Collection[int]) -> Election:
    """The first replica of the target that is online and in the ISR."""
    target = assignment.target
    for leader in target:
        if leader in online and leader in state.isr:
            return Election(_elected(state, leader, state.isr), target)
    return Election(None)


def elect_preferred(assignment: ReplicaAssignment, state: PartitionState, online: Collection[int]) -> Election:
    """The first assigned replica, and only if it is online and in the ISR."""
    preferred = assignment.replicas[0] if assignment.replicas else None
    if preferred is not None and preferred in online and preferred in state.isr:
        return Election(_elected(state, preferred, state.isr), assignment.replicas)
    return Election(None)


def elect_for_controlled_shutdown(
    assignment: ReplicaAssignment,
    state: PartitionState,
    online_or_shutting_down: Collection[int],
    shutting_down: Collection[int],
) -> Election:
    """The first assigned replica in the ISR that stays; all that are shutting down leave the ISR in the same write."""
    recipients = tuple(item for item in assignment.replicas if item in online_or_shutting_down)
    for leader in recipients:
        if leader in state.isr and leader not in shutting_down:
            isr = tuple(item for item in state.isr if item not in shutting_down)
            return Election(_elected(state, leader, isr), recipients)
    return Election(None)


def _elected(state: PartitionState, leader: int, isr: tuple[int, ...]) -> PartitionState:
    return replace(state, leader=leader, isr=isr, leader_epoch=state.leader_epoch + 1)
