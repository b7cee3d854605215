"""The producers of one partition: last batches, open transactions, snapshots, verifications.

Everything here happens under the log's lock.
"""

from __future__ import annotations

import contextlib
import logging
import os
from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from log.errors import CorruptSnapshotError, LogError
from log.files.producer_snapshot import list_snapshots, read_snapshot, snapshot_name, write_snapshot
from log.producer_entry import (
    BatchMetadata,
    CompletedTxn,
    ProducerAppendInfo,
    ProducerStateEntry,
    VerificationGuard,
    VerificationState,
)
from log.records.batch import RecordBatch
from log.records.validation import AppendOrigin
from log.topic_partition import TopicPartition
from log.unstable_transactions import UnstableTransactions
from timer.clock import Clock

__all__ = [
    "ActiveProducer",
    "BatchMetadata",
    "CompletedTxn",
    "ProducerAppendInfo",
    "ProducerStateConfig",
    "ProducerStateEntry",
    "ProducerStateManager",
    "VerificationGuard",
]

logger = logging.getLogger(__name__)

LATE_TRANSACTION_BUFFER_MS = 300_000


@dataclass(slots=True)
class ProducerStateConfig:
    """Broker settings (`producer.id.expiration.ms`, `transaction.partition.verification.enable`, and
    `transaction.max.timeout.ms`). One object may be shared by all logs; changes hold from the next use on."""

    producer_id_expiration_ms: int = 86_400_000
    transaction_verification_enable: bool = True
    transaction_max_timeout_ms: int = 900_000


class ActiveProducer(NamedTuple):
    """What DescribeProducers answers about one producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class ProducerStateManager:
    """The producer state of the log in `directory`.

    `map_end_offset` is the offset up to which the state is known. Snapshots lie beside the segments. File operations
    raise OSError.
    """

    __slots__ = (
        "_clock",
        "_entries",
        "_last_snapshot_offset",
        "_snapshots",
        "_unstable",
        "_verifications",
        "config",
        "directory",
        "is_durable",
        "map_end_offset",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: str | os.PathLike[str],
        clock: Clock,
        config: ProducerStateConfig | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = os.fspath(directory)
        self.config = config if config is not None else ProducerStateConfig()
        self.map_end_offset = 0
        self._clock = clock
        self._last_snapshot_offset = 0
        self._entries: dict[int, ProducerStateEntry] = {}
        # Both made when there is the first of them: thousands of logs never have any.
        self._unstable: UnstableTransactions | None = None
        self._verifications: dict[int, VerificationState] | None = None
        self._snapshots = list_snapshots(directory) if os.path.isdir(directory) else []
        self.is_durable = False
        """Whether the newest snapshot and its name are known to be on the disk."""

    # ---- facts

    @property
    def is_empty(self) -> bool:
        """Whether no producer is known, and no transaction that has ended and is not replicated yet."""
        unstable = self._unstable
        return not self._entries and (unstable is None or not unstable.has_unreplicated)

    @property
    def producer_count(self) -> int:
        """Producers that are known."""
        return len(self._entries)

    def last_entry(self, producer_id: int) -> ProducerStateEntry | None:
        """What is known about a producer."""
        return self._entries.get(producer_id)

    def entries(self) -> list[ProducerStateEntry]:
        """All producers, by id."""
        return [self._entries[producer_id] for producer_id in sorted(self._entries)]

    def active_producers(self) -> list[ActiveProducer]:
        """What DescribeProducers answers."""
        return [
            ActiveProducer(
                entry.producer_id,
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset,
            )
            for entry in self.entries()
        ]

    @property
    def has_unstable(self) -> bool:
        """Whether `first_unstable_offset` has a value."""
        return bool(self._unstable)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open, or ended at or above the high watermark."""
        return None if self._unstable is None else self._unstable.first_offset

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """The last stable offset once `completed` has ended: the oldest open transaction of another producer, or the
        offset behind the marker."""
        unstable = self._unstable
        first = None if unstable is None else unstable.first_offset_of_others(completed.producer_id)
        return completed.last_offset + 1 if first is None else first

    def has_late_transaction(self, now_ms: int) -> bool:
        """Whether the oldest open transaction was last written longer ago than any timeout allows."""
        oldest = None if self._unstable is None else self._unstable.oldest_producer
        if oldest is None:
            return False
        timestamp = self._entries[oldest].last_timestamp
        limit = self.config.transaction_max_timeout_ms + LATE_TRANSACTION_BUFFER_MS
        return timestamp > 0 and now_ms - timestamp > limit

    # ---- appending

    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppendInfo:
        """A collector for one append of a producer."""
        verification = self._verifications.get(producer_id) if self._verifications else None
        return ProducerAppendInfo(
            self.topic_partition, producer_id, self._entries.get(producer_id), origin, verification
        )

    def update(self, info: ProducerAppendInfo) -> None:
        """Takes over what an append has changed, once its bytes are written."""
        updated = info.updated
        current = self._entries.get(updated.producer_id)
        if current is None:
            self._entries[updated.producer_id] = updated
        else:
            current.update(updated)
        for first_offset in info.started:
            self._begin(first_offset, updated.producer_id)
        if info.wrote_transactional and self._verifications:
            # Either the transaction is known here now, or it is over.
            self._verifications.pop(updated.producer_id, None)

    def _begin(self, first_offset: int, producer_id: int) -> None:
        if self._unstable is None:
            self._unstable = UnstableTransactions()
        self._unstable.begin(first_offset, producer_id)

    def complete_txn(self, completed: CompletedTxn) -> None:
        """A marker has been written: the transaction is decided, but unstable until the marker is replicated.

        Raises LogError when no such transaction is open.
        """
        if self._unstable is None or not self._unstable.end(completed.first_offset, completed.last_offset):
            raise LogError(
                f"{self.topic_partition}: no transaction of producer {completed.producer_id} is open from offset "
                f"{completed.first_offset}"
            )

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Transactions whose marker is below the high watermark are stable."""
        self._remove_unreplicated(high_watermark)

    def _remove_unreplicated(self, offset: int) -> None:
        if self._unstable is not None:
            self._unstable.remove_unreplicated(offset)

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Transactions that ended below the new log start are forgotten."""
        self._remove_unreplicated(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        latest = self.latest_snapshot_offset
        self._last_snapshot_offset = log_start_offset if latest is None else latest

    # ---- expiry

    def is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        """Whether a producer without an open transaction has been silent for too long."""
        return (
            entry.current_txn_first_offset is None
            and now_ms - entry.last_timestamp >= self.config.producer_id_expiration_ms
        )

    def remove_expired(self, now_ms: int) -> int:
        """Forgets expired producers and verifications; returns how many producers went."""
        expired = [entry.producer_id for entry in self._entries.values() if self.is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._entries[producer_id]
        verifications, limit = self._verifications or {}, self.config.producer_id_expiration_ms
        for producer_id in [v.producer_id for v in verifications.values() if now_ms - v.timestamp >= limit]:
            del verifications[producer_id]
        return len(expired)

    # ---- verification

    def start_verification(self, producer_id: int, sequence: int, epoch: int) -> VerificationGuard:
        """The guard of a verification: a new one, or the one under way for this producer."""
        if self._verifications is None:
            self._verifications = {}
        state = self._verifications.get(producer_id)
        if state is None:
            now = self._clock.wall_ms()
            state = self._verifications[producer_id] = VerificationState(
                producer_id, VerificationGuard(), now, sequence, epoch
            )
        else:
            state.update(sequence, epoch)
        return state.guard

    def is_verified(self, batch: RecordBatch, guard: object | None) -> bool:
        """Whether a transactional batch may be written: its transaction is open here, or was verified with `guard`."""
        if not self.config.transaction_verification_enable or batch.is_control:
            return True
        entry = self._entries.get(batch.producer_id)
        if (
            entry is not None
            and entry.current_txn_first_offset is not None
            and entry.producer_epoch == batch.producer_epoch
        ):
            return True
        state = self._verifications.get(batch.producer_id) if self._verifications else None
        return state is not None and guard is state.guard

    # ---- snapshots

    @property
    def latest_snapshot_offset(self) -> int | None:
        return self._snapshots[-1] if self._snapshots else None

    @property
    def oldest_snapshot_offset(self) -> int | None:
        return self._snapshots[0] if self._snapshots else None

    def snapshot_path(self, offset: int) -> str:
        """Where the snapshot at `offset` lies."""
        return os.path.join(self.directory, snapshot_name(offset))

    def take_snapshot(self, sync: bool = True) -> int | None:
        """Writes a snapshot at `map_end_offset` unless the last one is as new; returns its offset, or None.

        With `sync=False` the caller makes it durable later by `sync_snapshot`.
        """
        offset = self.map_end_offset
        if offset <= self._last_snapshot_offset:
            return None
        self.is_durable = False
        write_snapshot(self.snapshot_path(offset), self.entries(), sync=sync)
        if offset not in self._snapshots:
            insort(self._snapshots, offset)
        self._last_snapshot_offset = offset
        return offset

    def sync_snapshot(self, offset: int) -> None:
        """Makes a snapshot durable; one that has been removed meanwhile needs it no more. Needs no lock."""
        with contextlib.suppress(FileNotFoundError):
            fd = os.open(self.snapshot_path(offset), os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Brings the state to the newest usable snapshot at or below `log_end_offset`.

        Snapshots above it, or at or below the log start, are deleted. `map_end_offset` tells where the caller must go
        on with the batches of the log.
        """
        for offset in [o for o in self._snapshots if o > log_end_offset or o <= log_start_offset]:
            self.delete_snapshot(offset)
        if log_end_offset == self.map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        self._clear()
        self._load(log_start_offset, now_ms)

    def _load(self, log_start_offset: int, now_ms: int) -> None:
        while self._snapshots:
            offset = self._snapshots[-1]
            try:
                found = read_snapshot(self.snapshot_path(offset))
            except CorruptSnapshotError as error:
                logger.warning("%s is deleted: %s", self.snapshot_path(offset), error)
                self.delete_snapshot(offset)
                continue
            logger.info("%s: producer state is loaded from the snapshot at %d", self.topic_partition, offset)
            for entry in found:
                if not self.is_expired(entry, now_ms):
                    self.load_entry(entry)
            self._last_snapshot_offset = self.map_end_offset = offset
            return
        self._last_snapshot_offset = self.map_end_offset = log_start_offset

    def load_entry(self, entry: ProducerStateEntry) -> None:
        """Takes over a stored producer with its open transaction."""
        self._entries[entry.producer_id] = entry
        if entry.current_txn_first_offset is not None:
            self._begin(entry.current_txn_first_offset, entry.producer_id)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forgets everything and deletes all snapshots; the state begins at `offset`."""
        self._clear()
        for snapshot in list(self._snapshots):
            self.delete_snapshot(snapshot)
        self._last_snapshot_offset = 0
        self.map_end_offset = offset

    def _clear(self) -> None:
        self._entries.clear()
        # What is truncated lies above the high watermark, or the whole log goes.
        self._unstable = None

    def remove_stray_snapshots(self, base_offsets: Iterable[int]) -> None:
        """Deletes snapshots that belong to no segment, except the newest if none of a segment is newer.

        That one was taken at the log's end by a clean shutdown.
        """
        bases = set(base_offsets)
        self._snapshots = list_snapshots(self.directory)
        strays = [offset for offset in self._snapshots if offset not in bases]
        if strays and strays[-1] >= max(bases, default=0):
            strays.pop()
        for offset in strays:
            self.delete_snapshot(offset)

    def delete_snapshot(self, offset: int) -> None:
        """Deletes the snapshot at `offset`, if there is one."""
        self._forget_snapshot(offset)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.snapshot_path(offset))

    def mark_snapshot_for_deletion(self, offset: int) -> str | None:
        """Renames the snapshot at `offset` to end in `.deleted` and returns the new path; None if there is none."""
        if not self._forget_snapshot(offset):
            return None
        path = self.snapshot_path(offset)
        try:
            os.replace(path, path + ".deleted")
        except FileNotFoundError:
            return None
        return path + ".deleted"

    def delete_marked_snapshot(self, path: str) -> None:
        """Removes what `mark_snapshot_for_deletion` has renamed; needs no lock."""
        # The partition directory may have another name by now.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.directory, os.path.basename(path)))

    def _forget_snapshot(self, offset: int) -> bool:
        if offset not in self._snapshots:
            return False
        self.is_durable = False
        self._snapshots.remove(offset)
        return True

    def update_directory(self, directory: str | os.PathLike[str]) -> None:
        """The partition directory has been renamed."""
        self.directory = os.fspath(directory)
