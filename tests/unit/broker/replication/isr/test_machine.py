"""The table of an ISR's changes: every phase with every event, as a partition executes it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from broker.replication.isr.changes import EFFECTS
from broker.replication.isr.machine import (
    TABLE,
    IllegalIsrEventError,
    IsrEffect,
    IsrEvent,
    event_of,
)
from broker.replication.isr.state import (
    CommittedIsr,
    IsrPhase,
    IsrState,
    LeaderAndIsr,
    LeaderRecoveryState,
    PendingExpandIsr,
    PendingShrinkIsr,
)
from broker.replication.partition import Partition
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode

P, E, F = IsrPhase, IsrEvent, IsrEffect
RECOVERED, RECOVERING = LeaderRecoveryState


def told(
    *isr: int, recovery: LeaderRecoveryState = RECOVERED, epoch: int = 5, partition_epoch: int = 7
) -> LeaderAndIsr:
    return LeaderAndIsr(1, epoch, isr, recovery, partition_epoch)


LEADS, EXPAND, SHRINK = told(1, 2), told(1, 2, 3), told(1)
WITH: dict[IsrEvent, LeaderAndIsr] = {
    E.LEADS: told(1, 4),
    E.FOLLOWS: told(2, 4, recovery=RECOVERING),
    E.CAUGHT_UP: EXPAND,
    E.LAGGED: SHRINK,
    E.CONFIRMED: told(1, 2, 9),
    E.OUTDATED: told(1, 9, epoch=4),
}
"""What comes with an event."""

WAY: dict[IsrPhase, tuple[tuple[IsrEvent, LeaderAndIsr], ...]] = {
    P.COMMITTED: ((E.LEADS, LEADS),),
    P.PENDING_EXPAND: ((E.LEADS, LEADS), (E.CAUGHT_UP, EXPAND)),
    P.PENDING_SHRINK: ((E.LEADS, LEADS), (E.LAGGED, SHRINK)),
}

ROLES = {E.LEADS: (F.ADOPT, P.COMMITTED), E.FOLLOWS: (F.FORGET, P.COMMITTED), E.CLEARED: (F.FORGET, P.COMMITTED)}
EXPECTED: dict[tuple[IsrPhase, IsrEvent], tuple[IsrEffect, IsrPhase]] = {
    **{(phase, event): outcome for phase in P for event, outcome in ROLES.items()},
    (P.COMMITTED, E.CAUGHT_UP): (F.EXPAND, P.PENDING_EXPAND),
    (P.COMMITTED, E.LAGGED): (F.SHRINK, P.PENDING_SHRINK),
    (P.COMMITTED, E.LATE): (F.NOTHING, P.COMMITTED),
    (P.PENDING_EXPAND, E.CAUGHT_UP): (F.NOTHING, P.PENDING_EXPAND),
    (P.PENDING_EXPAND, E.LAGGED): (F.NOTHING, P.PENDING_EXPAND),
    (P.PENDING_EXPAND, E.CONFIRMED): (F.COMMIT, P.COMMITTED),
    (P.PENDING_EXPAND, E.OUTDATED): (F.KEEP, P.PENDING_EXPAND),
    (P.PENDING_EXPAND, E.REFUSED): (F.REVERT, P.COMMITTED),
    (P.PENDING_EXPAND, E.UNDECIDED): (F.KEEP, P.PENDING_EXPAND),
    (P.PENDING_EXPAND, E.FAILED): (F.ASK_AGAIN, P.PENDING_EXPAND),
    (P.PENDING_EXPAND, E.LATE): (F.NOTHING, P.PENDING_EXPAND),
    (P.PENDING_SHRINK, E.CAUGHT_UP): (F.NOTHING, P.PENDING_SHRINK),
    (P.PENDING_SHRINK, E.LAGGED): (F.NOTHING, P.PENDING_SHRINK),
    (P.PENDING_SHRINK, E.CONFIRMED): (F.COMMIT, P.COMMITTED),
    (P.PENDING_SHRINK, E.OUTDATED): (F.KEEP, P.PENDING_SHRINK),
    (P.PENDING_SHRINK, E.REFUSED): (F.REVERT, P.COMMITTED),
    (P.PENDING_SHRINK, E.UNDECIDED): (F.KEEP, P.PENDING_SHRINK),
    (P.PENDING_SHRINK, E.FAILED): (F.ASK_AGAIN, P.PENDING_SHRINK),
    (P.PENDING_SHRINK, E.LATE): (F.NOTHING, P.PENDING_SHRINK),
}
# the committed and the maximal ISR after an effect; those not listed leave both
SETS: dict[IsrEffect, tuple[tuple[int, ...], frozenset[int]]] = {
    F.ADOPT: ((1, 4), frozenset({1, 4})),
    F.FORGET: ((), frozenset()),
    F.EXPAND: ((1, 2), frozenset({1, 2, 3})),
    F.SHRINK: ((1, 2), frozenset({1, 2})),
    F.COMMIT: ((1, 2, 9), frozenset({1, 2, 9})),
    F.REVERT: ((1, 2), frozenset({1, 2})),
}


def partition_in(phase: IsrPhase) -> Partition:
    nothing: Any = None
    partition = Partition(TopicPartition("t", 0), nothing)
    for event, value in WAY[phase]:
        partition.take(event, value)
    assert partition.isr_state.phase is phase
    return partition


@pytest.mark.parametrize(("phase", "event"), list(product(P, E)), ids=lambda value: value.name)
def test_every_pair_has_its_effect_or_is_refused_without_one(phase: IsrPhase, event: IsrEvent) -> None:
    partition = partition_in(phase)
    before: IsrState = partition.isr_state
    expected = EXPECTED.get((phase, event))
    if expected is None:
        with pytest.raises(IllegalIsrEventError, match=event.name):
            partition.take(event, WITH.get(event))
        assert partition.isr_state is before
        return
    effect, after = expected
    assert partition.take(event, WITH.get(event)) is effect
    state = partition.isr_state
    assert state.phase is after
    if effect in SETS:
        assert (state.isr, state.maximal) == SETS[effect]
    else:
        assert state is before, "a proposal is known by its identity"
    assert state.proposal is (None if after is P.COMMITTED else before.proposal or WITH[event])


def test_the_ways_of_leaving_committed() -> None:
    expand, shrink = partition_in(P.PENDING_EXPAND).isr_state, partition_in(P.PENDING_SHRINK).isr_state
    assert isinstance(expand, PendingExpandIsr)
    assert isinstance(shrink, PendingShrinkIsr)
    assert expand.member == 3
    assert shrink.out_of_sync == frozenset({2})


def test_a_follower_keeps_how_far_its_leader_has_recovered() -> None:
    partition = partition_in(P.COMMITTED)
    partition.take(E.FOLLOWS, told(2, 4, recovery=RECOVERING))
    state = partition.isr_state
    assert isinstance(state, CommittedIsr)
    assert state.recovery_state is RECOVERING


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE], ids=lambda code: code.name)
def test_what_an_error_says_of_the_proposal(code: ErrorCode) -> None:
    if code in (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA):
        expected = E.REFUSED
    elif code.name in (
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
        "FENCED_LEADER_EPOCH",
        "INVALID_UPDATE_VERSION",
        "INVALID_REQUEST",
        "NEW_LEADER_ELECTED",
    ):
        expected = E.UNDECIDED
    else:
        expected = E.FAILED
    assert event_of(code, 5, 7) is expected


@pytest.mark.parametrize(
    ("epoch", "partition_epoch", "expected"),
    [(5, 7, E.CONFIRMED), (5, 8, E.CONFIRMED), (5, 6, E.OUTDATED), (4, 8, E.OUTDATED), (6, 8, E.OUTDATED)],
)
def test_an_answer_has_to_fit_the_epochs(epoch: int, partition_epoch: int, expected: IsrEvent) -> None:
    assert event_of(told(1, 2, epoch=epoch, partition_epoch=partition_epoch), 5, 7) is expected


def test_the_table_is_whole_and_every_effect_of_an_answer_can_be_run() -> None:
    assert set(TABLE) == set(P)
    assert {effect for row in TABLE.values() for effect, _ in row.values()} == set(F)
    answers = (E.CONFIRMED, E.OUTDATED, E.REFUSED, E.UNDECIDED, E.FAILED, E.LATE)
    assert {TABLE[P.PENDING_EXPAND][event][0] for event in answers} == set(EFFECTS)
