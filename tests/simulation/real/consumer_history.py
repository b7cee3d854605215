"""What members of a group of the consumer protocol (KIP-848) were told: a partition has one owner at a time.

A member holds a partition from the answer that gave it on to the request that no longer names it, or until it was
fenced, of which it may hear late. So who may have been fenced is judged by what a coordinator at least lets pass: a
session since the last heartbeat that it answered, and since it became the coordinator; or a rebalance timeout since it
may have decided that the member has to give something up, of which that may hear late, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from network.protocol.errors import ErrorCode
from tests.simulation.real.client import PARTITIONS
from tests.simulation.real.group_history import GroupHistory
from tests.simulation.real.history import History
from tests.simulation.real.runtime import Runtime

SESSION_MS = 1_500
_SESSION_NS = (SESSION_MS - 10) * 1_000_000
"""A little less: timers count whole milliseconds."""
REBALANCE_MS = 4_000
"""Longer than two sessions, so that few are removed for being slow who have heard what they are to give up."""

Place = tuple[bytes, int]
"""Topic id and partition."""


@dataclass
class Hold:
    """`since` is when the request was sent whose answer gave the partition; `turn` counts who was given it."""

    since: int
    turn: int


@dataclass
class Holder:
    """A member, as it knows itself."""

    epoch: int = 0
    holds: dict[Place, Hold] = field(default_factory=dict)
    beats: list[tuple[int, int]] = field(default_factory=list)
    """When those were sent that were answered, and by which broker."""
    topics: frozenset[bytes] = frozenset()
    asked: int | None = None
    """Since when its coordinator may wait for it to give something up; None if it has been told of nothing."""


class ConsumerHistory(GroupHistory):
    """Judges as it grows. `tenures` gives who led the partition that keeps the group, each with its beginning in ns."""

    def __init__(self, history: History, runtime: Runtime, tenures: Callable[[], Sequence[tuple[int, int]]]) -> None:
        super().__init__(history, runtime)
        self._tenures = tenures
        self._worked: dict[int, int] = {}
        """When somebody had the first answer of a tenure."""
        self._holders: dict[str, Holder] = {}
        self._turns: dict[Place, int] = {}
        self._owners_of_epochs: dict[tuple[int, Place], str] = {}

    # -- what members are told -----------------------------------------------------------------------------------------

    def answered(self, member: str, broker: int, sent: int, newest: int, epoch: int, topics: frozenset[bytes]) -> None:
        """A heartbeat that was sent when `newest` was the newest epoch that anybody had been told."""
        holder = self._holders.setdefault(member, Holder())
        if epoch < holder.epoch:
            self.history.broken(f"{member} is told epoch {epoch} after {holder.epoch}")
        if holder.epoch == 0 and epoch < newest:
            self.history.broken(f"{member} joins in epoch {epoch} after somebody was told {newest}")
        holder.epoch = epoch
        holder.topics = topics
        holder.beats.append((sent, broker))
        self.newest = max(self.newest, epoch)
        for at, (began, leader) in enumerate(self._tenures()):
            if leader == broker and began <= sent:
                self._worked.setdefault(at, self.now())

    def given(self, member: str, sent: int, places: frozenset[Place]) -> None:
        """All that a member has now but for what it is to give up."""
        holder = self._holders[member]
        if holder.holds.keys() <= places:
            holder.asked = None
        elif holder.asked is None:
            holder.asked = holder.beats[-2][0] if len(holder.beats) > 1 else 0
        for place in sorted(places):
            owner = self._owners_of_epochs.setdefault((holder.epoch, place), member)
            if owner != member:
                self.history.broken(f"{place} is {owner}'s and {member}'s in epoch {holder.epoch}")
            if place in holder.holds:
                continue
            for other, each in self._holders.items():
                if other != member and place in each.holds and not self._may_be_fenced(each, each.holds[place].since):
                    self.history.broken(f"{member} is given {place}, which {other} has not given up")
            self._turns[place] = turn = self._turns.get(place, 0) + 1
            holder.holds[place] = Hold(sent, turn)

    def gives_up(self, member: str, places: frozenset[Place]) -> None:
        """The member is about to say that it no longer has these."""
        for place in places:
            self._holders[member].holds.pop(place, None)

    def is_coordinator(self, broker: int, sent: int) -> bool:
        """Whether nobody else had become it when this was sent, nor has since."""
        tenures = self._tenures()
        return bool(tenures) and tenures[-1][1] == broker and tenures[-1][0] <= sent

    def refused(self, member: str, code: ErrorCode) -> None:
        """By its coordinator, after an answer to all that it sent, and with nothing to give up."""
        holder = self._holders.get(member)
        if holder is None or not holder.beats:
            return
        if code is not ErrorCode.UNKNOWN_MEMBER_ID or not self._may_be_fenced(holder, holder.beats[-1][0]):
            self.history.broken(f"{member} is told {code.name} in epoch {holder.epoch}, and its session is not over")

    def ends(self, member: str) -> None:
        """It was told that it is none, or goes: it holds nothing any more, and may come again."""
        self._holders.pop(member, None)

    def _may_be_fenced(self, holder: Holder, since: int) -> bool:
        """Whether a coordinator had the right to since then. One goes on until another has begun to answer."""
        now, tenures = self.now(), self._tenures()
        if holder.asked is not None and holder.asked + REBALANCE_MS * 1_000_000 < now:
            return True
        for at, (began, leader) in enumerate(tenures):
            others = [
                self._worked[later]
                for later in range(at + 1, len(tenures))
                if later in self._worked and tenures[later][1] != leader
            ]
            ended = min(others, default=now)
            alive = [sent for sent, broker in holder.beats if broker == leader and sent < ended]
            if max(began, since, *alive) + _SESSION_NS < ended:
                return True
        return False

    # -- commits -------------------------------------------------------------------------------------------------------

    def commits_as(self, member: str, place: Place) -> int:
        """The offset that a member is about to commit for what it holds."""
        turn = self._holders[member].holds[place].turn
        return self.commits(place[1], turn, newest=self._turns[place])

    # -- rest ----------------------------------------------------------------------------------------------------------

    def is_owned(self) -> bool:
        """Whether there are members, and what they subscribe to is held by some that are alive."""
        return any(each.beats for each in self._holders.values()) and not self.unowned()

    def unowned(self) -> list[Place]:
        """What members subscribe to and none that is alive holds; topics have `PARTITIONS` partitions."""
        now = self.now()
        live = [each for each in self._holders.values() if each.beats and now - each.beats[-1][0] < _SESSION_NS]
        held = {place for each in live for place in each.holds}
        topics = {topic for each in self._holders.values() for topic in each.topics}
        return [(topic, at) for topic in sorted(topics) for at in range(PARTITIONS) if (topic, at) not in held]
