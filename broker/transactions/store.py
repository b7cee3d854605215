"""The transactional ids that this broker coordinates, by partition of `__transaction_state`.

Every change of an id is one record in the partition that its hash names. A partition is loaded when this broker
becomes its leader and dropped when it stops being so; each use of an id carries the leader epoch under which it was
looked up, and a change whose epoch is over ends with NOT_COORDINATOR.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from broker.transactions import records
from broker.transactions.state import MAY_EXPIRE, TransactionMetadata, TransactionState, Transition
from log.record import Record
from network.protocol.errors import ApiError, ErrorCode
from timer.clock import Clock

log = logging.getLogger(__name__)

# What an append error of the state topic means to the caller of a transaction API.
APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class StateLog(Protocol):
    """The partitions of `__transaction_state` as the store needs them."""

    def append(
        self,
        partition: int,
        entries: list[tuple[bytes, bytes | None]],
        timeout_ms: int,
        on_done: Callable[[ErrorCode], None],
    ) -> None:
        """Append key-value pairs as one uncompressed batch with acks=all; ``on_done`` may run on any thread."""

    def read_all(self, partition: int) -> Iterable[Record]:
        """Every data record from the log start offset to the log end offset, in order."""

    def max_batch_bytes(self, partition: int) -> int:
        """The topic's max.message.bytes."""


def partition_for(key: str, partitions: int) -> int:
    """Partition of an internal topic that owns a transactional id (or group id): Java's string hash, made positive."""
    value = 0
    encoded = key.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    if value >= 0x80000000:
        value = 0x100000000 - value
    return 0 if value == 0x80000000 else value % partitions


class TransactionStore:
    """Cache and log of the ids. Thread-safe; ``lock`` guards the maps, each id's own lock guards its values.

    Order of locks: an id's lock may be held when the store's is taken, never the other way round.
    """

    def __init__(self, state_log: StateLog, partitions: int, clock: Clock, request_timeout_ms: int = 30_000) -> None:
        self._log = state_log
        self.partitions = partitions
        self._clock = clock
        self._request_timeout_ms = request_timeout_ms
        self._lock = threading.Lock()
        self._owned: dict[int, tuple[int, dict[str, TransactionMetadata]]] = {}
        self._loading: dict[int, int] = {}

    def partition_of(self, transactional_id: str) -> int:
        """Partition of `__transaction_state` that owns the id."""
        return partition_for(transactional_id, self.partitions)

    # --- ownership ---

    def begin_load(self, partition: int, epoch: int) -> None:
        """From here on requests for the partition see COORDINATOR_LOAD_IN_PROGRESS."""
        with self._lock:
            if self._loading.get(partition, -1) <= epoch:
                self._loading[partition] = epoch
                self._owned.pop(partition, None)

    def load(self, partition: int, epoch: int) -> list[TransactionMetadata]:
        """Read the partition and own it. Returns the ids whose markers must be sent again.

        A load that is overtaken (the partition left or came again with a later epoch) changes nothing and returns
        an empty list.
        """
        started = self._clock.monotonic_ms()
        loaded: dict[str, TransactionMetadata] = {}
        for record in self._log.read_all(partition):
            if record.key is None:
                log.warning("__transaction_state-%d holds a record without key at %d", partition, record.offset)
                continue
            try:
                stored = records.decode(bytes(record.key), None if record.value is None else bytes(record.value))
            except records.UnknownKeyVersionError as unknown:
                log.warning("__transaction_state-%d: unknown key version %s skipped", partition, unknown)
                continue
            if stored.metadata is None:
                loaded.pop(stored.transactional_id, None)
            else:
                loaded[stored.transactional_id] = stored.metadata
        with self._lock:
            if self._loading.get(partition) != epoch:
                return []
            del self._loading[partition]
            self._owned[partition] = (epoch, loaded)
        log.info(
            "loaded %d transactional ids of __transaction_state-%d at epoch %d in %d ms",
            len(loaded),
            partition,
            epoch,
            self._clock.monotonic_ms() - started,
        )
        return [
            metadata
            for metadata in loaded.values()
            if metadata.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
        ]

    def abandon_load(self, partition: int, epoch: int) -> None:
        """A load failed; the partition is not owned."""
        with self._lock:
            if self._loading.get(partition) == epoch:
                del self._loading[partition]

    def unload(self, partition: int, epoch: int | None) -> bool:
        """Forget the partition unless a later epoch already owns it. None means the replica was deleted."""
        with self._lock:
            owned = self._owned.get(partition)
            current = self._loading.get(partition, owned[0] if owned else -1)
            if epoch is not None and current > epoch:
                return False
            self._loading.pop(partition, None)
            return self._owned.pop(partition, None) is not None

    # --- look-up ---

    def lookup(self, transactional_id: str) -> tuple[int, TransactionMetadata | None]:
        """Coordinator epoch and metadata (None when the id is unknown).

        Raises ApiError(COORDINATOR_LOAD_IN_PROGRESS) or ApiError(NOT_COORDINATOR).
        """
        partition = self.partition_of(transactional_id)
        with self._lock:
            epoch, ids = self._require_owned(partition)
            return epoch, ids.get(transactional_id)

    def get_or_add(self, metadata: TransactionMetadata) -> tuple[int, TransactionMetadata]:
        """Like :meth:`lookup`, adding the given metadata when the id is unknown."""
        partition = self.partition_of(metadata.transactional_id)
        with self._lock:
            epoch, ids = self._require_owned(partition)
            return epoch, ids.setdefault(metadata.transactional_id, metadata)

    def _require_owned(self, partition: int) -> tuple[int, dict[str, TransactionMetadata]]:
        if partition in self._loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        owned = self._owned.get(partition)
        if owned is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return owned

    def is_current(self, transactional_id: str, epoch: int, metadata: TransactionMetadata) -> bool:
        """True while the id is owned under the same epoch and is the same entry."""
        with self._lock:
            owned = self._owned.get(self.partition_of(transactional_id))
            return owned is not None and owned[0] == epoch and owned[1].get(transactional_id) is metadata

    @property
    def is_loading(self) -> bool:
        """True while any partition is being loaded."""
        with self._lock:
            return bool(self._loading)

    def all_ids(self) -> list[tuple[int, TransactionMetadata]]:
        """Coordinator epoch and metadata of every id, a snapshot of the maps."""
        with self._lock:
            return [(epoch, metadata) for epoch, ids in self._owned.values() for metadata in ids.values()]

    # --- writing ---

    def append(
        self,
        metadata: TransactionMetadata,
        epoch: int,
        to: Transition,
        on_done: Callable[[ErrorCode], None],
        keep_pending_on: frozenset[ErrorCode] = frozenset(),
    ) -> None:
        """Store a prepared transition and take its values; ``on_done`` gets NONE or the error of the API.

        On failure the pending state is cleared, except for errors in ``keep_pending_on`` (the caller tries again).
        """
        transactional_id = metadata.transactional_id

        def stored(append_error: ErrorCode) -> None:
            error = APPEND_ERRORS.get(append_error, append_error)
            with metadata.lock:
                current = self.is_current(transactional_id, epoch, metadata)
                if error is ErrorCode.NONE and current:
                    metadata.complete(to)
                elif error is ErrorCode.NONE:
                    error = ErrorCode.NOT_COORDINATOR
                elif current and error not in keep_pending_on and metadata.pending_state is to.state:
                    metadata.pending_state = None
            if error is not ErrorCode.NONE:
                log.info("%s: %s was not stored: %s", transactional_id, to.state.wire_name, append_error.name)
            on_done(error)

        if not self.is_current(transactional_id, epoch, metadata):
            on_done(ErrorCode.NOT_COORDINATOR)
            return
        entry: tuple[bytes, bytes | None] = (records.encode_key(transactional_id), records.encode_value(to))
        self._log.append(self.partition_of(transactional_id), [entry], to.timeout_ms, stored)

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
        # A batch header takes 61 bytes; a tombstone's lengths and deltas stay below 40 bytes besides its key.
        chunk: list[tuple[int, TransactionMetadata]] = []
        size = 61
        for entry in ids:
            cost = len(records.encode_key(entry[1].transactional_id)) + 40
            if chunk and size + cost > limit:
                yield chunk
                chunk, size = [], 61
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
                        metadata.pending_state = None
            if error is not ErrorCode.NONE:
                log.warning("expiry of %d transactional ids failed: %s", len(chunk), error.name)

        entries: list[tuple[bytes, bytes | None]] = [
            (records.encode_key(metadata.transactional_id), None) for _, metadata in chunk
        ]
        self._log.append(partition, entries, self._request_timeout_ms, stored)

    def _forget(self, partition: int, epoch: int, metadata: TransactionMetadata) -> None:
        with self._lock:
            owned = self._owned.get(partition)
            if owned is not None and owned[0] == epoch and owned[1].get(metadata.transactional_id) is metadata:
                del owned[1][metadata.transactional_id]
