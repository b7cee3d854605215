"""States of a classic group, as a table."""

from __future__ import annotations

from enum import Enum


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
    """Unloaded or deleted; final."""


VALID_PREVIOUS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}


class IllegalTransitionError(Exception):
    """A transition that the table does not have: a programming error; nothing was changed."""
