"""Which replicas to move so that brokers carry equal loads: pure arithmetic over sizes, racks and placements.

Load of a broker is the share of all bytes that it stores, plus the share of all traffic that it takes where traffic is
given. Racks come first, then leaving brokers, then balance; a replica that stays costs nothing, so moves are only made
while they take a broker that is above the mean closer to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


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

    def __post_init__(self) -> None:
        self.load = dict.fromkeys(self.brokers, 0.0)
        for placement, weight in zip(self.placements, self.weights, strict=True):
            for broker in placement.replicas:
                self.load[broker] = self.load.get(broker, 0.0) + weight

    def move(self, index: int, source: int, target: int) -> None:
        replicas = self.placements[index].replicas
        replicas[replicas.index(source)] = target
        self.load[source] -= self.weights[index]
        self.load[target] += self.weights[index]

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

    def leave(self) -> None:
        """Replicas on brokers that are not in the plan go to others, the largest first."""
        for index in self._largest_first():
            for broker in list(self.placements[index].replicas):
                if broker not in self.brokers:
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
            step = self._next_move(mean, tolerance)
            if step is None:
                return
            self.move(*step)

    def _next_move(self, mean: float, tolerance: float) -> tuple[int, int, int] | None:
        above = sorted((b for b in self.brokers if self.load[b] > mean * (1 + tolerance)), key=lambda b: -self.load[b])
        below = sorted((b for b in self.brokers if self.load[b] < mean), key=lambda b: self.load[b])
        for source in above:
            fits = None
            for index, placement in enumerate(self.placements):
                if source not in placement.replicas or self.weights[index] <= 0:
                    continue
                now = self.crowding(placement.replicas)
                for target in below:
                    if target in placement.replicas or self.crowding_after(index, source, target) > now:
                        continue
                    gain = self._gain(source, target, self.weights[index])
                    if gain > 1e-12 and (fits is None or (gain, self.weights[index]) > fits[0]):
                        fits = ((gain, self.weights[index]), index, target)
            if fits is not None:
                return fits[1], source, fits[2]
        return None

    def _gain(self, source: int, target: int, weight: float) -> float:
        """How much smaller the larger of two loads gets."""
        return self.load[source] - max(self.load[source] - weight, self.load[target] + weight)

    def spread_leaders(self) -> None:
        """Exchange the first replica with another of the same partition; no bytes travel."""
        leaders = _leaders(self.placements, self.brokers)
        for _ in range(10 * len(self.placements) + 100):
            best = None
            for placement in self.placements:
                first = placement.replicas[0]
                for other in placement.replicas[1:]:
                    gap = leaders[first] - leaders[other]
                    if gap >= 2 and (best is None or gap > best[0]):
                        best = (gap, placement, other)
            if best is None:
                return
            _, placement, other = best
            at = placement.replicas.index(other)
            first = placement.replicas[0]
            placement.replicas[0], placement.replicas[at] = other, first
            leaders[first] -= 1
            leaders[other] += 1

    def _largest_first(self) -> list[int]:
        return sorted(range(len(self.placements)), key=lambda index: -self.weights[index])


def make_plan(brokers: Sequence[Broker], placements: Sequence[Placement], *, tolerance: float = 0.05) -> Plan:
    """A plan for these brokers (others that hold replicas are left). ``tolerance`` is how far above the mean a broker
    may stay, as a share of it. Raises PlanError."""
    if not brokers:
        raise PlanError("a plan needs a broker")
    total = sum(p.size * len(p.replicas) for p in placements) or 1
    traffic = sum(p.traffic * len(p.replicas) for p in placements)
    weights = [p.size / total + (p.traffic / traffic if traffic else 0.0) for p in placements]
    by_id = {broker.id: broker for broker in brokers}
    work = [Placement(p.topic, p.partition, list(p.replicas), p.size, p.traffic) for p in placements]
    balancer = _Balancer(by_id, work, weights)
    before = dict(balancer.load)
    balancer.leave()
    balancer.spread_racks()
    balancer.even_out(tolerance)
    balancer.spread_leaders()
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
