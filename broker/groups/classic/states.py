"""The phases of a classic group, as the table that is executed.

`TABLE` says for each state what an event leads to: an effect and the next state. `ClassicGroup.take` is the only thing
that sets the state; `Rebalancer.fire` takes an event and then runs the effect, under the group's lock. An event that a
state does not list is refused, and changes nothing.
"""

from __future__ import annotations

from enum import Enum, auto


class GroupState(Enum):
    """A state and its name on the wire."""

    EMPTY = "Empty"
    """No members; offsets may remain."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Waits for the members to join (again)."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Join answers are out; waits for the leader's assignment."""
    STABLE = "Stable"
    """The assignment is known."""
    DEAD = "Dead"
    """Unloaded, deleted or replaced; final."""


class Event(Enum):
    """What happens to a group."""

    RESTORED = auto()
    """Members were found in the log, or come over from the consumer protocol."""
    REBALANCE = auto()
    """All members have to join again."""
    MEMBER_GONE = auto()
    """A member left or failed."""
    COUNT_CHANGED = auto()
    """Somebody joined, or an id that was handed out is forgotten: who is missing has to be looked at again."""
    MORE_MEMBERS = auto()
    """The initial delay is over, and somebody new came meanwhile."""
    NOBODY_BACK = auto()
    """The join phase is over, and of all members only static ones are left, of whom none has joined."""
    JOINED = auto()
    """The join phase is over, and somebody has joined."""
    NOBODY_LEFT = auto()
    """The join phase is over, and there are no members."""
    ASSIGNED = auto()
    """The leader's assignment is stored."""
    ASSIGNMENT_LOST = auto()
    """The leader's assignment could not be stored."""
    DISMISSED = auto()
    """The group is another coordinator's, or goes on as one of the other protocol."""
    REMOVED = auto()
    """The group has no members, and is deleted, replaced, or has lost its last offset."""


class Effect(Enum):
    """What is done about it; the methods of `Rebalancer` with these names."""

    NOTHING = auto()
    AWAIT_FIRST_JOINS = auto()
    """Wait the initial delay for the first members (KIP-134)."""
    AWAIT_MORE_JOINS = auto()
    """Wait one more initial delay."""
    AWAIT_JOINS = auto()
    """Wait for all members, for at most the largest rebalance timeout."""
    CALL_BACK = auto()
    """Tell who waits for an assignment that there is none, then AWAIT_JOINS."""
    CHECK_JOINS = auto()
    """End the join phase if nobody is missing."""
    BEGIN_GENERATION = auto()
    """Elect the protocol, answer all joins, and wait for the members' SyncGroups."""
    BECOME_EMPTY = auto()
    """Store a generation without members."""
    HAND_OUT = auto()
    """Give all members their assignment."""
    DISMISS = auto()
    """Answer whoever waits, and end all timers."""


class IllegalTransitionError(Exception):
    """An event that the table does not have for the state: a programming error; nothing was changed."""


_S, _E, _F = GroupState, Event, Effect
Row = dict[Event, tuple[Effect, GroupState]]

_ENDS: Row = {
    _E.DISMISSED: (_F.DISMISS, _S.DEAD),
    _E.REMOVED: (_F.NOTHING, _S.DEAD),
}

TABLE: dict[GroupState, Row] = {
    _S.EMPTY: {
        _E.RESTORED: (_F.NOTHING, _S.STABLE),
        _E.REBALANCE: (_F.AWAIT_FIRST_JOINS, _S.PREPARING_REBALANCE),
        _E.MEMBER_GONE: (_F.NOTHING, _S.EMPTY),
        _E.COUNT_CHANGED: (_F.NOTHING, _S.EMPTY),
        **_ENDS,
    },
    _S.PREPARING_REBALANCE: {
        _E.REBALANCE: (_F.NOTHING, _S.PREPARING_REBALANCE),
        _E.MEMBER_GONE: (_F.CHECK_JOINS, _S.PREPARING_REBALANCE),
        _E.COUNT_CHANGED: (_F.CHECK_JOINS, _S.PREPARING_REBALANCE),
        _E.MORE_MEMBERS: (_F.AWAIT_MORE_JOINS, _S.PREPARING_REBALANCE),
        _E.NOBODY_BACK: (_F.AWAIT_JOINS, _S.PREPARING_REBALANCE),
        _E.JOINED: (_F.BEGIN_GENERATION, _S.COMPLETING_REBALANCE),
        _E.NOBODY_LEFT: (_F.BECOME_EMPTY, _S.EMPTY),
        **_ENDS,
    },
    _S.COMPLETING_REBALANCE: {
        _E.REBALANCE: (_F.CALL_BACK, _S.PREPARING_REBALANCE),
        _E.MEMBER_GONE: (_F.CALL_BACK, _S.PREPARING_REBALANCE),
        _E.COUNT_CHANGED: (_F.NOTHING, _S.COMPLETING_REBALANCE),
        _E.ASSIGNED: (_F.HAND_OUT, _S.STABLE),
        _E.ASSIGNMENT_LOST: (_F.CALL_BACK, _S.PREPARING_REBALANCE),
        **_ENDS,
    },
    _S.STABLE: {
        _E.REBALANCE: (_F.AWAIT_JOINS, _S.PREPARING_REBALANCE),
        _E.MEMBER_GONE: (_F.AWAIT_JOINS, _S.PREPARING_REBALANCE),
        _E.COUNT_CHANGED: (_F.NOTHING, _S.STABLE),
        **_ENDS,
    },
    _S.DEAD: {
        _E.REBALANCE: (_F.NOTHING, _S.DEAD),
        _E.MEMBER_GONE: (_F.NOTHING, _S.DEAD),
        _E.COUNT_CHANGED: (_F.NOTHING, _S.DEAD),
        **_ENDS,
    },
}
