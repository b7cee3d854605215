"""The in-sync set of a partition on its leader, and the one change of it that may be in flight.

| phase          | committed ISR | maximal ISR |
|----------------|---------------|-------------|
| committed      | I             | I           |
| pending expand | I             | I + member  |
| pending shrink | I             | I           |

The maximal ISR is the largest set that may turn out to be in effect: an expansion counts as soon as it is proposed, a
shrink only once it is confirmed. The high watermark and acks=all wait for the maximal set; the min.insync.replicas
tests look at the committed one. `machine.py` says what leads from one phase to another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from functools import lru_cache
from typing import ClassVar


class IsrPhase(Enum):
    """Whether a change is in flight, and which."""

    COMMITTED = auto()
    PENDING_EXPAND = auto()
    PENDING_SHRINK = auto()


class LeaderRecoveryState(IntEnum):
    RECOVERED = 0
    RECOVERING = 1


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """The replicated state of a partition. In ZooKeeper mode the partition epoch is the version of its state znode."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    recovery_state: LeaderRecoveryState
    partition_epoch: int
    joins: tuple[int, int] | None = None
    """Of a proposal: who is to join the ISR, and in which broker epoch it had what it needs for that (KIP-903), -1 if
    that is not known. None if nobody joins."""


@lru_cache(maxsize=1024)
def _members(isr: tuple[int, ...]) -> frozenset[int]:
    """One object for all partitions that have these: a set of three takes more than two hundred bytes."""
    return frozenset(isr)


class IsrState:
    """Common face of the three states; compared by identity, because an answer belongs to one proposal only."""

    __slots__ = ("committed", "isr", "maximal", "proposal")
    phase: ClassVar[IsrPhase]

    def __init__(
        self, isr: tuple[int, ...], committed: CommittedIsr | None, extra: int | None, proposal: LeaderAndIsr | None
    ) -> None:
        self.isr = isr
        """The committed ISR, in the order in which it was written."""
        self.maximal = _members(isr if extra is None else (*isr, extra))
        self.committed = committed
        """What to go back to when the proposal is refused; `None` if nothing is in flight."""
        self.proposal = proposal


class CommittedIsr(IsrState):
    __slots__ = ("recovery_state",)
    phase = IsrPhase.COMMITTED

    def __init__(self, isr: Sequence[int], recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED) -> None:
        super().__init__(tuple(isr), None, None, None)
        self.recovery_state = recovery_state

    def __repr__(self) -> str:
        return f"CommittedIsr({list(self.isr)})"


class PendingExpandIsr(IsrState):
    __slots__ = ("member",)
    phase = IsrPhase.PENDING_EXPAND

    def __init__(self, member: int, committed: CommittedIsr, proposal: LeaderAndIsr) -> None:
        super().__init__(committed.isr, committed, member, proposal)
        self.member = member

    def __repr__(self) -> str:
        return f"PendingExpandIsr({list(self.isr)} + {self.member})"


class PendingShrinkIsr(IsrState):
    __slots__ = ("out_of_sync",)
    phase = IsrPhase.PENDING_SHRINK

    def __init__(self, out_of_sync: frozenset[int], committed: CommittedIsr, proposal: LeaderAndIsr) -> None:
        super().__init__(committed.isr, committed, None, proposal)
        self.out_of_sync = out_of_sync

    def __repr__(self) -> str:
        return f"PendingShrinkIsr({list(self.isr)} - {sorted(self.out_of_sync)})"
