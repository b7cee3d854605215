"""The coordinator of a working group is killed, stopped, and moved by election; one is Apache Kafka's. 2 minutes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.clients.group_harness import MemberProcess, Members
from tests.clients.offsets import committed_offsets
from tests.reference import kafka
from tests.support.cluster import Cluster
from tests.support.coordinators import GROUP, INTERNAL, Moves, Way, eventually
from tests.support.replication import IdempotentLoad, create_topic, read_back, wait_in_sync

TOPIC = "work"
ASSIGNMENT = [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1], [1, 0, 2], [2, 1, 0]]
NAMES = {(TOPIC, number) for number in range(len(ASSIGNMENT))}
SETTINGS = {
    "zookeeper.session.timeout.ms": "4000",
    "replica.lag.time.max.ms": "4000",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "3",
}
WAYS: tuple[Way, ...] = ("killed", "stopped")
# Longer than the ZooKeeper session of a killed broker: nobody is put out while nobody coordinates.
SESSION = {"session_timeout_ms": 30_000}


ODRADEK = ["odradek"] * 3
MIXED = ["kafka", "odradek", "odradek"]


@pytest.fixture
def cluster(request: pytest.FixtureRequest, make_cluster: Callable[..., Cluster]) -> Cluster:
    """Broker 0 is the preferred coordinator of all groups, broker 1 the next."""
    if "kafka" in request.param:
        kafka.require()
    cluster = make_cluster(request.param, settings=SETTINGS)
    create_topic(cluster, TOPIC, ASSIGNMENT)
    create_topic(cluster, INTERNAL[GROUP], [[0, 1, 2]] * 3, config={"cleanup.policy": "compact"})
    return cluster


@pytest.fixture
def members(cluster: Cluster) -> Iterator[Members]:
    made = Members(cluster.bootstrap)
    try:
        yield made
    finally:
        made.stop()


class Watch:
    """A group at work, checked after every move."""

    def __init__(self, cluster: Cluster, members: Members, group: str) -> None:
        self._cluster = cluster
        self._members = members
        self._group = group
        self.load = IdempotentLoad(cluster.bootstrap, TOPIC, len(ASSIGNMENT))
        self._offsets: dict[tuple[str, int], int] = {}
        self._assignments: list[int] = []
        self.active = list(members.all)

    @property
    def acknowledged(self) -> list[str]:
        """Every value that the topic holds."""
        return [value.decode() for values in self.load.acknowledged.values() for _, value in values]

    def join(self, library: str, **options: int) -> MemberProcess:
        """One more member; does not wait for it."""
        member = self._members.add(library, self._group, TOPIC, **options)
        self.active.append(member)
        return member

    def settle(self) -> None:
        """Balanced and committing in every partition."""
        self._members.wait_balanced(self.active, NAMES)
        self._assignments = [member.assignments for member in self.active]
        self.check_progress()

    def check_progress(self) -> None:
        """Offsets that were committed stand, and every partition's goes on from there."""
        found = committed_offsets(self._cluster, self._group)
        for name, offset in self._offsets.items():
            assert found.get(name, -1) >= offset, f"{name}: {offset} was committed, now {found.get(name)}"

        def advanced() -> bool:
            self._offsets = committed_offsets(self._cluster, self._group)
            return set(self._offsets) == NAMES and all(self._offsets[each] > found.get(each, 0) for each in NAMES)

        eventually(advanced, lambda: f"no progress from {found} to {self._offsets}: {self._members.all}")

    def check_undisturbed(self) -> None:
        """Members carried on with their assignment: the new coordinator knew them."""
        assert [member.assignments for member in self.active] == self._assignments, self._members.all
        self._members.wait_balanced(self.active, NAMES)

    def finish(self) -> None:
        """No record is lost, and everything is committed."""
        self.load.finish()
        self._members.wait_values(self.acknowledged)
        read = read_back(self._cluster, TOPIC, len(ASSIGNMENT))
        self.load.check(read)
        ends = {(TOPIC, number): len(values) for number, values in read.items()}
        eventually(
            lambda: committed_offsets(self._cluster, self._group) == ends,
            lambda: f"committed {committed_offsets(self._cluster, self._group)}, written {ends}",
        )


@pytest.mark.parametrize("cluster", [ODRADEK, MIXED], ids=["odradek", "to and from Apache Kafka"], indirect=True)
def test_group_goes_on_while_its_coordinator_moves(cluster: Cluster, members: Members) -> None:
    group = "moving"
    moves = Moves(cluster, group, GROUP)
    for library in ("confluent", "kafka-python", "aiokafka"):
        members.add(library, group, TOPIC, **SESSION)
    watch = Watch(cluster, members, group)
    watch.settle()
    # From the preferred leader away, and back by election.
    for way in WAYS:
        moves.away(way)
        watch.check_progress()
        moves.restore()
        wait_in_sync(cluster, TOPIC)
        watch.check_progress()
        moves.away("elected")
        watch.check_progress()
        watch.check_undisturbed()
    watch.finish()
    # Whoever reads a record commits it before it reads on, so nothing is read twice.
    places = Counter((topic, number, offset) for each in members.all for topic, number, offset, _ in each.records)
    assert set(places.values()) == {1}, places.most_common(3)


@pytest.mark.parametrize("cluster", [ODRADEK], ids=["odradek"], indirect=True)
def test_coordinator_moves_during_rebalances(cluster: Cluster, members: Members) -> None:
    group = "changing"
    moves = Moves(cluster, group, GROUP)
    members.add("confluent", group, TOPIC, **SESSION)
    watch = Watch(cluster, members, group)
    watch.settle()
    for way, library in zip(WAYS, ("kafka-python", "confluent"), strict=True):
        # One joins, and its coordinator is gone before the others have joined again.
        watch.join(library, **SESSION)
        moves.away(way)
        watch.settle()
        moves.restore()
        wait_in_sync(cluster, TOPIC)
        # One dies, and the next coordinator finds out; then another leaves.
        doomed = watch.join("aiokafka", session_timeout_ms=6_000)
        watch.settle()
        watch.active.remove(doomed)
        doomed.kill()
        moves.away("elected")
        watch.settle()
        watch.active.pop(0).leave()
        watch.settle()
    watch.finish()
