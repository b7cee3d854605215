"""The changes of an ISR, as the table that is executed (KIP-497).

`TABLE` says for each phase what an event leads to: an effect and the next phase. `Partition.take` is the only thing
that sets the state, with `transition`; what an effect does beyond the state is in `changes.py`. An event that a phase
does not list is refused, and changes nothing.

Nothing in flight is ever guessed at: as long as it is not known what has become of a proposal, its phase stays until
the controller says more, and with it the conservative maximal ISR.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from broker.replication.isr.state import (
    CommittedIsr,
    IsrPhase,
    IsrState,
    LeaderAndIsr,
    PendingExpandIsr,
    PendingShrinkIsr,
)
from network.protocol.errors import ErrorCode


class IsrEvent(Enum):
    """What happens to an ISR. What comes with an event is a `LeaderAndIsr`, where a value is named."""

    LEADS = auto()
    """The controller makes this broker leader; with what it says."""
    FOLLOWS = auto()
    """The controller makes this broker follower; with what it says."""
    CLEARED = auto()
    """The partition is deleted here, or its log directory failed."""
    CAUGHT_UP = auto()
    """A follower outside the ISR may join; with the proposal."""
    LAGGED = auto()
    """Members have not been caught up for `replica.lag.time.max.ms`; with the proposal."""
    CONFIRMED = auto()
    """The proposal has been written; with what is in effect now."""
    OUTDATED = auto()
    """It has been written, but in another leader epoch or before the partition epoch that is known here."""
    REFUSED = auto()
    """It has certainly not been written."""
    UNDECIDED = auto()
    """Fenced, or another version is there: only the next LeaderAndIsr tells what is in effect."""
    FAILED = auto()
    """No word on the proposal: the controller failed or is another, or the network did."""
    LATE = auto()
    """An answer to a proposal that is not in flight any more."""


class IsrEffect(Enum):
    """What is done about it."""

    NOTHING = auto()
    ADOPT = auto()
    """The ISR is what the controller says."""
    FORGET = auto()
    """No ISR is known: only a leader has one."""
    EXPAND = auto()
    """Ask for one more member. It counts for the high watermark and acks=all at once."""
    SHRINK = auto()
    """Ask to drop members. They count until that is confirmed."""
    COMMIT = auto()
    """The ISR and partition epoch of the answer hold."""
    REVERT = auto()
    """Back to the ISR from before the proposal; the next fetch or check may propose again."""
    KEEP = auto()
    """Leave the proposal in flight, and do not ask again."""
    ASK_AGAIN = auto()
    """Send the same proposal once more."""


class IllegalIsrEventError(Exception):
    """An event that the table does not have for the phase: a programming error; nothing was changed."""


_P, _E, _F = IsrPhase, IsrEvent, IsrEffect
Row = dict[IsrEvent, tuple[IsrEffect, IsrPhase]]

_ROLES: Row = {
    _E.LEADS: (_F.ADOPT, _P.COMMITTED),
    _E.FOLLOWS: (_F.FORGET, _P.COMMITTED),
    _E.CLEARED: (_F.FORGET, _P.COMMITTED),
}
"""The controller's word ends whatever is in flight."""


def _in_flight(phase: IsrPhase) -> Row:
    return {
        **_ROLES,
        _E.CAUGHT_UP: (_F.NOTHING, phase),
        _E.LAGGED: (_F.NOTHING, phase),
        _E.CONFIRMED: (_F.COMMIT, _P.COMMITTED),
        _E.OUTDATED: (_F.KEEP, phase),
        _E.REFUSED: (_F.REVERT, _P.COMMITTED),
        _E.UNDECIDED: (_F.KEEP, phase),
        _E.FAILED: (_F.ASK_AGAIN, phase),
        _E.LATE: (_F.NOTHING, phase),
    }


TABLE: dict[IsrPhase, Row] = {
    _P.COMMITTED: {
        **_ROLES,
        _E.CAUGHT_UP: (_F.EXPAND, _P.PENDING_EXPAND),
        _E.LAGGED: (_F.SHRINK, _P.PENDING_SHRINK),
        _E.LATE: (_F.NOTHING, _P.COMMITTED),
    },
    _P.PENDING_EXPAND: _in_flight(_P.PENDING_EXPAND),
    _P.PENDING_SHRINK: _in_flight(_P.PENDING_SHRINK),
}

ANSWERS: dict[ErrorCode, IsrEvent] = {
    ErrorCode.OPERATION_NOT_ATTEMPTED: _E.REFUSED,
    ErrorCode.INELIGIBLE_REPLICA: _E.REFUSED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _E.UNDECIDED,
    ErrorCode.UNKNOWN_TOPIC_ID: _E.UNDECIDED,
    ErrorCode.FENCED_LEADER_EPOCH: _E.UNDECIDED,
    ErrorCode.INVALID_UPDATE_VERSION: _E.UNDECIDED,
    ErrorCode.INVALID_REQUEST: _E.UNDECIDED,
    ErrorCode.NEW_LEADER_ELECTED: _E.UNDECIDED,
}
"""What an error of AlterPartition says of the proposal; any other says nothing (FAILED)."""


def event_of(answer: LeaderAndIsr | ErrorCode, leader_epoch: int, partition_epoch: int) -> IsrEvent:
    """What an answer to the proposal in flight means, with the epochs that are known here."""
    if isinstance(answer, ErrorCode):
        return ANSWERS.get(answer, IsrEvent.FAILED)
    if answer.leader_epoch != leader_epoch or answer.partition_epoch < partition_epoch:
        return IsrEvent.OUTDATED
    return IsrEvent.CONFIRMED


def transition(state: IsrState, event: IsrEvent, told: LeaderAndIsr | None = None) -> tuple[IsrEffect, IsrState]:
    """What `event` leads to; `told` is what comes with it.

    Raises IllegalIsrEventError when the table does not have the event for this phase.
    """
    found = TABLE[state.phase].get(event)
    if found is None:
        raise IllegalIsrEventError(f"{event.name} with {state!r}")
    effect, phase = found
    make = _NEXT.get(effect)
    after = state if make is None else make(state, told)
    assert after.phase is phase, f"{effect.name} makes {after!r}, not {phase.name}"
    return effect, after


# -- the state that an effect leaves; those not listed leave it as it is -----------------------------------------------


def _as_told(_: IsrState, told: LeaderAndIsr | None) -> IsrState:
    assert told is not None
    return CommittedIsr(told.isr, told.recovery_state)


def _forget(_: IsrState, told: LeaderAndIsr | None) -> IsrState:
    return CommittedIsr(()) if told is None else CommittedIsr((), told.recovery_state)


def _expand(state: IsrState, told: LeaderAndIsr | None) -> IsrState:
    assert told is not None
    assert isinstance(state, CommittedIsr)
    [member] = set(told.isr).difference(state.isr)
    return PendingExpandIsr(member, state, told)


def _shrink(state: IsrState, told: LeaderAndIsr | None) -> IsrState:
    assert told is not None
    assert isinstance(state, CommittedIsr)
    return PendingShrinkIsr(frozenset(state.isr).difference(told.isr), state, told)


def _revert(state: IsrState, _: LeaderAndIsr | None) -> IsrState:
    assert state.committed is not None
    return state.committed


_NEXT: dict[IsrEffect, Callable[[IsrState, LeaderAndIsr | None], IsrState]] = {
    IsrEffect.ADOPT: _as_told,
    IsrEffect.FORGET: _forget,
    IsrEffect.EXPAND: _expand,
    IsrEffect.SHRINK: _shrink,
    IsrEffect.COMMIT: _as_told,
    IsrEffect.REVERT: _revert,
}
