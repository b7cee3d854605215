"""States of a group of the consumer protocol.

Nothing sets them: each follows from what the group holds, the first row that fits.

| state | when |
|---|---|
| Dead | unloaded, deleted or replaced |
| Empty | no members |
| Assigning | the group's epoch is ahead of the target assignment's |
| Reconciling | a member is not STABLE at the epoch of the target assignment |
| Stable | else |
"""

from __future__ import annotations

from enum import Enum


class ConsumerGroupState(Enum):
    """A state and its name on the wire."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"
