"""Which brokers get the replicas of a new topic: a pure function over broker ids and racks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from network.protocol.errors import ApiError, ErrorCode
from timer.chance import Chance

MOST_PARTITIONS: Final = 200_000
"""Of a topic. Its znode would need more than twice ZooKeeper's largest (1 MB), and the plan alone a GB for ten million:
a request of a hundred bytes could take the broker's memory."""


def assign_replicas(
    brokers: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    chance: Chance,
    fixed_start_index: int | None = None,
    first_partition: int = 0,
    use_racks: bool = True,
) -> dict[int, list[int]]:
    """Spread `partitions` partitions from number `first_partition` on over `brokers` (id to rack).

    Leaders go round the brokers from a random (or the fixed) start; the other replicas of a partition follow at a
    shift that grows with every round. With racks the round alternates between racks, and no rack and no broker gets
    a second replica of a partition before every rack, every broker, has one.

    Raises `ApiError`: INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, or UNKNOWN_SERVER_ERROR (Kafka's choice) if
    only some brokers have a rack.
    """
    if partitions <= 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if first_partition + partitions > MOST_PARTITIONS:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"A topic can have at most {MOST_PARTITIONS} partitions.")
    if replication_factor <= 0:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > len(brokers):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {len(brokers)}.",
        )
    racks = {broker: rack for broker, rack in brokers.items() if rack is not None} if use_racks else {}
    if not racks:
        ids = sorted(brokers)
        return _without_racks(ids, partitions, replication_factor, fixed_start_index, first_partition, chance)
    if len(racks) != len(brokers):
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "Not all brokers have rack information for replica rack aware assignment."
        )
    return _with_racks(racks, partitions, replication_factor, fixed_start_index, first_partition, chance)


def _start(count: int, fixed: int | None, chance: Chance) -> tuple[int, int]:
    if fixed is not None:
        return fixed, fixed
    return chance.randrange(count), chance.randrange(count)


def _turns(
    count: int, partitions: int, fixed: int | None, first_partition: int, chance: Chance
) -> Iterator[tuple[int, int, int]]:
    """(partition, index of its leader, shift of its followers): leaders go round, and each round shifts by one more."""
    start, shift = _start(count, fixed, chance)
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        yield partition, (partition + start) % count, shift


def _follower_index(first: int, shift: int, replica: int, count: int) -> int:
    return (first + 1 + (shift + replica) % (count - 1)) % count


def _without_racks(
    ids: Sequence[int], partitions: int, factor: int, fixed: int | None, first_partition: int, chance: Chance
) -> dict[int, list[int]]:
    count = len(ids)
    assignment: dict[int, list[int]] = {}
    for partition, first, shift in _turns(count, partitions, fixed, first_partition, chance):
        followers = [ids[_follower_index(first, shift, replica, count)] for replica in range(factor - 1)]
        assignment[partition] = [ids[first], *followers]
    return assignment


def alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """Broker ids so that neighbours are in different racks: one of each rack in turn, racks by name, ids ascending."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    ordered: list[int] = []
    for turn in range(max(len(ids) for ids in by_rack.values())):
        ordered.extend(by_rack[rack][turn] for rack in sorted(by_rack) if turn < len(by_rack[rack]))
    return ordered


def _with_racks(
    racks: Mapping[int, str], partitions: int, factor: int, fixed: int | None, first_partition: int, chance: Chance
) -> dict[int, list[int]]:
    ids = alternate_racks(racks)
    count = len(ids)
    rack_count = len(set(racks.values()))
    assignment: dict[int, list[int]] = {}
    for partition, first, shift in _turns(count, partitions, fixed, first_partition, chance):
        replicas = [ids[first]]
        used_racks = {racks[ids[first]]}
        step = 0
        while len(replicas) < factor:
            # The shift is in whole racks: a follower starts from another rack than the leader's.
            candidate = ids[_follower_index(first, shift * rack_count, step, count)]
            step += 1
            rack_taken = racks[candidate] in used_racks and len(used_racks) < rack_count
            broker_taken = candidate in replicas and len(set(replicas)) < count
            if not rack_taken and not broker_taken:
                replicas.append(candidate)
                used_racks.add(racks[candidate])
        assignment[partition] = replicas
    return assignment
