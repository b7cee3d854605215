"""The log of one partition: what `UnifiedLog` is in Kafka.

It joins the files (`LocalLog`), the leader epochs, the producers and the offsets that bound what readers may see:

    log start offset <= last stable offset <= high watermark <= log end offset

Changes happen under `lock`; reads do not take it. An `OSError` anywhere takes the log directory offline (through
`LogEnvironment.on_io_error`) and is raised as `StorageError`; a read for which there is no descriptor is only raised.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

from log.config import LogConfig
from log.errors import InconsistentTopicIdError, LogError, OffsetOutOfRangeError, StorageError
from log.fetch_data import FetchDataInfo, FetchIsolation
from log.files.checkpoint import CheckpointFile, fsync_directory
from log.files.names import DirectoryKind, parse_dir_name
from log.files.partition_metadata import PartitionMetadataFile
from log.files.txn_index import AbortedTxn
from log.leader_epoch import LEADER_EPOCH_CHECKPOINT, EpochEntry, LeaderEpochCache
from log.local_log import LocalLog
from log.offset_metadata import LogOffsetMetadata, LogOffsetSnapshot
from log.producer_state import ActiveProducer, CompletedTxn, ProducerAppendInfo, ProducerStateManager, VerificationGuard
from log.topic_partition import TopicPartition

if TYPE_CHECKING:
    from log.files.segment import LogSegment

logger = logging.getLogger(__name__)

T = TypeVar("T")


class PartitionLog:
    """Made by `log.management.loader.open_log`, which reads or creates the directory."""

    __slots__ = (
        "_epoch_checkpoint",
        "_first_unstable",
        "_high_watermark",
        "_kind",
        "env",
        "leader_epoch_cache",
        "local",
        "lock",
        "log_start_offset",
        "metadata_dirty",
        "name_is_durable",
        "offline",
        "producers",
        "topic_id",
    )

    def __init__(
        self,
        local: LocalLog,
        log_start_offset: int,
        epochs: LeaderEpochCache,
        epoch_checkpoint: CheckpointFile[EpochEntry],
        producers: ProducerStateManager,
        topic_id: bytes | None,
    ) -> None:
        self.local = local
        self.env = local.env
        self.lock = RLock()
        self.log_start_offset = log_start_offset
        self.leader_epoch_cache = epochs
        self.producers = producers
        self.topic_id = topic_id
        self._epoch_checkpoint = epoch_checkpoint
        self.metadata_dirty = False
        self.name_is_durable = True
        """False for a directory that is not known to have been synced: its name is, before anything in it."""
        epochs.defer = self._flush_leader_epochs_later
        self._high_watermark = LogOffsetMetadata(log_start_offset)
        self._first_unstable: LogOffsetMetadata | None = None
        self._kind = parse_dir_name(local.name)[1]
        self.offline = False
        self.update_first_unstable_offset()

    # ---- facts

    @property
    def topic_partition(self) -> TopicPartition:
        return self.local.topic_partition

    @property
    def directory(self) -> str:
        """Path of the partition directory."""
        return self.local.directory

    @property
    def parent_dir(self) -> str:
        """Path of the log directory that holds it."""
        return self.local.parent_dir

    @property
    def config(self) -> LogConfig:
        return self.local.config

    def update_config(self, config: LogConfig) -> None:
        """Use new topic settings from the next operation on."""
        with self.lock:
            self.local.config = config
            for segment in self.local.segments:
                segment.config = config

    def has_late_transaction(self) -> bool:
        """Whether a transaction has been open for longer than any may."""
        if not self.producers.has_unstable:
            return False
        with self.lock:
            return self.producers.has_late_transaction(self.env.clock.wall_ms())

    @property
    def segments(self) -> list[LogSegment]:
        """The segments at this moment, in order."""
        return list(self.local.segments)

    @property
    def number_of_segments(self) -> int:
        return len(self.local.segments)

    @property
    def active_segment(self) -> LogSegment:
        return self.local.segments.active

    @property
    def size(self) -> int:
        """Bytes of all `.log` files."""
        return self.local.segments.size_in_bytes

    @property
    def log_end_offset(self) -> int:
        return self.local.end.message_offset

    @property
    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        return self.local.end

    @property
    def recovery_point(self) -> int:
        return self.local.recovery_point

    @property
    def unflushed_messages(self) -> int:
        return self.local.unflushed_messages

    @property
    def last_flushed_ms(self) -> int:
        return self.local.last_flushed_ms

    @property
    def latest_epoch(self) -> int | None:
        return self.leader_epoch_cache.latest_epoch

    @property
    def is_future(self) -> bool:
        """Whether this is a copy for a move between log directories."""
        return self._kind is DirectoryKind.FUTURE

    @property
    def is_deleting(self) -> bool:
        return self._kind is DirectoryKind.DELETE

    @property
    def is_stray(self) -> bool:
        return self._kind is DirectoryKind.STRAY

    # ---- high watermark and last stable offset

    @property
    def high_watermark(self) -> int:
        return self._high_watermark.message_offset

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark with its place, which is looked up if it was not known yet."""
        mark = self._high_watermark
        if mark.segment_base_offset < 0:
            with self.lock:
                mark = self._high_watermark
                if mark.segment_base_offset < 0:
                    mark = self._high_watermark = self._metadata_of(mark.message_offset)
        return mark

    def update_high_watermark(self, offset: int | LogOffsetMetadata) -> int:
        """Set the high watermark, clamped to [log start offset, log end offset]; returns what it is now."""
        with self.lock:
            mark = LogOffsetMetadata(offset) if isinstance(offset, int) else offset
            end = self.local.end
            if mark.message_offset < self.log_start_offset:
                mark = LogOffsetMetadata(self.log_start_offset)
            elif mark.message_offset >= end.message_offset:
                mark = end
            self._set_high_watermark(mark)
            return mark.message_offset

    def maybe_increment_high_watermark(self, mark: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Raise the high watermark to `mark` if that is higher (or the same offset in a later segment).

        Returns the old one if it was raised. Raises `LogError` if `mark` is beyond the log end offset.
        """
        offset = mark.message_offset
        if offset > self.local.end.message_offset:
            raise LogError(
                f"{self.topic_partition}: high watermark {mark.message_offset} is beyond the log end offset "
                f"{self.log_end_offset}"
            )
        with self.lock:
            old = self._high_watermark
            if old.segment_base_offset < 0:
                old = self.high_watermark_metadata
            if old.message_offset >= offset and not (old.message_offset == offset and old.on_older_segment(mark)):
                return None
            self._set_high_watermark(mark)
            return old

    def _set_high_watermark(self, mark: LogOffsetMetadata) -> None:
        if mark.message_offset < self._high_watermark.message_offset:
            logger.warning(
                "%s: high watermark goes back from %d to %d",
                self.topic_partition,
                self._high_watermark.message_offset,
                mark.message_offset,
            )
        self._high_watermark = mark
        if self._first_unstable is not None or self.producers.has_unstable:
            self.producers.on_high_watermark_updated(mark.message_offset)
            self.update_first_unstable_offset()
        # That the last stable offset is not above it is how that is made.
        assert self.log_start_offset <= mark.message_offset <= self.local.end.message_offset, f"out of order: {self!r}"

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction is decided; at most the high watermark."""
        unstable = self._first_unstable
        mark = self._high_watermark.message_offset
        return unstable.message_offset if unstable is not None and unstable.message_offset < mark else mark

    @property
    def last_stable_offset_metadata(self) -> LogOffsetMetadata:
        mark = self.high_watermark_metadata
        unstable = self._first_unstable
        if unstable is None or unstable.message_offset >= mark.message_offset:
            return mark
        if unstable.segment_base_offset < 0:
            unstable = self._metadata_of(unstable.message_offset)
        return unstable

    @property
    def last_stable_offset_lag(self) -> int:
        """How many offsets below the high watermark the last stable offset is."""
        return self.high_watermark - self.last_stable_offset

    def update_first_unstable_offset(self) -> None:
        """Take over the oldest undecided transaction's offset from the producer state."""
        offset = self.producers.first_unstable_offset
        if offset is None:
            self._first_unstable = None
            return
        offset = max(offset, self.log_start_offset)
        known = self._first_unstable
        if known is None or known.message_offset != offset or known.segment_base_offset < 0:
            self._first_unstable = self._metadata_of(offset)

    def _metadata_of(self, offset: int) -> LogOffsetMetadata:
        return self.reading(lambda: self.local.offset_metadata(offset))

    def fetch_offset_snapshot(self) -> LogOffsetSnapshot:
        """Log start, log end, high watermark and last stable offset, each with its place."""
        return LogOffsetSnapshot(
            self.log_start_offset, self.local.end, self.high_watermark_metadata, self.last_stable_offset_metadata
        )

    # ---- appending

    def after_append(
        self, last_offset: int, updates: dict[int, ProducerAppendInfo] | None, completed: Sequence[CompletedTxn]
    ) -> None:
        """What follows from a write that ended at `last_offset`: producers, decided transactions, unstable offset."""
        producers, end = self.producers, last_offset + 1
        if updates is not None:
            for update in updates.values():
                producers.update(update)
            for txn in completed:
                # With the LSO as it is without this transaction: it goes into the index before the txn is closed.
                stable = producers.last_stable_offset(txn)
                if txn.is_aborted:
                    self.active_segment.txn_index.append(
                        AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, stable)
                    )
                producers.complete_txn(txn)
            self.update_first_unstable_offset()
        producers.map_end_offset = end
        assert self.log_start_offset <= self._high_watermark.message_offset <= end, f"out of order: {self!r}"
        assert self._first_unstable is None or self.log_start_offset <= self._first_unstable.message_offset, (
            f"{self!r}: a transaction is open at {self._first_unstable}"
        )

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """Seal the active segment and start a new one. The old one is flushed in the background."""
        with self.lock, self.io("rolling a segment"):
            segment = self.local.roll(expected_next_offset)
            producers = self.producers
            producers.map_end_offset = segment.base_offset
            snapshot = producers.take_snapshot(sync=False)
            if self._high_watermark.message_offset >= self.log_end_offset:
                self._set_high_watermark(self.local.end)
            base = segment.base_offset

        def flush() -> None:
            with self.io("flushing a sealed segment"):
                if snapshot is not None:
                    producers.sync_snapshot(snapshot)
                self.flush_up_to(base)

        self.env.scheduler.schedule_once("flush-log", flush)
        return segment

    # ---- reading

    def read(
        self,
        start_offset: int,
        max_length: int,
        isolation: FetchIsolation = FetchIsolation.LOG_END,
        min_one_message: bool = False,
    ) -> FetchDataInfo:
        """A range of at most `max_length` bytes of one segment from the batch holding `start_offset`, to be released.

        The range ends at the bound that `isolation` sets. With `min_one_message` the first batch is whole whatever its
        size. Raises `OffsetOutOfRangeError` below the log start and above the log end, and `StorageError`.
        """
        if self.offline:
            raise self.offline_error()
        if start_offset < self.log_start_offset:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition}: offset {start_offset} is below the log start offset {self.log_start_offset}"
            )
        committed = isolation == FetchIsolation.TXN_COMMITTED
        if isolation == FetchIsolation.LOG_END:
            limit = self.local.end
        elif committed:
            limit = self.last_stable_offset_metadata
        else:
            limit = self.high_watermark_metadata
        try:
            return self.local.read(
                start_offset, max_length, limit, min_one_message=min_one_message, include_aborted=committed
            )
        except FileNotFoundError:
            return self.reading(
                lambda: self.local.read(
                    start_offset, max_length, limit, min_one_message=min_one_message, include_aborted=committed
                )
            )
        except OSError as error:
            raise self._read_error(f"reading {self.topic_partition} from {start_offset}", error) from error

    def reading(self, work: Callable[[], T]) -> T:
        """Run `work`, which reads without the lock.

        A file may be renamed or removed under its feet: then it gets a second chance when that is over.
        """
        try:
            return work()
        except FileNotFoundError:
            with self.lock:
                pass
            if self.offline:
                raise self.offline_error() from None
        except OSError as error:
            raise self._read_error(f"reading {self.topic_partition}", error) from error
        try:
            return work()
        except OSError as error:
            raise self._read_error(f"reading {self.topic_partition}", error) from error

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the greatest known epoch <= `epoch`; (-1, -1) if unknown."""
        return self.leader_epoch_cache.end_offset_for(epoch, self.log_end_offset)

    def maybe_assign_epoch_start_offset(self, epoch: int, offset: int) -> None:
        """Note that `epoch` starts at `offset`; the file has it soon, and before anything else is flushed."""
        self.leader_epoch_cache.assign(epoch, offset)

    def _flush_leader_epochs_later(self) -> None:
        self.env.writes.soon("leader-epoch-cache-flush", self.store_leader_epochs)

    def store_leader_epochs(self) -> None:
        """Have the file say what the leader epochs are, until something that rests on them makes it durable."""
        if self.leader_epoch_cache.is_dirty:
            has_flushed = self.local.recovery_point > self.log_start_offset
            self._write_leader_epochs(partial(self.leader_epoch_cache.store, keep_old=has_flushed))

    def flush_leader_epochs(self) -> None:
        """Make the leader epochs durable."""
        if not self.leader_epoch_cache.is_durable:
            self._write_leader_epochs(self.leader_epoch_cache.flush)

    def _write_leader_epochs(self, write: Callable[[], None]) -> None:
        # The directory cannot be renamed or deleted meanwhile.
        with self.lock:
            if not self.offline:
                with self.io("writing leader epochs"):
                    write()

    # ---- log start offset

    def maybe_increment_log_start_offset(self, offset: int, reason: str) -> bool:
        """Raise the log start offset to `offset`; False if it is there already.

        Raises `OffsetOutOfRangeError` if `offset` is above the high watermark.
        """
        with self.lock:
            if offset > self.high_watermark:
                raise OffsetOutOfRangeError(
                    f"{self.topic_partition}: cannot raise the log start offset to {offset}, above the high "
                    f"watermark {self.high_watermark}"
                )
            if offset <= self.log_start_offset:
                return False
            logger.info("%s: log start offset goes up to %d: %s", self.topic_partition, offset, reason)
            self.set_log_start_offset(offset)
            with self.io("writing leader epochs"):
                self.leader_epoch_cache.truncate_from_start(offset)
            self.producers.on_log_start_offset_incremented(offset)
            self.update_first_unstable_offset()
            return True

    def set_log_start_offset(self, offset: int) -> None:
        """Set the log start offset; high watermark and recovery point come up to it."""
        self.log_start_offset = offset
        if self.high_watermark < offset:
            self.update_high_watermark(offset)
        if self.local.recovery_point < offset:
            self.local.recovery_point = offset

    # ---- producers

    def active_producers(self) -> list[ActiveProducer]:
        """What DescribeProducers answers, one entry a producer."""
        with self.lock:
            return self.producers.active_producers()

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        with self.lock:
            entry = self.producers.last_entry(producer_id)
            return (
                entry is not None
                and entry.current_txn_first_offset is not None
                and entry.producer_epoch == producer_epoch
            )

    def maybe_start_transaction_verification(
        self, producer_id: int, sequence: int, epoch: int
    ) -> VerificationGuard | None:
        """A guard for a transaction that must be verified with its coordinator; None if it is ongoing here, or if
        nothing is verified."""
        with self.lock:
            enabled = self.producers.config.transaction_verification_enable
            if not enabled or self.has_ongoing_transaction(producer_id, epoch):
                return None
            return self.producers.start_verification(producer_id, sequence, epoch)

    def remove_expired_producers(self) -> None:
        with self.lock:
            self.producers.remove_expired(self.env.clock.wall_ms())

    # ---- topic id

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Take `topic_id` (16 bytes) and write it. Raises `InconsistentTopicIdError` if the log has another."""
        with self.lock:
            if self.topic_id is not None:
                if self.topic_id != topic_id:
                    raise InconsistentTopicIdError(
                        f"{self.topic_partition}: has topic id {self.topic_id.hex()}, not {topic_id.hex()}"
                    )
                return
            self.topic_id = topic_id
            self.metadata_dirty = True
        self.env.writes.soon("flush-metadata-file", self.maybe_flush_metadata_file)

    def maybe_flush_metadata_file(self) -> None:
        """Write partition.metadata if it is due; called at the latest before the first append."""
        if not self.metadata_dirty:
            return
        with self.lock, self.io("writing partition.metadata"):
            due = self.metadata_dirty and not self.offline
            if due and self.topic_id is not None:
                # The name in a directory that is new itself is synced when the log is flushed for the first time.
                file = PartitionMetadataFile(self.directory, self.parent_dir)
                file.write(self.topic_id, sync_name=self.name_is_durable)
            self.metadata_dirty = False

    # ---- flushing and closing

    def flush(self, force_active: bool = False) -> None:
        """fsync up to the log end offset. `force_active` includes an active segment that is empty."""
        end = self.log_end_offset
        self._flush(end + 1 if force_active else end, end)

    def flush_up_to(self, offset: int) -> None:
        """fsync everything below `offset`; the recovery point becomes `offset`."""
        self._flush(offset, offset)

    def _flush(self, offset: int, recovery_point: int) -> None:
        if offset <= self.local.recovery_point or self.offline or self.active_segment.is_blank:
            return
        if self.local.unflushed_messages:
            self.flush_leader_epochs()
        with self.io(f"flushing {self.topic_partition}"):
            if not self.name_is_durable:
                fsync_directory(self.parent_dir)
                self.name_is_durable = True
            self.local.flush(offset)
            with self.lock:
                self.local.mark_flushed(recovery_point)

    def take_producer_snapshot(self) -> None:
        """Write a producer snapshot at the log end offset, durably.

        Its name, too, and if there is one already, that one: after a clean shutdown a log without any snapshot is one
        that no producer has written to.
        """
        producers = self.producers
        with self.lock, self.io("writing a producer snapshot"):
            producers.map_end_offset = self.log_end_offset
            producers.take_snapshot(sync=False)
            newest = producers.latest_snapshot_offset
            if newest is not None and not producers.is_durable:
                producers.sync_snapshot(newest)
                fsync_directory(self.directory)
                producers.is_durable = True

    def rename_dir(self, name: str) -> None:
        """Give the partition directory another name within the same log directory."""
        with self.lock, self.io(f"renaming {self.directory} to {name}"):
            new = os.path.join(self.parent_dir, name)
            if new != self.directory:
                os.rename(self.directory, new)
                fsync_directory(self.parent_dir)
                self.local.renamed(new)
                self.producers.update_directory(new)
                self._epoch_checkpoint.path = os.path.join(new, LEADER_EPOCH_CHECKPOINT)
                self._kind = parse_dir_name(name)[1]

    def close(self) -> None:
        """Flush nothing more than file ends: trim indexes, fsync `.log` files, close. Snapshots are the manager's."""
        with self.lock, self.io(f"closing {self.topic_partition}"):
            self.maybe_flush_metadata_file()
            if self.local.unflushed_messages:
                self.flush_leader_epochs()
            else:
                self.store_leader_epochs()
            self.local.close()

    def close_handles(self) -> None:
        """Let go of all files without touching the disk; the log answers `StorageError` from now on."""
        with self.lock:
            self.offline = True
            self.local.close_handles()

    def delete(self) -> None:
        """Remove the partition directory with everything in it."""
        with self.lock, self.io(f"deleting {self.directory}"):
            self.offline = True
            self.local.delete_directory()
        # Nothing is written any more. The log and its epochs know each other: thirty objects that would wait for a
        # garbage collection, which come minutes apart, and hours for what has seen two of them.
        self.leader_epoch_cache.defer = _nothing_to_write

    # ---- errors

    @contextmanager
    def io(self, what: str) -> Iterator[None]:
        """Turn an `OSError` inside into `StorageError`, and report it. An offline log refuses at once."""
        try:
            yield
        except OSError as error:
            raise self.storage_error(what, error) from error
        except StorageError as error:
            cause = error.__cause__
            self.local.io_error(what, cause if isinstance(cause, OSError) else OSError(str(error)))
            raise

    def storage_error(self, what: str, error: OSError) -> StorageError:
        """Report `error` for the log directory and make the exception to raise."""
        self.local.io_error(what, error)
        return StorageError(f"I/O error while {what}: {error}", self.parent_dir)

    def _read_error(self, what: str, error: OSError) -> StorageError:
        """As `storage_error`; but where the broker has no descriptor left, the disk is well, and a read, unlike an
        append, leaves nothing half done."""
        if error.errno in (errno.EMFILE, errno.ENFILE):
            if self.env.faults.is_new("descriptors"):
                logger.error("%s: no descriptor is left while %s: %s", self.parent_dir, what, error)
            return StorageError(f"I/O error while {what}: {error}", self.parent_dir)
        return self.storage_error(what, error)

    def offline_error(self) -> StorageError:
        return StorageError(f"{self.topic_partition}: the log directory {self.parent_dir} is offline", self.parent_dir)

    def __repr__(self) -> str:
        return (
            f"PartitionLog({self.topic_partition}, directory={self.directory!r}, start={self.log_start_offset}, "
            f"high_watermark={self.high_watermark}, end={self.log_end_offset})"
        )


def _nothing_to_write() -> None:
    """The directory is gone."""
