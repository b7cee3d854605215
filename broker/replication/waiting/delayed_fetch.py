"""A fetch that waits for bytes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from broker.replication.awaited_followers import SHORT_WAIT_MS, AwaitedFollowers
from broker.replication.metrics import ReplicaMetrics
from broker.replication.partition import Partition
from broker.replication.partition_reads import find_divergence
from broker.replication.partitions import Partitions
from broker.replication.replica_traffic import ReplicaTraffic
from broker.replication.results import FetchEntry, FetchParams, FetchPartitionData, LogReadResult
from log.fetch_data import FetchIsolation
from log.offset_metadata import LogOffsetMetadata
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode
from timer.purgatory import DelayedOperation

FetchCallback = Callable[[list[tuple[TopicPartition, LogReadResult]]], None]


class Standby(Protocol):
    """What a follower's fetch that waits has beside its entries: partitions that rest, until they wake."""

    def woken(self) -> Sequence[tuple[object, FetchEntry]]:
        """Those that have woken since the fetch came, as the fetch names them and as it is read."""
        ...

    def wait(self, operation: DelayedOperation, watch: Callable[[DelayedOperation, TopicPartition], None]) -> None:
        """From now on `operation` is watched by each that wakes."""
        ...


class Reads(Protocol):
    """What the fetch needs of the replica manager."""

    partitions: Partitions
    traffic: ReplicaTraffic
    awaited: AwaitedFollowers
    metrics: ReplicaMetrics

    def read_from_log(
        self, params: FetchParams, entries: Sequence[FetchEntry], update_followers: bool
    ) -> list[tuple[TopicPartition, LogReadResult]]: ...


class DelayedFetch(DelayedOperation):
    """Complete as soon as `min_bytes` could be read, or anything happened that the fetcher should know of.

    Completion reads again, without noting the read as a follower's progress, and answers whatever is there.
    """

    def __init__(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        positions: Sequence[LogOffsetMetadata | None],
        replicas: Reads,
        callback: FetchCallback,
        standby: Standby | None = None,
    ) -> None:
        is_short = params.is_from_follower and replicas.awaited.is_awaited(params.replica_id)
        super().__init__(min(params.max_wait_ms, SHORT_WAIT_MS) if is_short else params.max_wait_ms)
        self._ends_when_awaited = params.is_from_follower and not is_short
        self._params = params
        self._entries = entries
        self._positions = positions
        self._replicas = replicas
        self._callback = callback
        self._standby = standby

    def try_complete(self) -> bool:
        accumulated = 0
        params = self._params
        if self._ends_when_awaited and self._replicas.awaited.is_awaited(params.replica_id):
            return self.force_complete()
        slots = self._replicas.partitions.slots
        for (tp, data), start in self._places():
            if start is None or start.message_offset < 0:
                continue
            slot = slots.get(tp)
            if type(slot) is Partition and self._is_as_it_was(slot, data, start):
                continue
            try:
                partition = self._replicas.partitions.get_or_raise(tp)
                with partition.lock:
                    log = partition.local_log(data.current_leader_epoch, require_leader=params.only_leader)
                    snapshot = log.fetch_offset_snapshot()
                    diverges = data.last_fetched_epoch >= 0 and find_divergence(log, data) is not None
            except ApiError as error:
                if error.code is ErrorCode.UNKNOWN_LEADER_EPOCH:
                    continue
                return self.force_complete()
            if diverges:
                return self.force_complete()
            if params.isolation is FetchIsolation.LOG_END:
                end = snapshot.log_end_offset
            elif params.isolation is FetchIsolation.HIGH_WATERMARK:
                end = snapshot.high_watermark
            else:
                end = snapshot.last_stable_offset
            if end.message_offset == start.message_offset:
                continue
            if start.message_offset > end.message_offset:
                return self.force_complete()  # truncated below the fetch offset: the fetcher has to know
            throttled = self._replicas.traffic.holds_back(params, tp)
            if start.segment_base_offset != end.segment_base_offset:
                if not throttled:
                    # An older segment can be read to its end at once; a place in files that are there no more (the
                    # replica has moved to another log directory) has to be looked up again.
                    return self.force_complete()
            elif not throttled:
                accumulated += min(end.relative_position - start.relative_position, data.max_bytes)
        if accumulated >= params.min_bytes:
            return self.force_complete()
        return False

    def _places(self) -> Iterable[tuple[FetchEntry, LogOffsetMetadata | None]]:
        """What is read, and where the read begins."""
        places = zip(self._entries, self._positions, strict=True)
        if self._standby is None:
            return places
        return itertools.chain(places, [(entry, self._noted(entry)) for _, entry in self._standby.woken()])

    def _noted(self, entry: FetchEntry) -> LogOffsetMetadata:
        """The place of a follower that rested there."""
        tp, data = entry
        slot = self._replicas.partitions.slots.get(tp)
        replica = slot.remote_replicas.get(self._params.replica_id) if isinstance(slot, Partition) else None
        noted = None if replica is None else replica.log_end_offset_metadata
        if noted is not None and noted.message_offset == data.fetch_offset:
            return noted
        return LogOffsetMetadata(data.fetch_offset)

    def _is_as_it_was(self, partition: Partition, data: FetchPartitionData, start: LogOffsetMetadata) -> bool:
        """Whether the leader and its epoch still are those of the fetch, and the log ends at the very place of it.

        A look without the lock: who changes any of this looks at the operation afterwards.
        """
        log = partition.log
        return (
            log is not None
            and not log.offline
            and self._params.isolation is FetchIsolation.LOG_END
            and data.current_leader_epoch == partition.leader_epoch
            and partition.leader_id == partition.environment.broker_id
            and log.local.end == start
        )

    def on_complete(self) -> None:
        results = self._replicas.read_from_log(self._params, self._entries, update_followers=False)
        self._callback(results)

    def on_expiration(self) -> None:
        metrics = self._replicas.metrics
        (metrics.follower_fetch_expired if self._params.is_from_follower else metrics.consumer_fetch_expired).mark()
