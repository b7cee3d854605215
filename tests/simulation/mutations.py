"""Planted faults: each breaks one rule of the protocol, and the simulation has to notice every one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from controller import isr_changes, leader_election_rules, partition_state_machine, replica_state_machine
from controller.context import ControllerContext
from controller.controller import Controller
from controller.isr_changes import IsrChanges
from controller.leader_election_rules import Election
from controller.reassignment import Reassignment
from controller.replica_state_machine import ReplicaStateMachine
from controller.zk.access import UNFENCED, ZnodeAccess
from controller.zk.payloads import PartitionState
from network.protocol.errors import ErrorCode
from tests.simulation.broker_model import BrokerModel, Replica
from tests.simulation.planted import Mutations, Patch

MUTATIONS = Mutations()
mutation = MUTATIONS.add


@mutation
def writes_are_not_fenced(patch: Patch) -> None:
    real = ZnodeAccess.fenced
    patch.setattr(ZnodeAccess, "fenced", lambda self, requests, _: real(self, requests, UNFENCED))


@mutation
def election_ignores_the_isr(patch: Patch) -> None:
    def elect(assignment: Any, state: PartitionState, online: Any, **_: Any) -> Election:
        live = tuple(item for item in assignment.replicas if item in online)
        if not live:
            return Election(None)
        return Election(replace(state, leader=live[0], isr=live, leader_epoch=state.leader_epoch + 1), live)

    patch.setattr(partition_state_machine, "elect_offline", elect)


@mutation
def preferred_election_ignores_the_isr(patch: Patch) -> None:
    def elect(assignment: Any, state: PartitionState, online: Any) -> Election:
        first = assignment.replicas[0]
        if first not in online:
            return Election(None)
        return Election(
            replace(state, leader=first, isr=(first,), leader_epoch=state.leader_epoch + 1), assignment.replicas
        )

    patch.setattr(partition_state_machine, "elect_preferred", elect)


@mutation
def elections_do_not_raise_the_leader_epoch(patch: Patch) -> None:
    def elected(state: PartitionState, leader: int, isr: tuple[int, ...]) -> PartitionState:
        return replace(state, leader=leader, isr=isr)

    patch.setattr(leader_election_rules, "_elected", elected)


@mutation
def the_last_isr_member_is_removed(patch: Patch) -> None:
    real = replace

    def forgetful(state: Any, **changes: Any) -> Any:
        if isinstance(state, PartitionState) and "isr" in changes and changes.get("leader") == -1:
            changes["isr"] = ()
        return real(state, **changes)

    patch.setattr(replica_state_machine, "replace", forgetful)


@mutation
def dead_replicas_may_join_the_isr(patch: Patch) -> None:
    real = ControllerContext.is_live
    patch.setattr(ControllerContext, "is_live", lambda self, broker: True)
    patch.setattr(
        ControllerContext,
        "is_replica_online",
        lambda self, broker, partition, or_shutting_down=False: (
            real(self, broker) or (or_shutting_down and broker in self.brokers)
        ),
    )


@mutation
def alter_partition_takes_old_leader_epochs(patch: Patch) -> None:
    real = IsrChanges._check

    def check(self: Any, wish: Any, version: int) -> Any:
        outcome = real(self, wish, version)
        if outcome is not ErrorCode.FENCED_LEADER_EPOCH:
            return outcome
        current = self._core.context.leadership[wish.partition]
        object.__setattr__(
            wish, "state", replace(wish.state, partition_epoch=current.partition_epoch)
        )  # fmt: skip
        return None

    patch.setattr(IsrChanges, "_check", check)


@mutation
def brokers_obey_old_controllers_and_epochs(patch: Patch) -> None:
    patch.setattr(BrokerModel, "_fence", lambda self, request: ErrorCode.NONE)
    real = BrokerModel._change_role

    def change(self: BrokerModel, partition: Any, topic: Any, state: Any) -> ErrorCode:
        replica = self.replicas.get(partition)
        if replica is not None:
            replica.leader_epoch, replica.partition_epoch = -1, -1
        return real(self, partition, topic, state)

    patch.setattr(BrokerModel, "_change_role", change)


@mutation
def high_watermark_forgets_the_pending_isr(patch: Patch) -> None:
    patch.setattr(Replica, "maximal_isr", lambda self: set(self.isr))


@mutation
def high_watermark_is_the_leaders_log_end(patch: Patch) -> None:
    def advance(self: BrokerModel, replica: Replica) -> Any:
        replica.high_watermark = len(replica.log)
        return list(replica.log)

    patch.setattr(BrokerModel, "advance", advance)


@mutation
def a_lagging_follower_joins_the_isr(patch: Patch) -> None:
    def expanded(self: BrokerModel, partition: Any, follower: int) -> Any:
        replica = self.replicas[partition]
        if replica.leader != self.id or replica.pending_isr is not None or follower in replica.isr:
            return None
        replica.fetched[follower] = len(replica.log)
        return [*replica.isr, follower]

    patch.setattr(BrokerModel, "expanded_isr", expanded)


@mutation
def a_diverging_fetch_counts_as_progress(patch: Patch) -> None:
    real = BrokerModel.serve_fetch

    def serve(self: BrokerModel, partition: Any, follower: int, epoch: int, log: Any) -> Any:
        records = real(self, partition, follower, epoch, log)
        if records is not None:
            replica = self.replicas[partition]
            replica.fetched[follower] = len(replica.log)
        return records

    patch.setattr(BrokerModel, "serve_fetch", serve)


@mutation
def an_old_leader_serves_fetches_of_newer_epochs(patch: Patch) -> None:
    real = BrokerModel.serve_fetch

    def serve(self: BrokerModel, partition: Any, follower: int, epoch: int, log: Any) -> Any:
        replica = self.replicas.get(partition)
        return None if replica is None else real(self, partition, follower, replica.leader_epoch, log[:-1])

    patch.setattr(BrokerModel, "serve_fetch", serve)


@mutation
def reassignment_does_not_wait_for_the_isr(patch: Patch) -> None:
    patch.setattr(Reassignment, "_is_complete", lambda self, partition, assignment: True)
    patch.setattr(Reassignment, "_drops_the_isr", lambda self, partition, assignment: False)


@mutation
def dead_replicas_stay_in_the_isr(patch: Patch) -> None:
    def keep(self: ReplicaStateMachine, broker: int, partitions: Sequence[Any]) -> Any:
        return {item: self._context.leadership[item] for item in partitions if item in self._context.leadership}

    patch.setattr(ReplicaStateMachine, "_remove_from_isr", keep)


@mutation
def the_expired_controller_goes_on(patch: Patch) -> None:
    """It neither resigns nor is its queue cleared, and it answers from memory."""
    patch.setattr(Controller, "_expire", lambda self: None)
    patch.setattr(Controller, "_maybe_resign", lambda self: None)
    real = ZnodeAccess.fenced
    patch.setattr(ZnodeAccess, "fenced", lambda self, requests, _: real(self, requests, UNFENCED))


@mutation
def failover_does_not_read_the_states(patch: Patch) -> None:
    real = ControllerContext.set_leadership

    def forget(self: ControllerContext, partition: Any, state: PartitionState) -> None:
        if state.controller_epoch == self.epoch:
            real(self, partition, state)

    patch.setattr(ControllerContext, "set_leadership", forget)


@mutation
def controlled_shutdown_keeps_the_leaver_in_the_isr(patch: Patch) -> None:
    def elect(assignment: Any, state: PartitionState, registered: Any, leaving: Any) -> Election:
        recipients = tuple(item for item in assignment.replicas if item in registered)
        for leader in recipients:
            if leader not in leaving:
                changed = replace(state, leader=leader, isr=(leader,), leader_epoch=state.leader_epoch + 1)
                return Election(changed, recipients)
        return Election(None)

    patch.setattr(partition_state_machine, "elect_for_controlled_shutdown", elect)


@mutation
def lost_answers_are_not_recognised(patch: Patch) -> None:
    def write(self: IsrChanges, writes: Any) -> Any:
        return self._core.zk.set_partition_states(writes, self._core.fence)

    patch.setattr(isr_changes.IsrChanges, "_write", write)


@mutation
def leaders_forget_that_they_were_replaced(patch: Patch) -> None:
    real = BrokerModel._change_role

    def change(self: BrokerModel, partition: Any, topic: Any, state: Any) -> ErrorCode:
        replica = self.replicas.get(partition)
        before = None if replica is None else replica.leader
        code = real(self, partition, topic, state)
        replica = self.replicas.get(partition)
        if replica is not None and before == self.id and replica.leader != self.id:
            replica.leader = self.id
        return code

    patch.setattr(BrokerModel, "_change_role", change)
