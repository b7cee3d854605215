"""Followers that are to begin with what this broker has just come to lead.

A follower takes partitions up with its next fetch, and its present one may still wait for `replica.fetch.wait.max.ms`:
that long nothing new is replicated, and no produce with acks=all is answered. So a leader ends the waits of such
followers, and keeps them short until each has asked for what it should, for at most as long as they would wait anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from broker.replication.partition import Partition
from timer.clock import Clock

SHORT_WAIT_MS = 50
"""A follower may hear of its new partitions a little later than the leader."""


class FollowerKey(NamedTuple):
    """What the waiting fetches of a follower are watched by, beside their partitions."""

    replica_id: int


class AwaitedFollowers:
    """By id. Thread-safe: each entry is replaced as a whole."""

    def __init__(self, clock: Clock, longest_wait_ms: int, is_alive: Callable[[int], bool]) -> None:
        self._clock = clock
        self._longest_wait_ms = longest_wait_ms
        self._is_alive = is_alive
        # One partition stands for all of a LeaderAndIsr: a follower begins with them together.
        self._awaited: dict[int, tuple[Partition, int]] = {}

    def expect(self, partitions: Iterable[Partition]) -> list[FollowerKey]:
        """This broker leads `partitions` anew; returns the keys of the waits to be ended."""
        latest: dict[int, Partition] = {}
        for partition in partitions:
            latest.update(dict.fromkeys(list(partition.remote_replicas), partition))
        until = self._clock.monotonic_ms() + self._longest_wait_ms
        awaited = {replica: (partition, until) for replica, partition in latest.items() if self._is_alive(replica)}
        self._awaited.update(awaited)
        return [FollowerKey(replica) for replica in awaited]

    def is_awaited(self, replica_id: int) -> bool:
        """Whether it has not asked yet for what it was expected to, and may still do so soon."""
        entry = self._awaited.get(replica_id)
        if entry is None:
            return False
        partition, until = entry
        replica = partition.remote_replicas.get(replica_id)
        has_begun = replica is None or replica.log_end_offset >= 0
        if not has_begun and partition.is_leader and self._clock.monotonic_ms() < until:
            return True
        if self._awaited.get(replica_id) is entry:
            self._awaited.pop(replica_id, None)
        return False
