"""Which leader epoch wrote from which offset on: the cache and its checkpoint file."""

from __future__ import annotations

import logging
import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import NamedTuple

from log.files.checkpoint import CheckpointFile, parse_integer

logger = logging.getLogger(__name__)

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset written under it."""

    epoch: int
    start_offset: int


def leader_epoch_checkpoint(
    directory: str | os.PathLike[str], log_directory: str | None = None
) -> CheckpointFile[EpochEntry]:
    """The checkpoint file of a partition directory."""
    return CheckpointFile(
        os.path.join(directory, LEADER_EPOCH_CHECKPOINT),
        _format_entry,
        _parse_entry,
        log_directory,
    )


def _format_entry(entry: EpochEntry) -> str:
    return f"{entry.epoch} {entry.start_offset}"


def _parse_entry(fields: list[str]) -> EpochEntry:
    epoch, start_offset = fields
    entry = EpochEntry(parse_integer(epoch, 32), parse_integer(start_offset, 64))
    if min(entry) < 0:
        raise ValueError(f"{fields} are no leader epoch and its first offset")
    return entry


class LeaderEpochCache:
    """An ordered map from leader epoch to start offset; both rise strictly. Safe to call from any thread.

    `checkpoint` None keeps the map in memory only. Changes are written by `store`, which `defer` has called soon;
    without it they are written at once. `flush` makes them durable. Nothing is lost by that: an epoch in which
    something was written is told by its batches, which recovery reads unless they were flushed, and the log flushes the
    epochs first; what the file told of those stays until the new content is on the disk. An epoch in which nothing was
    written tells a follower nothing that it needs. So thousands of new partitions that get a leader do not wait for as
    many syncs, one after the other. Raises StorageError from every call that writes.
    """

    __slots__ = ("_checkpoint", "_epochs", "_lock", "_starts", "defer", "is_dirty", "is_durable")

    def __init__(self, checkpoint: CheckpointFile[EpochEntry] | None) -> None:
        self._checkpoint = checkpoint
        self.defer: Callable[[], None] | None = None
        self.is_dirty = False
        self.is_durable = True
        """Whether the file, as far as it is written, would outlive the machine."""
        self._lock = threading.RLock()
        # Two parallel lists, so that bisect works on plain integers.
        self._epochs: list[int] = []
        self._starts: list[int] = []
        if checkpoint is not None:
            for entry in checkpoint.read():
                self._put(entry.epoch, entry.start_offset)
            self.is_dirty = False
            self.is_durable = True

    @property
    def entries(self) -> list[EpochEntry]:
        """All entries, ascending."""
        with self._lock:
            return [EpochEntry(e, s) for e, s in zip(self._epochs, self._starts, strict=True)]

    @property
    def is_empty(self) -> bool:
        return not self._epochs

    @property
    def latest_epoch(self) -> int | None:
        epochs = self._epochs
        return epochs[-1] if epochs else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        with self._lock:
            return EpochEntry(self._epochs[0], self._starts[0]) if self._epochs else None

    def assign(self, epoch: int, start_offset: int, *, flush: bool = True) -> bool:
        """Notes that `epoch` begins at `start_offset`; True when the map changed.

        Later epochs, and those that start at or after the offset, were written by leaders that lost them and go away.
        `flush=False` leaves the file alone (recovery notes many batches and calls `flush` once).
        Raises ValueError on a negative argument.
        """
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]:
            return False
        with self._lock:
            if not self._put(epoch, start_offset):
                return False
            if flush:
                self._write_later()
            return True

    def _put(self, epoch: int, start_offset: int) -> bool:
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} from offset {start_offset}: neither may be negative")
        epochs, starts = self._epochs, self._starts
        if epochs and epoch == epochs[-1] and start_offset >= starts[-1]:
            return False
        removed = []
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            removed.append((epochs.pop(), starts.pop()))
        # An epoch without a record ends with the next one at the same offset: that is no news, of thousands at a time.
        if any(old >= epoch or start > start_offset for old, start in removed):
            logger.info("leader epoch %d at offset %d replaces %s", epoch, start_offset, removed)
        epochs.append(epoch)
        starts.append(start_offset)
        self.is_dirty = True
        self.is_durable = False
        return True

    def end_offset_for(self, requested_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, offset): the largest epoch not above the requested one, and where it ends here.

        (-1, -1) when nothing is known: no epoch was requested, the cache is empty, or the epoch is newer than all
        known. For an epoch older than all known the requested epoch comes back with the first known start.
        """
        undefined = (UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        with self._lock:
            if requested_epoch == UNDEFINED_EPOCH or not self._epochs or requested_epoch > self._epochs[-1]:
                return undefined
            if requested_epoch == self._epochs[-1]:
                return requested_epoch, log_end_offset
            higher = bisect_right(self._epochs, requested_epoch)
            if higher == 0:
                return requested_epoch, self._starts[0]
            return self._epochs[higher - 1], self._starts[higher]

    def previous_epoch(self, epoch: int) -> int | None:
        """The greatest known epoch below `epoch`."""
        with self._lock:
            index = bisect_left(self._epochs, epoch)
            return self._epochs[index - 1] if index else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Drops entries that start at or after `end_offset`; no effect on a negative one."""
        with self._lock:
            if end_offset < 0 or not self._starts or self._starts[-1] < end_offset:
                return
            keep = bisect_left(self._starts, end_offset)
            del self._epochs[keep:], self._starts[keep:]
            self._write_later()

    def truncate_from_start(self, start_offset: int) -> None:
        """Drops entries that end before `start_offset`; the one in force there now starts there."""
        with self._lock:
            index = bisect_right(self._starts, start_offset)
            if index == 0:
                return
            epoch = self._epochs[index - 1]
            if index == 1 and self._starts[0] == start_offset:
                return
            self._epochs[:index] = [epoch]
            self._starts[:index] = [start_offset]
            self._write_later()

    def clear(self) -> None:
        """Drops all entries, and from the file too."""
        with self._lock:
            self._epochs.clear()
            self._starts.clear()
            self.is_dirty = True
            self.is_durable = False
            self.flush()

    def flush(self) -> None:
        """Writes what the file does not have yet, durably."""
        with self._lock:
            if not self.is_durable and self._checkpoint is not None:
                self._checkpoint.write(self.entries)
            self.is_dirty = False
            self.is_durable = True

    def store(self, *, keep_old: bool = True) -> None:
        """Writes what the file does not have yet. After a crash of the machine the file has this or what it had;
        without `keep_old`, which saves a sync, perhaps nothing. `flush` has still to come."""
        with self._lock:
            if self.is_dirty and self._checkpoint is not None:
                # Nothing is what the file shall say if there are no epochs, so it may.
                self._checkpoint.write(self.entries, sync=keep_old and bool(self._epochs), sync_name=False)
            self.is_dirty = False

    def _write_later(self) -> None:
        self.is_dirty = True
        self.is_durable = False
        if self.defer is None:
            self.store()
        else:
            self.defer()
