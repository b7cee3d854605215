"""Which replicas to move so that brokers carry equal loads: pure arithmetic over sizes, racks and placements.

Load of a broker is the share of all bytes that it stores, plus the share of all traffic that it takes where traffic is
given. Leaving brokers come first, then racks, then balance; a replica that stays costs nothing, so moves are only made
while they take a broker that is above the mean closer to it.

It stands beside the cluster client, whose metadata it plans for, because commands and Spark jobs both use it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

# A replica weighs this many bytes more than it has, so that empty ones are spread as well.
_EMPTY_REPLICA_BYTES = 1
# Moves that take less than this share of the mean load off a broker are not worth making.
_LEAST_GAIN = 1e-6


class PlanError(ValueError):
    """There is no plan: too few brokers for the replicas, for example."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that may hold replicas."""

    id: int
    rack: str | None = None


@dataclass(slots=True)
class Placement:
    """One partition: its replicas, preferred leader first, its size in bytes and its traffic in bytes/s."""

    topic: str
    partition: int
    replicas: list[int]
    size: int = 0
    traffic: float = 0.0


@dataclass(slots=True)
class Plan:
    """What came out: new placements by partition, only those that change, and the bytes that travel."""

    changed: list[Placement]
    bytes_moved: int
    before: dict[int, float]
    after: dict[int, float]
    leaders_before: dict[int, int]
    leaders_after: dict[int, int]

    def to_json(self) -> dict[str, object]:
        """What ``odradek reassign execute`` takes, as Kafka's own tool."""
        partitions = [
            {"topic": p.topic, "partition": p.partition, "replicas": p.replicas, "log_dirs": ["any"] * len(p.replicas)}
            for p in self.changed
        ]
        return {"version": 1, "partitions": partitions}


@dataclass(slots=True)
class _Balancer:
    brokers: dict[int, Broker]
    placements: list[Placement]
    weights: list[float]
    load: dict[int, float] = field(default_factory=dict)
    # Indexes of the placements on each broker.
    held: dict[int, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.load = dict.fromkeys(self.brokers, 0.0)
        self.held = {broker: set() for broker in self.brokers}
        for index, (placement, weight) in enumerate(zip(self.placements, self.weights, strict=True)):
            for broker in placement.replicas:
                self.load[broker] = self.load.get(broker, 0.0) + weight
                self.held.setdefault(broker, set()).add(index)

    def move(self, index: int, source: int, target: int) -> None:
        replicas = self.placements[index].replicas
        replicas[replicas.index(source)] = target
        self.load[source] -= self.weights[index]
        self.load[target] += self.weights[index]
        self.held[source].discard(index)
        self.held[target].add(index)

    def rack_of(self, broker: int) -> str | None:
        known = self.brokers.get(broker)
        return None if known is None else known.rack

    def crowding(self, replicas: Sequence[int]) -> int:
        """How many replicas share a rack with an earlier one; brokers without rack are a rack of their own."""
        racks = [self.rack_of(broker) or f"broker {broker}" for broker in replicas]
        return len(racks) - len(set(racks))

    def crowding_after(self, index: int, source: int, target: int) -> int:
        return self.crowding([target if b == source else b for b in self.placements[index].replicas])

    def best_target(self, index: int, source: int) -> int:
        """The broker for a replica that must go: fewest in one rack, then least loaded."""
        free = [b for b in self.brokers if b not in self.placements[index].replicas]
        if not free:
            placement = self.placements[index]
            raise PlanError(
                f"{placement.topic}-{placement.partition} has {len(placement.replicas)} replicas; "
                f"{len(self.brokers)} brokers are too few for it"
            )
        return min(free, key=lambda b: (self.crowding_after(index, source, b), self.load[b], b))

    def leave(self, leaving: Collection[int]) -> None:
        """Replicas on these brokers go to others, the largest first."""
        for index in self._largest_first():
            for broker in list(self.placements[index].replicas):
                if broker in leaving:
                    self.move(index, broker, self.best_target(index, broker))

    def spread_racks(self) -> None:
        """Move replicas that share a rack while another rack has none of the partition."""
        for index in self._largest_first():
            while True:
                replicas = self.placements[index].replicas
                now = self.crowding(replicas)
                options = [
                    (self.crowding_after(index, source, target), -self.load[source] + self.load[target], source, target)
                    for source in replicas
                    for target in self.brokers
                    if target not in replicas
                ]
                if now == 0 or not options or min(options)[0] >= now:
                    break
                _, _, source, target = min(options)
                self.move(index, source, target)

    def even_out(self, tolerance: float) -> None:
        """From brokers above the mean to those below it, the largest replica that fits first."""
        mean = sum(self.load.values()) / len(self.load)
        for _ in range(10 * len(self.placements) + 100):
            above = [b for b in self.brokers if self.load[b] > mean * (1 + tolerance)]
            below = sorted((b for b in self.brokers if self.load[b] < mean), key=lambda b: self.load[b])
            for source in sorted(above, key=lambda b: -self.load[b]):
                move = self._best_move(source, below, mean * _LEAST_GAIN) if below else None
                if move is not None:
                    self.move(move[0], source, move[1])
                    break
            else:
                return

    def _best_move(self, source: int, below: Sequence[int], least: float) -> tuple[int, int] | None:
        """Index and target of the move from a broker that lowers the larger of two loads most."""
        best, found = (least, 0.0), None
        for index in sorted(self.held[source]):
            weight = self.weights[index]
            # The least loaded broker is the best that a move can have; most placements end here.
            if (self._gain(source, below[0], weight), weight) <= best:
                continue
            placement = self.placements[index]
            now = self.crowding(placement.replicas)
            for target in below:
                gain = (self._gain(source, target, weight), weight)
                if gain <= best:
                    break
                if target not in placement.replicas and self.crowding_after(index, source, target) <= now:
                    best, found = gain, (index, target)
                    break
        return found

    def _gain(self, source: int, target: int, weight: float) -> float:
        """How much smaller the larger of two loads gets."""
        return self.load[source] - max(self.load[source] - weight, self.load[target] + weight)

    def spread_leaders(self) -> None:
        """Exchange the first replica with another of the same partition; no bytes travel."""
        leaders = _leaders(self.placements, self.brokers)
        led: dict[int, set[int]] = {broker: set() for broker in leaders}
        for index, placement in enumerate(self.placements):
            led[placement.replicas[0]].add(index)
        for _ in range(10 * len(self.placements) + 100):
            for first in sorted(leaders, key=lambda b: -leaders[b]):
                others = [
                    (leaders[other], other, index)
                    for index in led[first]
                    for other in self.placements[index].replicas[1:]
                    if leaders[first] - leaders[other] >= 2
                ]
                if others:
                    _, other, index = min(others)
                    break
            else:
                return
            replicas = self.placements[index].replicas
            at = replicas.index(other)
            replicas[0], replicas[at] = other, first
            led[first].discard(index)
            led[other].add(index)
            leaders[first] -= 1
            leaders[other] += 1

    def replace_leaders(self, indexes: Sequence[int]) -> None:
        """Give these placements a new first replica: the one that is first least often."""
        leaders = _leaders(self.placements, self.brokers)
        for index in indexes:
            replicas = self.placements[index].replicas
            leaders[replicas[0]] -= 1
            at = min(range(len(replicas)), key=lambda at: (leaders.get(replicas[at], 0), at))
            replicas[0], replicas[at] = replicas[at], replicas[0]
            leaders[replicas[0]] = leaders.get(replicas[0], 0) + 1

    def _largest_first(self) -> list[int]:
        return sorted(range(len(self.placements)), key=lambda index: -self.weights[index])


def make_plan(brokers: Sequence[Broker], placements: Sequence[Placement], *, tolerance: float = 0.05) -> Plan:
    """A plan for these brokers; others that hold replicas are emptied. ``tolerance`` is how far above the mean a
    broker may stay, as a share of it. Raises PlanError."""
    balancer = _balancer(brokers, placements)
    before = dict(balancer.load)
    balancer.leave(before.keys() - balancer.brokers.keys())
    balancer.spread_racks()
    balancer.even_out(tolerance)
    balancer.spread_leaders()
    return _plan(placements, balancer, before)


def drain_plan(brokers: Sequence[Broker], placements: Sequence[Placement], leaving: Collection[int]) -> Plan:
    """A plan that empties the ``leaving`` brokers and moves nothing else. ``brokers`` are those that may take
    replicas; what is on others, for example on one that is down, stays. Where a leaving broker was the preferred
    leader, the one with the fewest leaders among the partition's becomes it. Raises PlanError."""
    balancer = _balancer([broker for broker in brokers if broker.id not in leaving], placements)
    before = dict(balancer.load)
    balancer.leave(leaving)
    balancer.replace_leaders([index for index, placement in enumerate(placements) if placement.replicas[0] in leaving])
    return _plan(placements, balancer, before)


def _balancer(brokers: Sequence[Broker], placements: Sequence[Placement]) -> _Balancer:
    if not brokers:
        raise PlanError("a plan needs a broker")
    total = sum((p.size + _EMPTY_REPLICA_BYTES) * len(p.replicas) for p in placements)
    traffic = sum(p.traffic * len(p.replicas) for p in placements)
    weights = [(p.size + _EMPTY_REPLICA_BYTES) / total + (p.traffic / traffic if traffic else 0.0) for p in placements]
    work = [Placement(p.topic, p.partition, list(p.replicas), p.size, p.traffic) for p in placements]
    return _Balancer({broker.id: broker for broker in brokers}, work, weights)


def _plan(placements: Sequence[Placement], balancer: _Balancer, before: dict[int, float]) -> Plan:
    work = balancer.placements
    changed = [new for old, new in zip(placements, work, strict=True) if old.replicas != new.replicas]
    moved = sum(
        new.size * len(set(new.replicas) - set(old.replicas)) for old, new in zip(placements, work, strict=True)
    )
    return Plan(changed, moved, before, balancer.load, _leaders(placements, before), _leaders(work, balancer.load))


def _leaders(placements: Sequence[Placement], brokers: Mapping[int, object]) -> dict[int, int]:
    counts = dict.fromkeys(brokers, 0)
    for placement in placements:
        first = placement.replicas[0]
        counts[first] = counts.get(first, 0) + 1
    return counts
