"""Planted faults in the replicas' own code: each breaks one rule, and the simulation has to notice every one.

Not among them, because it takes the simulation too many seeds to notice: truncating to the high watermark (KIP-101), a
new leader that takes its followers for caught up, and late or undecided answers to AlterPartition that are taken for
others. `tests/unit/broker/replication` asserts those but for the first by themselves.
"""

from __future__ import annotations

from typing import Any

from broker.replication import partition_reads
from broker.replication.follower import fetcher
from broker.replication.follower.fetcher import ReplicaFetcher
from broker.replication.follower.truncation_target import Truncation
from broker.replication.isr import changes, machine
from broker.replication.isr.machine import IsrEffect, IsrEvent
from broker.replication.isr.remote_replica import RemoteReplica
from broker.replication.isr.state import CommittedIsr, IsrPhase, PendingExpandIsr, PendingShrinkIsr
from broker.replication.partition import Partition
from tests.simulation.planted import Mutations, Patch

MUTATIONS = Mutations()
mutation = MUTATIONS.add


# -- the follower ------------------------------------------------------------------------------------------------------


@mutation
def a_follower_keeps_what_its_leader_does_not_have(patch: Patch) -> None:
    patch.setattr(fetcher, "truncation_target", lambda log, fetch_offset, leader: Truncation(log.log_end_offset, True))


@mutation
def answers_of_an_older_leader_epoch_are_applied(patch: Patch) -> None:
    def apply(self: ReplicaFetcher, tp: Any, asked: Any, answer: Any) -> None:
        partition, state = self._partitions.get(tp), self._states.get(tp)
        if partition is not None and partition.log is not None:
            if answer.records and asked.fetch_offset == partition.log.log_end_offset:
                partition.append_as_follower(answer.records)
            if state is not None:
                self._states[tp] = state.with_(fetch_offset=partition.log.log_end_offset)

    patch.setattr(ReplicaFetcher, "_apply", apply)


@mutation
def a_follower_takes_the_high_watermark_for_its_own(patch: Patch) -> None:
    """Never lets its high watermark come back to what it has."""
    real = ReplicaFetcher._append

    def append(self: ReplicaFetcher, tp: Any, answer: Any, state: Any) -> None:
        answer.high_watermark = 1 << 40
        real(self, tp, answer, state)

    patch.setattr(ReplicaFetcher, "_append", append)


# -- the leader --------------------------------------------------------------------------------------------------------


@mutation
def a_diverging_fetch_is_answered_with_records(patch: Patch) -> None:
    patch.setattr(partition_reads, "find_divergence", lambda log, data: None)


@mutation
def a_follower_that_lags_may_join(patch: Patch) -> None:
    patch.setattr(changes, "_may_join", lambda partition, replica: partition.is_leader)


@mutation
def the_high_watermark_waits_for_nobody(patch: Patch) -> None:
    def advance(self: Partition) -> bool:
        log = self.leader_log()
        return log is not None and log.maybe_increment_high_watermark(log.log_end_offset_metadata) is not None

    patch.setattr(Partition, "maybe_advance_high_watermark", advance)


# -- the machine of the ISR --------------------------------------------------------------------------------------------


@mutation
def a_member_that_is_proposed_does_not_count_yet(patch: Patch) -> None:
    real = PendingExpandIsr.__init__

    def init(self: PendingExpandIsr, *arguments: Any) -> None:
        real(self, *arguments)
        self.maximal = frozenset(self.isr)

    patch.setattr(PendingExpandIsr, "__init__", init)
    # It is held back by the followers that are nearly there, too.
    patch.setattr(RemoteReplica, "is_caught_up", lambda self, leader_end_offset, *_: False)


@mutation
def a_member_that_is_to_go_does_not_count_any_more(patch: Patch) -> None:
    real = PendingShrinkIsr.__init__

    def init(self: PendingShrinkIsr, *arguments: Any) -> None:
        real(self, *arguments)
        self.maximal = frozenset(self.isr) - self.out_of_sync

    patch.setattr(PendingShrinkIsr, "__init__", init)


@mutation
def a_shrink_holds_although_it_was_refused(patch: Patch) -> None:
    real = machine.transition

    def transition(state: Any, event: IsrEvent, told: Any = None) -> Any:
        if state.phase is IsrPhase.PENDING_SHRINK and event in (IsrEvent.UNDECIDED, IsrEvent.FAILED):
            return IsrEffect.COMMIT, CommittedIsr(state.proposal.isr)
        return real(state, event, told)

    patch.setattr("broker.replication.partition.transition", transition)
    patch.setitem(changes.EFFECTS, IsrEffect.COMMIT, lambda *_: None)
