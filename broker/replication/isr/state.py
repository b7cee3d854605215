"""The in-sync set of a partition on its leader, and the one change of it that may be in flight.

| state          | committed ISR | maximal ISR | entered by                      | left by                    |
|----------------|---------------|-------------|---------------------------------|----------------------------|
| committed      | I             | I           | make-leader, success, refusal   | an expansion or a shrink   |
| pending expand | I             | I + member  | a follower that qualifies       | answer, newer LeaderAndIsr |
| pending shrink | I             | I           | the periodic check              | answer, newer LeaderAndIsr |

The maximal ISR is the largest set that may turn out to be in effect: an expansion counts as soon as it is proposed, a
shrink only once it is confirmed. The high watermark and acks=all wait for the maximal set; the min.insync.replicas
tests look at the committed one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


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


class IsrState:
    """Common face of the three states; compared by identity, because an answer belongs to one proposal only."""

    __slots__ = ("committed", "isr", "maximal", "proposal")

    def __init__(
        self, isr: tuple[int, ...], committed: CommittedIsr | None, extra: int | None, proposal: LeaderAndIsr | None
    ) -> None:
        self.isr = isr
        """The committed ISR, in the order in which it was written."""
        self.maximal: frozenset[int] = frozenset(isr) if extra is None else frozenset((*isr, extra))
        self.committed = committed
        """What to go back to when the proposal is refused; `None` if nothing is in flight."""
        self.proposal = proposal

    @property
    def in_flight(self) -> bool:
        return self.proposal is not None


class CommittedIsr(IsrState):
    __slots__ = ("recovery_state",)

    def __init__(self, isr: Sequence[int], recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED) -> None:
        super().__init__(tuple(isr), None, None, None)
        self.recovery_state = recovery_state

    def __repr__(self) -> str:
        return f"CommittedIsr({list(self.isr)})"


class PendingExpandIsr(IsrState):
    __slots__ = ("member",)

    def __init__(self, member: int, committed: CommittedIsr, proposal: LeaderAndIsr) -> None:
        super().__init__(committed.isr, committed, member, proposal)
        self.member = member

    def __repr__(self) -> str:
        return f"PendingExpandIsr({list(self.isr)} + {self.member})"


class PendingShrinkIsr(IsrState):
    __slots__ = ("out_of_sync",)

    def __init__(self, out_of_sync: frozenset[int], committed: CommittedIsr, proposal: LeaderAndIsr) -> None:
        super().__init__(committed.isr, committed, None, proposal)
        self.out_of_sync = out_of_sync

    def __repr__(self) -> str:
        return f"PendingShrinkIsr({list(self.isr)} - {sorted(self.out_of_sync)})"
