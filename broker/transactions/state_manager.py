"""The transactional ids that this broker coordinates, by partition of `__transaction_state`.

Every change of an id is one record in the partition that its hash names. A partition is loaded when this broker
becomes its leader and dropped when it stops being so; each use of an id carries the leader epoch under which it was
looked up, and a change whose epoch is over ends with NOT_COORDINATOR.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from broker.coordinator.append_errors import Caller, told
from broker.coordinator.coordinator_log import ALL_REPLICAS, CoordinatorLog
from broker.coordinator.internal_topic_names import TRANSACTION_TOPIC, partition_for
from broker.coordinator.ownership import Owned, Ownership
from broker.transactions import records
from broker.transactions.config import TransactionConfig
from broker.transactions.state import MAY_EXPIRE, PREPARED, TransactionMetadata, TransactionState, Transition
from log.records.batch import HEADER_SIZE
from log.records.record import BatchBuilder, Record, iter_records
from network.protocol.errors import ApiError, ErrorCode
from timer.clock import Clock
from timer.metrics import NULL_METRICS, Metrics

logger = logging.getLogger(__name__)

Ids = dict[str, TransactionMetadata]

# A tombstone's lengths and deltas stay below this, besides its key.
_TOMBSTONE_OVERHEAD = 40


class TransactionStateManager:
    """Cache and log of the ids. Thread-safe; the ownership's lock guards the maps, each id's own lock its values.

    `is_active` from the coordinator's start to its shutdown. Order of locks: an id's lock may be held when the
    ownership's is taken, never the other way round.
    """

    def __init__(
        self,
        log: CoordinatorLog,
        partitions: int,
        clock: Clock,
        config: TransactionConfig,
        metrics: Metrics = NULL_METRICS,
    ) -> None:
        self.is_active = False
        self.partitions = partitions
        self._log = log
        self._clock = clock
        self._config = config
        self._load_times = metrics.histogram("kafka.server", "transaction-coordinator-metrics", "partition-load-time")
        # Every use of an id carries the epoch under which it was looked up, so a later epoch starts from the log.
        self._ownership: Ownership[Ids] = Ownership(reloads=True)

    def partition_of(self, transactional_id: str) -> int:
        """Partition of `__transaction_state` that owns the id."""
        return partition_for(transactional_id, self.partitions)

    # --- ownership ---

    def begin_load(self, partition: int, epoch: int) -> bool:
        """From here on requests for the partition see COORDINATOR_LOAD_IN_PROGRESS; False for an older epoch."""
        return self._ownership.begin_load(partition, epoch)

    def is_committed(self, partition: int) -> bool:
        """Whether no later coordinator can be without a part of what a load would read."""
        return self._log.is_committed(partition)

    def is_loading_at(self, partition: int, epoch: int) -> bool:
        """Whether a load that began at this epoch is still wanted."""
        return self._ownership.is_loading_at(partition, epoch)

    def load(self, partition: int, epoch: int) -> list[TransactionMetadata] | None:
        """Read the partition and own it. Returns the ids whose markers must be sent again.

        A load that is overtaken (the partition left or came again with a later epoch) changes nothing and returns
        an empty list. None if not all that was read is committed: nothing has changed, and it is to be tried again.
        Raises what reading raises; the partition is not owned then.
        """
        started = self._clock.monotonic_ms()
        loaded: Ids = {}
        try:
            for record in self._read(partition):
                _take(loaded, partition, record)
        except Exception:
            self._ownership.abandon_load(partition, epoch)
            raise
        if not self.is_committed(partition):
            return None
        if not self._ownership.finish_load(partition, epoch, loaded):
            return []
        took_ms = self._clock.monotonic_ms() - started
        self._load_times.update(took_ms)
        logger.info(
            "loaded %d transactional ids of %s-%d at epoch %d in %d ms",
            len(loaded),
            TRANSACTION_TOPIC,
            partition,
            epoch,
            took_ms,
        )
        return [metadata for metadata in loaded.values() if metadata.state in PREPARED]

    def _read(self, partition: int) -> Iterator[Record]:
        if not self._log.is_local(partition):
            return
        for batch in self._log.read(partition, self._config.load_buffer_bytes):
            if not batch.is_control:
                yield from iter_records(batch)

    def unload(self, partition: int, epoch: int | None) -> bool:
        """Forget the partition unless a later epoch was seen. None means the replica was deleted."""
        return self._ownership.unload(partition, epoch) is not None

    # --- look-up ---

    def lookup(self, transactional_id: str) -> tuple[int, TransactionMetadata | None]:
        """Coordinator epoch and metadata (None when the id is unknown).

        Raises ApiError(COORDINATOR_LOAD_IN_PROGRESS) or ApiError(NOT_COORDINATOR).
        """
        with self._ownership.lock:
            epoch, ids = self._require_owned(transactional_id)
            return epoch, ids.get(transactional_id)

    def get_or_add(self, metadata: TransactionMetadata) -> tuple[int, TransactionMetadata]:
        """Like `lookup`, adding the given metadata when the id is unknown."""
        with self._ownership.lock:
            epoch, ids = self._require_owned(metadata.transactional_id)
            return epoch, ids.setdefault(metadata.transactional_id, metadata)

    def _require_owned(self, transactional_id: str) -> Owned[Ids]:
        partition = self.partition_of(transactional_id)
        owned = self._ownership.get(partition)
        if owned is None:
            raise ApiError(self._ownership.error(partition))
        return owned

    def is_current(self, transactional_id: str, epoch: int, metadata: TransactionMetadata) -> bool:
        """Whether the id is owned under the same epoch and is the same entry."""
        with self._ownership.lock:
            owned = self._ownership.get(self.partition_of(transactional_id))
            return owned is not None and owned.epoch == epoch and owned.loaded.get(transactional_id) is metadata

    @property
    def is_loading(self) -> bool:
        """Whether any partition is being loaded."""
        return self._ownership.is_loading

    def all_ids(self) -> list[tuple[int, TransactionMetadata]]:
        """Coordinator epoch and metadata of every id, a snapshot of the maps."""
        with self._ownership.lock:
            return [(owned.epoch, metadata) for owned in self._ownership.all() for metadata in owned.loaded.values()]

    # --- writing ---

    def append(
        self,
        metadata: TransactionMetadata,
        epoch: int,
        to: Transition,
        on_done: Callable[[ErrorCode], None],
        keep_pending_on: frozenset[ErrorCode] = frozenset(),
    ) -> None:
        """Store a prepared transition and take its values; `on_done` gets NONE or the error of the API.

        On failure the pending state is cleared, except for errors in `keep_pending_on` (the caller tries again).
        """
        transactional_id = metadata.transactional_id

        def stored(append_error: ErrorCode) -> None:
            error = told(Caller.TRANSACTION, append_error)
            with metadata.lock:
                current = self.is_current(transactional_id, epoch, metadata)
                if error is ErrorCode.NONE and current:
                    metadata.complete(to)
                elif error is ErrorCode.NONE:
                    error = ErrorCode.NOT_COORDINATOR
                elif current and error not in keep_pending_on:
                    metadata.give_up(to.state)
            if error is not ErrorCode.NONE:
                logger.info("%s: %s was not stored: %s", transactional_id, to.state.wire_name, append_error.name)
            on_done(error)

        if not self.is_current(transactional_id, epoch, metadata):
            on_done(ErrorCode.NOT_COORDINATOR)
            return
        entry = (records.encode_key(transactional_id), records.encode_value(to))
        self._append_batch(self.partition_of(transactional_id), [entry], to.timeout_ms, stored)

    def _append_batch(
        self,
        partition: int,
        entries: Iterable[tuple[bytes, bytes | None]],
        timeout_ms: int,
        on_done: Callable[[ErrorCode], None],
    ) -> None:
        builder = BatchBuilder()
        now = self._clock.wall_ms()
        for key, value in entries:
            builder.append(now, key, value)
        self._log.append(partition, builder.build(), ALL_REPLICAS, timeout_ms, lambda error, _: on_done(error))

    # --- expiry ---

    def expire_ids(self, unused_for_ms: int) -> None:
        """Write tombstones for ids unused for so long and forget them once these are stored."""
        horizon = self._clock.wall_ms() - unused_for_ms
        by_partition: dict[int, list[tuple[int, TransactionMetadata]]] = {}
        for epoch, metadata in self.all_ids():
            with metadata.lock:
                unused = metadata.state in MAY_EXPIRE and metadata.last_update_timestamp <= horizon
                if not unused or metadata.pending_state is not None:
                    continue
                metadata.prepare_dead()
            by_partition.setdefault(self.partition_of(metadata.transactional_id), []).append((epoch, metadata))
        for partition, ids in by_partition.items():
            for chunk in self._chunks(partition, ids):
                self._append_tombstones(partition, chunk)

    def _chunks(
        self, partition: int, ids: list[tuple[int, TransactionMetadata]]
    ) -> Iterable[list[tuple[int, TransactionMetadata]]]:
        limit = self._log.max_batch_bytes(partition)
        chunk: list[tuple[int, TransactionMetadata]] = []
        size = HEADER_SIZE
        for entry in ids:
            cost = len(records.encode_key(entry[1].transactional_id)) + _TOMBSTONE_OVERHEAD
            if chunk and size + cost > limit:
                yield chunk
                chunk, size = [], HEADER_SIZE
            chunk.append(entry)
            size += cost
        if chunk:
            yield chunk

    def _append_tombstones(self, partition: int, chunk: list[tuple[int, TransactionMetadata]]) -> None:
        def stored(error: ErrorCode) -> None:
            for epoch, metadata in chunk:
                with metadata.lock:
                    if error is ErrorCode.NONE:
                        self._forget(partition, epoch, metadata)
                    else:
                        metadata.give_up(TransactionState.DEAD)
            if error is not ErrorCode.NONE:
                logger.warning("expiry of %d transactional ids failed: %s", len(chunk), error.name)

        entries = [(records.encode_key(metadata.transactional_id), None) for _, metadata in chunk]
        self._append_batch(partition, entries, self._config.request_timeout_ms, stored)

    def _forget(self, partition: int, epoch: int, metadata: TransactionMetadata) -> None:
        with self._ownership.lock:
            owned = self._ownership.get(partition)
            if owned is not None and self.is_current(metadata.transactional_id, epoch, metadata):
                del owned.loaded[metadata.transactional_id]


def _take(loaded: Ids, partition: int, record: Record) -> None:
    """Let one record of the log have its effect."""
    if record.key is None:
        logger.warning("%s-%d holds a record without key at %d", TRANSACTION_TOPIC, partition, record.offset)
        return
    try:
        stored = records.decode(bytes(record.key), None if record.value is None else bytes(record.value))
    except records.UnknownKeyVersionError as unknown:
        logger.warning("%s-%d: unknown key version %s skipped", TRANSACTION_TOPIC, partition, unknown)
        return
    if stored.metadata is None:
        loaded.pop(stored.transactional_id, None)
    else:
        loaded[stored.transactional_id] = stored.metadata
