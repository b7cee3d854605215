"""The `range` assignor: contiguous ranges of each topic, in the order of the members.

Members that subscribe to the same topics get the same partition numbers of topics of one size, so records with one
key meet at one member. Nothing is kept from before.
"""

from __future__ import annotations

from broker.groups.consumer.assignors.spec import Members, PartitionCounts, Partitions, TopicIdPartition


def assign_range(members: Members, partition_counts: PartitionCounts) -> dict[str, Partitions]:
    """Per topic of P partitions and M subscribers: P // M for each, one more for the first P % M."""
    order = sorted(members, key=lambda name: _rank(name, members[name].instance_id))
    subscribers: dict[bytes, list[str]] = {}
    for name in order:
        for topic in members[name].topics:
            subscribers.setdefault(topic, []).append(name)
    assigned: dict[str, set[TopicIdPartition]] = {name: set() for name in members}
    for topic, names in subscribers.items():
        share, extra = divmod(partition_counts[topic], len(names))
        start = 0
        for rank, name in enumerate(names):
            end = start + share + (rank < extra)
            assigned[name].update(TopicIdPartition(topic, partition) for partition in range(start, end))
            start = end
    return {name: frozenset(partitions) for name, partitions in assigned.items()}


def _rank(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    """Static members first, by instance id, so that a restart under a new member id changes nothing."""
    return (True, member_id) if instance_id is None else (False, instance_id)
