"""Partitions that rest: those in a follower's fetch session of which there is nothing to tell it.

With sessions (KIP-227) neither request nor answer names what has not changed, but a leader would still look at every
partition with every fetch, and with thousands of them a record with acks=all waits for such looks several times. So a
partition rests once its follower has everything and was told so, and fetches look only at the others. A rest ends
under the partition's lock, by whoever changes what a fetch would find: an append, a move of the high watermark, records
that are deleted, a change of role, epoch or ISR. What changes without that lock (retention raises the log start) is
found by a sweep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from broker.replication.idle_reads import Told, may_rest
from broker.replication.isr.remote_replica import Rest
from broker.replication.partition import Partition
from log.topic_partition import TopicPartition
from timer.purgatory import DelayedOperation

SWEEP_MS = 1_000
"""How often a fetch looks at what rests."""

Watch = Callable[[DelayedOperation, TopicPartition], None]


class Member(Told, Rest, Protocol):
    """A partition of the session."""

    @property
    def topic_partition(self) -> TopicPartition | None:
        """None while nobody knows the name of its topic."""
        ...

    @property
    def is_member(self) -> bool:
        """Not forgotten yet."""
        ...


M = TypeVar("M", bound=Member)


class Standby(Generic[M]):
    """What is to be looked at of one session, and its fetch that waits. Times are milliseconds of the wall clock.

    Lock-free: of each partition only whoever holds that partition's lock puts it among the active ones or takes it
    away, each a single step; and a fetch that begins to wait looks once more.
    """

    __slots__ = ("active", "fetched_ms", "reads", "replica_epoch", "swept_ms", "waiting", "watch")

    def __init__(self, partitions: Iterable[M], now_ms: int) -> None:
        self.active: dict[M, None] = dict.fromkeys(partitions)
        """What does not rest. In the order of the session, and what has woken last."""
        self.fetched_ms = now_ms
        """When the follower last fetched."""
        self.replica_epoch = -1
        self.swept_ms = now_ms
        self.reads = 0
        """How often all partitions would have been read since the last sweep."""
        self.waiting: DelayedOperation | None = None
        self.watch: Watch | None = None

    def begin(self, now_ms: int, replica_epoch: int) -> bool:
        """A fetch comes; returns whether it has to look at everything, as the follower is registered anew."""
        self.fetched_ms = now_ms
        self.reads += 1
        self.waiting = None
        is_new, self.replica_epoch = replica_epoch != self.replica_epoch, replica_epoch
        return is_new

    def members(self) -> list[M]:
        """What is to be looked at. One that was forgotten while it woke is dropped."""
        found = []
        for each in list(self.active):
            if each.is_member:
                found.append(each)
            else:
                self.active.pop(each, None)
        return found

    def wait(self, operation: DelayedOperation, watch: Watch) -> None:
        """The fetch waits as `operation`, which `watch` lets a partition check from now on."""
        self.reads += 1
        self.watch = watch
        self.waiting = operation

    def wake(self, cached: M, tp: TopicPartition) -> None:
        """Under the partition's lock: look at this one again. Who woke it checks the waiting fetch afterwards."""
        self.active[cached] = None
        operation, watch = self.waiting, self.watch
        if operation is not None and watch is not None and not operation.is_completed:
            watch(operation, tp)

    def put_last(self, cached: M) -> None:
        """It has had its turn. One that was forgotten meanwhile stays away."""
        if self.active.pop(cached, cached) is None:
            self.active[cached] = None

    def let_rest(self, cached: M, partition: Partition, replica_id: int) -> None:
        """Look at it no more until something happens, if its follower has everything and knows it."""
        with partition.lock:
            replica = partition.remote_replicas.get(replica_id)
            if replica is not None and may_rest(partition, replica, cached):
                if replica.rest is not cached:
                    # It rested in another session, which the follower may ask next.
                    replica.end_rest(partition.topic_partition)
                replica.rest = cached
                self.active.pop(cached, None)

    def is_due_at(self, now_ms: int) -> bool:
        """Whether the last sweep is long ago then."""
        return not 0 <= now_ms - self.swept_ms < SWEEP_MS  # the clock may be set back

    def sweep(
        self,
        cached: Iterable[M],
        slots: Mapping[TopicPartition, object],
        replica_id: int,
        note: Callable[[str, int], None],
    ) -> None:
        """Of all of the session wake what should not rest, and `note` the reads that were spared, by topic."""
        self.swept_ms = self.fetched_ms
        resting: Counter[str] = Counter()
        for each in cached:
            tp = each.topic_partition
            if each in self.active or tp is None:
                continue
            resting[tp.topic] += 1
            partition = slots.get(tp)
            if isinstance(partition, Partition):
                with partition.lock:
                    replica = partition.remote_replicas.get(replica_id)
                    if replica is not None and replica.rest is each and may_rest(partition, replica, each):
                        continue
            self.active[each] = None
        reads, self.reads = self.reads, 0
        for topic, count in resting.items():
            note(topic, count * reads)
