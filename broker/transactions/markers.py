"""Transaction markers on their way to partition leaders.

A decided transaction has one `PendingMarkers` that lists the partitions still without marker. Its partitions are
queued by leader; one channel a broker sends everything queued for that broker in one WriteTxnMarkers request. What
fails goes to the regroup list and is queued again by its current leader at the next round, without limit: a decision
is never given up while this broker owns the id. Queues are plain (no purgatory), as in Kafka 3.9; their total is
bounded by the partitions of the transactions that are open at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from broker.transactions.broker_workers import BrokerWorkers
from broker.transactions.state import TransactionMetadata, TransactionState, Transition
from broker.transactions.state_manager import TransactionStateManager
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from timer.clock import Clock
from timer.metrics import NULL_METRICS, Metrics
from timer.scheduler import ScheduledTask, Scheduler
from timer.worker import Workers

logger = logging.getLogger(__name__)

REGROUP_INTERVAL_MS = 100
_GROUP, _TYPE = "kafka.coordinator.transaction", "TransactionMarkerChannelManager"

RETRIED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
# Someone newer owns the transaction.
SUPERSEDED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
# The partition's format can't hold markers, so it holds no transactional records either.
AS_DONE = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})


class Leaders(Protocol):
    """What the metadata cache knows of partition leaders."""

    def is_deleted(self, partition: TopicPartition) -> bool:
        """Whether it is gone for good; may ask ZooKeeper, and wait for it."""

    def live_leader(self, partition: TopicPartition) -> int | None:
        """Broker id of the leader if it is known and has a live endpoint on the inter-broker listener."""


class MarkerTransport(Protocol):
    """Sends a request to a broker and waits for the answer; raises OSError when there is none."""

    def __call__(self, broker_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse: ...


@dataclass(slots=True, eq=False)
class PendingMarkers:
    """One decided transaction and the partitions that have no marker yet."""

    metadata: TransactionMetadata
    state_partition: int
    epoch: int
    complete: Transition
    remaining: set[TopicPartition]
    dropped: bool = False

    @property
    def commit(self) -> bool:
        """True for a commit marker."""
        return self.complete.state is TransactionState.COMPLETE_COMMIT


@dataclass(slots=True)
class _Entry:
    pending: PendingMarkers
    partitions: list[TopicPartition]
    without_leader: bool = False


class MarkerManager:
    """Queues by broker and what the answers mean. `step` is what a broker's thread runs."""

    def __init__(
        self,
        store: TransactionStateManager,
        leaders: Leaders,
        transport: MarkerTransport,
        scheduler: Scheduler,
        *,
        threaded: bool = True,
        clock: Clock | None = None,
        workers: Workers | None = None,
        metrics: Metrics = NULL_METRICS,
    ) -> None:
        self._store = store
        self._leaders = leaders
        self._transport = transport
        self._scheduler = scheduler
        self._workers = BrokerWorkers(
            "TxnMarkerSenderThread", self.step, threaded=threaded, clock=clock, workers=workers
        )
        self._lock = threading.Lock()
        self._queues: dict[int, list[_Entry]] = {}
        self._regroup: list[_Entry] = []
        self._unfinished: list[PendingMarkers] = []
        self._pending: dict[int, set[PendingMarkers]] = {}
        self._task: ScheduledTask | None = None
        metrics.gauge(_GROUP, _TYPE, "UnknownDestinationQueueSize", self._without_leader)
        metrics.gauge(_GROUP, _TYPE, "LogAppendRetryQueueSize", lambda: len(self._unfinished))

    def startup(self) -> None:
        """Begin the regroup rounds."""
        self._task = self._scheduler.schedule(
            "transaction-marker-regroup", self.regroup, REGROUP_INTERVAL_MS, REGROUP_INTERVAL_MS
        )

    def shutdown(self) -> None:
        """Stop all threads; what is unfinished is the successor's, who finds the decision in the log."""
        if self._task is not None:
            self._task.cancel()
        self._workers.shutdown()

    # --- in ---

    def send(
        self, metadata: TransactionMetadata, epoch: int, complete: Transition, partitions: Iterable[TopicPartition]
    ) -> None:
        """Write the marker of a decided transaction to the partitions, then its Complete record."""
        remaining = set(partitions)
        state_partition = self._store.partition_of(metadata.transactional_id)
        pending = PendingMarkers(metadata, state_partition, epoch, complete, remaining)
        with self._lock:
            self._pending.setdefault(state_partition, set()).add(pending)
        if remaining:
            self._enqueue(pending, list(remaining))
        else:
            self._finish(pending)

    def drop_partition(self, state_partition: int) -> None:
        """Forget everything queued for ids of a state partition that this broker owns no longer."""
        with self._lock:
            for pending in self._pending.pop(state_partition, set()):
                pending.dropped = True

    def _without_leader(self) -> int:
        with self._lock:
            return sum(entry.without_leader for entry in self._regroup)

    def _enqueue(self, pending: PendingMarkers, partitions: list[TopicPartition]) -> None:
        by_leader: dict[int, list[TopicPartition]] = {}
        homeless: list[TopicPartition] = []
        for partition in partitions:
            leader = self._leaders.live_leader(partition)
            if leader is None:
                homeless.append(partition)
            else:
                by_leader.setdefault(leader, []).append(partition)
        if homeless:
            with self._lock:
                self._regroup.append(_Entry(pending, homeless, without_leader=True))
        for leader, owned in by_leader.items():
            with self._lock:
                self._queues.setdefault(leader, []).append(_Entry(pending, owned))
            self._workers.wake(leader)

    # --- out ---

    def step(self, broker_id: int) -> None:
        """Send what is queued for a broker in one request and act on the answer."""
        with self._lock:
            entries = self._queues.pop(broker_id, [])
        entries = [entry for entry in entries if not entry.pending.dropped]
        if not entries:
            return
        request = WriteTxnMarkersRequest(markers=[_marker(entry) for entry in entries])
        try:
            response = self._transport(broker_id, request)
        except Exception as error:
            with self._lock:
                self._regroup.extend(entries)
            if not isinstance(error, OSError):
                raise
            logger.info("transaction markers to broker %d failed, trying again: %s", broker_id, error)
            return
        results: dict[int, dict[TopicPartition, ErrorCode]] = {}
        for marker in response.markers:
            errors = results.setdefault(marker.producer_id, {})
            for topic in marker.topics:
                for partition in topic.partitions:
                    errors[TopicPartition(topic.name, partition.partition_index)] = ErrorCode.of(partition.error_code)
        self._each(entries, lambda entry: self._handle(entry, results.get(entry.pending.complete.producer_id, {})))

    def _each(self, entries: Iterable[_Entry], act: Callable[[_Entry], None]) -> None:
        """Act on all of them; one that raises is tried again later, and keeps none of the others from its turn. Raises
        the last error at the end."""
        failed: Exception | None = None
        for entry in entries:
            try:
                act(entry)
            except Exception as error:
                with self._lock:
                    self._regroup.append(entry)
                failed = error
        if failed is not None:
            raise failed

    def _handle(self, entry: _Entry, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        pending = entry.pending
        if not self._store.is_current(pending.metadata.transactional_id, pending.epoch, pending.metadata):
            self._forget(pending)
            return
        done: list[TopicPartition] = []
        again: list[TopicPartition] = []
        for partition in entry.partitions:
            error = errors.get(partition, ErrorCode.REQUEST_TIMED_OUT)
            if error in AS_DONE:
                done.append(partition)
            elif error in SUPERSEDED:
                logger.info("%s: marker for %s refused: %s", pending.metadata.transactional_id, partition, error.name)
                self._forget(pending)
                return
            else:
                if error not in RETRIED:
                    logger.error(
                        "%s: marker for %s failed: %s", pending.metadata.transactional_id, partition, error.name
                    )
                again.append(partition)
        if again:
            with self._lock:
                self._regroup.append(_Entry(pending, again))
        self._done(pending, done)

    def _done(self, pending: PendingMarkers, partitions: list[TopicPartition]) -> None:
        with pending.metadata.lock:
            was_open = bool(pending.remaining)
            pending.remaining.difference_update(partitions)
            pending.metadata.partitions.difference_update(partitions)
            finished = was_open and not pending.remaining
        if finished:
            self._finish(pending)

    def _finish(self, pending: PendingMarkers) -> None:
        def stored(error: ErrorCode) -> None:
            if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                with self._lock:
                    self._unfinished.append(pending)
            else:
                self._forget(pending)

        self._store.append(
            pending.metadata,
            pending.epoch,
            pending.complete,
            stored,
            keep_pending_on=frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE}),
        )

    def _forget(self, pending: PendingMarkers) -> None:
        pending.dropped = True
        with self._lock:
            self._pending.get(pending.state_partition, set()).discard(pending)

    def regroup(self) -> None:
        """One round: queue again what failed or had no leader, and store again what could not be stored. Partitions
        without a leader come last, for the question whether they are deleted may wait for ZooKeeper."""
        with self._lock:
            entries, self._regroup = self._regroup, []
            unfinished, self._unfinished = self._unfinished, []
        for entry in entries:
            if not entry.without_leader and not entry.pending.dropped:
                self._enqueue(entry.pending, entry.partitions)
        for pending in unfinished:
            if not pending.dropped:
                self._finish(pending)
        homeless = (entry for entry in entries if entry.without_leader and not entry.pending.dropped)
        self._each(homeless, self._enqueue_but_deleted)

    def _enqueue_but_deleted(self, entry: _Entry) -> None:
        deleted = [each for each in entry.partitions if self._leaders.is_deleted(each)]
        self._enqueue(entry.pending, [each for each in entry.partitions if each not in deleted])
        if deleted:
            logger.info("%s: %s are deleted; no marker needed", entry.pending.metadata.transactional_id, deleted)
            self._done(entry.pending, deleted)


def _marker(entry: _Entry) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, partition in entry.partitions:
        topics.setdefault(topic, []).append(partition)
    complete = entry.pending.complete
    return WritableTxnMarker(
        producer_id=complete.producer_id,
        producer_epoch=complete.producer_epoch,
        transaction_result=entry.pending.commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=ids) for name, ids in topics.items()],
        coordinator_epoch=entry.pending.epoch,
    )
