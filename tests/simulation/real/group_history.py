"""What members of a group were told: one owner a partition and generation, and no commit is forgotten."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.real.history import History
from tests.simulation.real.runtime import Runtime

NOT_YET = 1 << 62


@dataclass
class Commit:
    """Of one offset, which no other commit has. Times are the simulation's, in ns."""

    offset: int
    began: int
    ended: int
    newest: int
    """The newest generation that had begun when it was sent."""
    generation: int


class GroupHistory:
    """Judges as it grows, like `History`."""

    def __init__(self, history: History, runtime: Runtime) -> None:
        self.history = history
        self.newest = -1
        """The newest generation that a member has an assignment of."""
        self._runtime = runtime
        self._owners: dict[tuple[int, int], str] = {}
        self._commits: dict[int, list[Commit]] = {}
        self._last = 0

    def now(self) -> int:
        return self._runtime.now_ns

    def joined(self, name: str, generation: int, at_least: int) -> None:
        if generation < at_least:
            self.history.broken(f"{name} joins generation {generation} after {at_least} had begun")

    def owns(self, name: str, member_id: str, generation: int, partitions: list[int]) -> None:
        self.newest = max(self.newest, generation)
        for partition in partitions:
            owner = self._owners.setdefault((generation, partition), member_id)
            if owner != member_id:
                self.history.broken(f"{name} and {owner} both own partition {partition} in generation {generation}")

    def commits(self, partition: int, generation: int, newest: int | None = None) -> int:
        """The offset that somebody is about to commit, in a generation of which `newest` is the newest now."""
        self._last += 1
        newest = self.newest if newest is None else newest
        self._commits.setdefault(partition, []).append(Commit(self._last, self.now(), NOT_YET, newest, generation))
        return self._last

    def committed(self, name: str, partition: int, offset: int) -> None:
        commit = next(each for each in self._commits[partition] if each.offset == offset)
        commit.ended = self.now()
        if commit.generation < commit.newest:
            self.history.broken(f"{name} commits in generation {commit.generation}, after {commit.newest} had begun")

    def fetched(self, name: str, partition: int, offset: int, began: int) -> None:
        """Told to somebody who asked at `began`: the last commit before, or one that was under way or came later."""
        commits = self._commits.get(partition, [])
        before = [each for each in commits if each.ended < began]
        told = next((each for each in commits if each.offset == offset), None)
        if told is None:
            if before or offset >= 0:
                self.history.broken(f"{name} is told {offset} for partition {partition}, where {before[-1:]} was")
        elif later := [each for each in before if each.began > told.ended]:
            self.history.broken(f"{name} is told {told} for partition {partition}, after {later[-1]}")
