"""What the transaction APIs do, apart from wire formats and authorisation.

Each operation looks the id up, checks it under its lock, prepares a transition and stores it; the callback gets the
answer once the record is replicated. Error choice and order follow KIP-98, KIP-360 and Kafka 3.9.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from broker.coordinator.internal_topic_names import TRANSACTION_TOPIC
from broker.transactions.admin import TransactionAdmin
from broker.transactions.config import TransactionConfig
from broker.transactions.markers import MarkerManager
from broker.transactions.state import (
    MAY_EXPIRE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    TransactionMetadata,
    TransactionState,
    Transition,
    is_epoch_exhausted,
)
from broker.transactions.state_manager import TransactionStateManager
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode
from timer.clock import Clock
from timer.scheduler import Scheduler

logger = logging.getLogger(__name__)

COMMIT_CHECK_MS, MAX_COMMIT_CHECK_MS = 20, 640
"""How often a load looks whether all is committed, less and less: a new leader's high watermark comes to its log end
offset with its followers' first fetches, but not as long as the ISR is smaller than `min.insync.replicas`."""

OnError = Callable[[ErrorCode], None]


class ProducerIds(Protocol):
    """Source of fresh producer ids."""

    def next_id(self) -> int:
        """The next id; raises ApiError(COORDINATOR_LOAD_IN_PROGRESS) while no block is there."""


@dataclass(frozen=True, slots=True)
class InitResult:
    """Answer of InitProducerId: id and epoch are -1 when there is an error."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class ExpectedProducer:
    """Producer id and epoch that a client claims to have (KIP-360)."""

    producer_id: int
    producer_epoch: int


class TransactionCoordinator:
    """Coordinates the ids whose `__transaction_state` partitions this broker leads."""

    def __init__(
        self,
        store: TransactionStateManager,
        markers: MarkerManager,
        producer_ids: ProducerIds,
        scheduler: Scheduler,
        clock: Clock,
        config: TransactionConfig,
    ) -> None:
        self.store = store
        self.markers = markers
        self._producer_ids = producer_ids
        self._scheduler = scheduler
        self._clock = clock
        self._config = config
        self.admin = TransactionAdmin(store, clock)

    # --- life ---

    def startup(self) -> None:
        """Begin the periodic work: time-outs and id expiry."""
        self._scheduler.schedule(
            "transaction-abort",
            self.abort_timed_out,
            self._config.abort_timed_out_interval_ms,
            self._config.abort_timed_out_interval_ms,
        )
        self._scheduler.schedule(
            "transactionalId-expiration",
            lambda: self.store.expire_ids(self._config.id_expiration_ms),
            self._config.remove_expired_interval_ms,
            self._config.remove_expired_interval_ms,
        )
        self.markers.startup()
        self.store.is_active = True

    def shutdown(self) -> None:
        """Stop answering and sending markers; the stored state is the successor's."""
        self.store.is_active = False
        self.markers.shutdown()

    def on_election(self, partition: int, epoch: int) -> None:
        """This broker leads a state partition now: load it in the background and resume its prepared ids."""
        if not self.store.begin_load(partition, epoch):
            logger.info("load of %s-%d at the older epoch %d is ignored", TRANSACTION_TOPIC, partition, epoch)
            return
        self.markers.drop_partition(partition)
        self._load_later(partition, epoch, 0)

    def _load_later(self, partition: int, epoch: int, delay_ms: int) -> None:
        name = f"load-txns-for-partition-{TRANSACTION_TOPIC}-{partition}"
        self._scheduler.schedule_once(name, lambda: self._load(partition, epoch, delay_ms), delay_ms)

    def _load(self, partition: int, epoch: int, waited_ms: int) -> None:
        """Load it when all of it is committed.

        A record that only this replica has may be gone with its leadership. Whoever was told on the strength of it that
        a partition is in a transaction would write records there which nobody decides, and markers that were sent for
        it could not be taken back. (Apache Kafka 3.9 loads up to the log end offset.)
        """
        if not self.store.is_loading_at(partition, epoch):
            return
        try:
            prepared = self.store.load(partition, epoch) if self.store.is_committed(partition) else None
        except Exception:
            logger.exception("loading %s-%d failed", TRANSACTION_TOPIC, partition)
            return
        if prepared is None:
            if waited_ms == MAX_COMMIT_CHECK_MS // 2:
                logger.info("%s-%d is loaded when its ISR has all of it", TRANSACTION_TOPIC, partition)
            delay_ms = min(max(2 * waited_ms, COMMIT_CHECK_MS), MAX_COMMIT_CHECK_MS)
            self._load_later(partition, epoch, delay_ms)
            return
        for metadata in prepared:
            with metadata.lock:
                if metadata.state not in PREPARED or metadata.pending_state is not None:
                    continue
                complete = metadata.prepare_complete(self._clock.wall_ms())
            self._send_markers(metadata, epoch, complete)

    def on_resignation(self, partition: int, epoch: int | None) -> None:
        """This broker leads the partition no longer (None: it has no replica any more)."""
        if self.store.unload(partition, epoch):
            self.markers.drop_partition(partition)
            logger.info("unloaded %s-%d", TRANSACTION_TOPIC, partition)

    # --- InitProducerId ---

    def init_producer_id(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        expected: ExpectedProducer | None,
        respond: Callable[[InitResult], None],
    ) -> None:
        """A producer id and epoch; fences whoever had the id before."""
        try:
            if transactional_id is None:
                respond(InitResult(ErrorCode.NONE, self._producer_ids.next_id(), 0))
                return
            epoch, metadata, to = self._begin_init(transactional_id, timeout_ms, expected)
        except ApiError as error:
            respond(InitResult(error.code))
            return

        def aborted(error: ErrorCode) -> None:
            respond(InitResult(ErrorCode.CONCURRENT_TRANSACTIONS if error is ErrorCode.NONE else error))

        def stored(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                respond(InitResult(error))
                return
            producer_id, producer_epoch = to.producer_id, to.producer_epoch
            logger.info(
                "%s: initialised with producer id %d and epoch %d", transactional_id, producer_id, producer_epoch
            )
            respond(InitResult(error, producer_id, producer_epoch))

        if to.state is TransactionState.PREPARE_EPOCH_FENCE:
            self._abort_fenced(metadata, epoch, to, aborted)
        else:
            self.store.append(metadata, epoch, to, stored)

    def _begin_init(
        self, transactional_id: str, timeout_ms: int, expected: ExpectedProducer | None
    ) -> tuple[int, TransactionMetadata, Transition]:
        """Coordinator epoch, metadata, and the prepared transition: a new epoch, or the fence of an open transaction.

        Raises ApiError.
        """
        if transactional_id == "":
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._config.max_timeout_ms:
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        epoch, known = self.store.lookup(transactional_id)
        if known is None:
            fresh = TransactionMetadata(
                transactional_id, self._producer_ids.next_id(), timeout_ms, last_update_timestamp=self._clock.wall_ms()
            )
            epoch, known = self.store.get_or_add(fresh)
        with known.lock:
            if known.pending_state is not None:
                raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
            if expected is not None and not _is_expected(known, expected):
                raise ApiError(ErrorCode.PRODUCER_FENCED)
            if known.state in PREPARED:
                raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
            if known.state in MAY_EXPIRE:
                return epoch, known, self._prepare_init(known, timeout_ms, expected)
            if known.state is TransactionState.ONGOING:
                return epoch, known, known.prepare_fence()
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _prepare_init(
        self, metadata: TransactionMetadata, timeout_ms: int, expected: ExpectedProducer | None
    ) -> Transition:
        now = self._clock.wall_ms()
        expected_epoch = None if expected is None else expected.producer_epoch
        exhausted = is_epoch_exhausted(metadata.producer_epoch)
        if exhausted and (expected_epoch is None or expected_epoch == metadata.producer_epoch):
            return metadata.prepare_producer_id_rotation(
                self._producer_ids.next_id(), timeout_ms, now, record_last_epoch=expected is not None
            )
        if exhausted:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        return metadata.prepare_new_epoch(timeout_ms, expected_epoch, now)

    # --- partitions of the open transaction ---

    def add_partitions(
        self,
        transactional_id: str,
        producer: ExpectedProducer,
        partitions: frozenset[TopicPartition],
        respond: OnError,
    ) -> None:
        """Begin or extend the transaction; the answer comes after the append."""

        def prepare(metadata: TransactionMetadata) -> Transition | None:
            if metadata.pending_state is not None or metadata.state in PREPARED:
                raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
            if metadata.state is TransactionState.ONGOING and partitions <= metadata.partitions:
                return None
            return metadata.prepare_add_partitions(partitions, self._clock.wall_ms())

        self._change(transactional_id, producer, prepare, self.store.append, respond)

    def verify_partitions(
        self, transactional_id: str, producer: ExpectedProducer, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether partitions are in the open transaction (KIP-890); asked by partition leaders."""
        wanted = list(partitions)
        try:
            _, metadata = self._lookup_producer(transactional_id, producer)
            with metadata.lock:
                _check_epoch(metadata, producer)
                if metadata.state in PREPARED:
                    raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
                return {
                    tp: ErrorCode.NONE if tp in metadata.partitions else ErrorCode.TRANSACTION_ABORTABLE
                    for tp in wanted
                }
        except ApiError as error:
            return dict.fromkeys(wanted, error.code)

    def _lookup_producer(self, transactional_id: str, producer: ExpectedProducer) -> tuple[int, TransactionMetadata]:
        if transactional_id == "":
            raise ApiError(ErrorCode.INVALID_REQUEST)
        epoch, metadata = self.store.lookup(transactional_id)
        if metadata is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        with metadata.lock:
            if metadata.producer_id != producer.producer_id:
                raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return epoch, metadata

    # --- the end ---

    def end_transaction(
        self, transactional_id: str, producer: ExpectedProducer, commit: bool, respond: OnError
    ) -> None:
        """Decide the transaction; answered once the decision is replicated, the markers follow."""

        def prepare(metadata: TransactionMetadata) -> Transition | None:
            if metadata.pending_state is not None:
                raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
            if metadata.state is TransactionState.ONGOING:
                return metadata.prepare_end(commit, self._clock.wall_ms())
            answer = _END_OF_CLOSED[metadata.state, commit]
            if answer is not ErrorCode.NONE:
                raise ApiError(answer)
            return None

        self._change(transactional_id, producer, prepare, self._store_decision, respond)

    def _change(
        self,
        transactional_id: str,
        producer: ExpectedProducer,
        prepare: Callable[[TransactionMetadata], Transition | None],
        store: Callable[[TransactionMetadata, int, Transition, OnError], None],
        respond: OnError,
    ) -> None:
        """Store what `prepare` makes of the producer's id, under its lock; None where nothing is left to do."""
        try:
            epoch, metadata = self._lookup_producer(transactional_id, producer)
            with metadata.lock:
                _check_epoch(metadata, producer)
                to = prepare(metadata)
        except ApiError as error:
            respond(error.code)
            return
        if to is None:
            respond(ErrorCode.NONE)
        else:
            store(metadata, epoch, to, respond)

    def _abort_fenced(self, metadata: TransactionMetadata, epoch: int, fence: Transition, respond: OnError) -> None:
        with metadata.lock:
            metadata.take_fence(fence)
            to = metadata.prepare_end(commit=False, now=self._clock.wall_ms())

        def stored(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                with metadata.lock:
                    metadata.failed_epoch_fence = True
            respond(error)

        self._store_decision(metadata, epoch, to, stored)

    def _store_decision(self, metadata: TransactionMetadata, epoch: int, to: Transition, respond: OnError) -> None:
        def stored(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                respond(error)
                return
            with metadata.lock:
                if not self.store.is_current(metadata.transactional_id, epoch, metadata):
                    error = ErrorCode.NOT_COORDINATOR
                else:
                    complete = metadata.prepare_complete(self._clock.wall_ms())
            respond(error)
            if error is ErrorCode.NONE:
                self._send_markers(metadata, epoch, complete)

        self.store.append(metadata, epoch, to, stored)

    def _send_markers(self, metadata: TransactionMetadata, epoch: int, complete: Transition) -> None:
        with metadata.lock:
            partitions = frozenset(metadata.partitions)
        self.markers.send(metadata, epoch, complete, partitions)

    # --- time-outs ---

    def abort_timed_out(self) -> None:
        """Fence and abort every transaction that is open for longer than its timeout."""
        now = self._clock.wall_ms()
        for epoch, metadata in self.store.all_ids():
            with metadata.lock:
                overdue = (
                    metadata.state is TransactionState.ONGOING
                    and metadata.pending_state is None
                    and metadata.start_timestamp + metadata.timeout_ms < now
                )
                if not overdue:
                    continue
                fence = metadata.prepare_fence()
            logger.info("%s: transaction timed out after %d ms", metadata.transactional_id, metadata.timeout_ms)
            self._abort_fenced(metadata, epoch, fence, lambda error: None)


_S = TransactionState
# EndTxn on an id without open transaction: (state, commit) -> answer.
_END_OF_CLOSED = {
    (_S.COMPLETE_COMMIT, True): ErrorCode.NONE,
    (_S.COMPLETE_COMMIT, False): ErrorCode.INVALID_TXN_STATE,
    (_S.COMPLETE_ABORT, True): ErrorCode.INVALID_TXN_STATE,
    (_S.COMPLETE_ABORT, False): ErrorCode.NONE,
    (_S.PREPARE_COMMIT, True): ErrorCode.CONCURRENT_TRANSACTIONS,
    (_S.PREPARE_COMMIT, False): ErrorCode.INVALID_TXN_STATE,
    (_S.PREPARE_ABORT, True): ErrorCode.INVALID_TXN_STATE,
    (_S.PREPARE_ABORT, False): ErrorCode.CONCURRENT_TRANSACTIONS,
    (_S.EMPTY, True): ErrorCode.INVALID_TXN_STATE,
    (_S.EMPTY, False): ErrorCode.INVALID_TXN_STATE,
}


def _check_epoch(metadata: TransactionMetadata, producer: ExpectedProducer) -> None:
    if metadata.producer_epoch != producer.producer_epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)


def _is_expected(metadata: TransactionMetadata, expected: ExpectedProducer) -> bool:
    return (
        metadata.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == metadata.producer_id
        or (expected.producer_id == metadata.last_producer_id and is_epoch_exhausted(expected.producer_epoch))
    )
