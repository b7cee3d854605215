"""The `uniform` assignor: members get equally many partitions, and keep what they have as far as that allows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from broker.groups.consumer.assignors.spec import Members, PartitionCounts, Partitions, TopicIdPartition


def assign_uniform(members: Members, partition_counts: PartitionCounts) -> dict[str, Partitions]:
    """Balanced over all topics together; with different subscriptions, as balanced as these allow."""
    if not members:
        return {}
    subscriptions = {member.topics for member in members.values()}
    if len(subscriptions) == 1:
        return _assign_homogeneous(members, next(iter(subscriptions)), partition_counts)
    return _Heterogeneous(members, partition_counts).assign()


def _assign_homogeneous(
    members: Members, topics: frozenset[bytes], partition_counts: PartitionCounts
) -> dict[str, Partitions]:
    free = set(_partitions(topics, partition_counts))
    share, extra = divmod(len(free), len(members))
    kept = {name: member.current & free for name, member in members.items()}
    # Who has most is first to keep the odd partition, so that a change moves as few as can be.
    order = sorted(members, key=lambda name: (-len(kept[name]), name))
    assigned: dict[str, set[TopicIdPartition]] = {}
    for rank, name in enumerate(order):
        quota = share + (rank < extra)
        # What another member keeps already is not there any more: an assignment of before may be damaged.
        assigned[name] = set(sorted(kept[name] & free)[:quota])
        free -= assigned[name]
    left = deque(sorted(free))
    for rank, name in enumerate(order):
        for _ in range(share + (rank < extra) - len(assigned[name])):
            assigned[name].add(left.popleft())
    return {name: frozenset(partitions) for name, partitions in assigned.items()}


class _Heterogeneous:
    """Members with different subscriptions: keep, give the rest to the least loaded, then level.

    Each step of the levelling moves a partition from a member to one that has at least two less, so the sum of the
    squared sizes falls and the steps end.
    """

    def __init__(self, members: Members, partition_counts: PartitionCounts) -> None:
        self._members = members
        self._subscribers: dict[bytes, list[str]] = {}
        for name in sorted(members):
            for topic in members[name].topics:
                self._subscribers.setdefault(topic, []).append(name)
        # The hardest to place come first: many partitions a subscriber, then few subscribers.
        self._order = sorted(
            _partitions(self._subscribers, partition_counts),
            key=lambda each: (
                -partition_counts[each.topic_id] / len(self._subscribers[each.topic_id]),
                len(self._subscribers[each.topic_id]),
                each.partition,
                each.topic_id,
            ),
        )
        self._owner: dict[TopicIdPartition, str] = {}
        self._size = dict.fromkeys(members, 0)

    def assign(self) -> dict[str, Partitions]:
        self._keep()
        for partition in self._order:
            if partition not in self._owner:
                self._give(partition, self._least_loaded(partition.topic_id))
        self._level()
        assigned: dict[str, set[TopicIdPartition]] = {name: set() for name in self._members}
        for partition, name in self._owner.items():
            assigned[name].add(partition)
        return {name: frozenset(partitions) for name, partitions in assigned.items()}

    def _keep(self) -> None:
        existing = set(self._order)
        for name in sorted(self._members):
            member = self._members[name]
            for partition in sorted(member.current & existing):
                if partition.topic_id in member.topics and partition not in self._owner:
                    self._give(partition, name)

    def _level(self) -> None:
        movable = [partition for partition in self._order if len(self._subscribers[partition.topic_id]) > 1]
        # (topic, from, to) of the moves so far: one is better taken back than crossed by another.
        moves: dict[tuple[bytes, str, str], list[TopicIdPartition]] = {}
        moved = True
        while moved and max(self._size.values()) - min(self._size.values()) > 1:
            moved = False
            for partition in movable:
                source, target = self._owner[partition], self._least_loaded(partition.topic_id)
                if self._size[source] - self._size[target] < 2:
                    continue
                moved = True
                topic = partition.topic_id
                back = moves.get((topic, target, source), [])
                earlier = next((each for each in back if self._owner[each] == source), None)
                if earlier is not None:
                    back.remove(earlier)
                    self._give(earlier, target)
                else:
                    moves.setdefault((topic, source, target), []).append(partition)
                    self._give(partition, target)

    def _least_loaded(self, topic: bytes) -> str:
        return min(self._subscribers[topic], key=lambda name: (self._size[name], name))

    def _give(self, partition: TopicIdPartition, name: str) -> None:
        before = self._owner.get(partition)
        if before is not None:
            self._size[before] -= 1
        self._owner[partition] = name
        self._size[name] += 1


def _partitions(topics: Iterable[bytes], partition_counts: PartitionCounts) -> Iterable[TopicIdPartition]:
    for topic in topics:
        for partition in range(partition_counts[topic]):
            yield TopicIdPartition(topic, partition)
