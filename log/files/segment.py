"""One segment: a `.log` file and its indexes, all named by the segment's base offset.

Every offset in a segment is >= its base offset and less than the next segment's. Changes happen under the log's lock;
reads may come from any thread at any time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from log.config import LogConfig
from log.errors import CorruptIndexError, LogError
from log.files.file_range import LogFileRange, OpenFileBound
from log.files.file_records import BatchPosition, FileRecords
from log.files.handles import unlink_if_exists
from log.files.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, offset_file
from log.files.offset_index import OffsetIndex, OffsetPosition
from log.files.time_index import TimeIndex, TimestampOffset
from log.files.txn_index import AbortedTxn, TransactionIndex
from log.records.batch import MAGIC_OFFSET

MAX_RELATIVE_OFFSET = 0x7FFFFFFF
_RECENT_POSITIONS = 64


class SegmentOffsetOverflowError(LogError):
    """An offset is more than 2^31-1 above the segment's base offset, so the indexes cannot hold it."""

    def __init__(self, base_offset: int, offset: int) -> None:
        super().__init__(f"offset {offset} does not fit the segment with base offset {base_offset}")
        self.base_offset = base_offset
        self.offset = offset

    def __reduce__(self) -> tuple[type[SegmentOffsetOverflowError], tuple[int, int]]:
        return type(self), (self.base_offset, self.offset)


@dataclass(slots=True)
class SegmentRead:
    """A range of a segment, and where it starts. `first_entry_incomplete`: the limit cut the first batch."""

    position: int
    records: LogFileRange
    first_entry_incomplete: bool


class LogSegment:
    """`created_ms` is the wall clock when this object was made; `jitter_ms` shortens `segment.ms`."""

    __slots__ = (
        "_directory",
        "_max_timestamp",
        "_recent",
        "_rolling_timestamp",
        "_suffix",
        "base_offset",
        "bytes_since_last_index_entry",
        "config",
        "created_ms",
        "jitter_ms",
        "offset_index",
        "records",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        config: LogConfig,
        created_ms: int,
        *,
        create: bool = False,
        suffix: str = "",
        jitter_ms: int = 0,
        bound: OpenFileBound | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.config = config
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self._suffix = suffix
        self._directory = directory
        index_bytes = config.segment_index_bytes
        self.records = FileRecords(
            self._path(LOG_SUFFIX),
            create=create,
            preallocate=config.segment_bytes if config.preallocate else 0,
            bound=bound,
        )
        self.offset_index = OffsetIndex(self._path(INDEX_SUFFIX), base_offset, index_bytes, bound=bound)
        self.time_index = TimeIndex(self._path(TIME_INDEX_SUFFIX), base_offset, index_bytes, bound=bound)
        self.txn_index = TransactionIndex(self._path(TXN_INDEX_SUFFIX), base_offset)
        self.bytes_since_last_index_entry = 0
        self._max_timestamp: TimestampOffset | None = None
        self._rolling_timestamp: int | None = None
        # Lock-free: written under the log's lock, looked up by readers in one step. None while there is none.
        self._recent: dict[int, int] | None = None

    # ---- facts

    @property
    def size(self) -> int:
        return self.records.size

    @property
    def is_blank(self) -> bool:
        """Whether its files say no more than if they were not there, so that nothing of them need be durable."""
        return self.base_offset == 0 and self.records.unused

    @property
    def path(self) -> str:
        """Path of the `.log` file."""
        return self.records.path

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp so far and the last offset of the earliest batch that has it; (-1, base) if none.

        After a restart it is the time index's last entry.
        """
        found = self._max_timestamp
        if found is None:
            found = self._max_timestamp = self.time_index.last_entry()
        return found

    @max_timestamp.setter
    def max_timestamp(self, value: TimestampOffset) -> None:
        self._max_timestamp = value

    @property
    def largest_timestamp(self) -> int:
        """The largest record timestamp, or the modification time of `.log` if no record has one. Milliseconds."""
        timestamp = self.max_timestamp.timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

    @property
    def modified_ms(self) -> int:
        return os.stat(self.path).st_mtime_ns // 1_000_000

    def set_modified(self, modified_ms: int) -> None:
        """Give all files of the segment a modification time, as the cleaner does."""
        times = (modified_ms * 1_000_000, modified_ms * 1_000_000)
        for path in (self.path, self.offset_index.path, self.time_index.path):
            os.utime(path, ns=times)

    @property
    def first_batch_timestamp(self) -> int:
        """maxTimestamp of the first append (after a restart: of the first batch); -1 if there is none."""
        return -1 if self._rolling_timestamp is None else self._rolling_timestamp

    def load_first_batch_timestamp(self) -> int:
        """`first_batch_timestamp`, read from the file if this object has not seen an append."""
        if self._rolling_timestamp is None and self.records.size:
            for _, data in self.records.batches(read_bytes=4096):
                self._rolling_timestamp = _max_timestamp_of(data)
                break
        return self.first_batch_timestamp

    @property
    def has_overflow(self) -> bool:
        """Whether an offset does not fit 31 bits relative to the base: the segment must be split at load."""
        return self.read_next_offset() - 1 - self.base_offset > MAX_RELATIVE_OFFSET

    def can_convert(self, offset: int) -> bool:
        return 0 <= offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def should_roll(self, max_timestamp: int, last_offset: int, size: int, now_ms: int) -> bool:
        """Whether an append of `size` bytes with these maxima must go to a new segment."""
        current = self.records.size
        config = self.config
        if current > config.segment_bytes - size:
            return True
        if current > 0:
            first = self._rolling_timestamp
            if first is None:
                first = self.load_first_batch_timestamp()
            waited = max_timestamp - first if first >= 0 else now_ms - self.created_ms
            if waited > config.max_segment_ms - self.jitter_ms:
                return True
        offsets, times = self.offset_index, self.time_index
        return (
            offsets.entries >= offsets.max_entries
            or times.entries >= times.max_entries - 1
            or not 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET
        )

    # ---- appending

    def append(
        self,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        offset_of_max_timestamp: int,
        records: bytes | bytearray | memoryview,
    ) -> int:
        """Write whole batches and return the position where they start.

        `offset_of_max_timestamp` is the last offset of the batch with the largest timestamp. Raises `OSError`, with
        the segment as it was before as far as the disk allows, and `SegmentOffsetOverflowError`.
        """
        if not 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
            raise SegmentOffsetOverflowError(self.base_offset, last_offset)
        position = self.records.append(records)
        try:
            if position == 0:
                self._rolling_timestamp = max_timestamp
            largest = self._max_timestamp
            if largest is None:
                largest = self.max_timestamp
            if max_timestamp > largest.timestamp:
                largest = self._max_timestamp = TimestampOffset(max_timestamp, offset_of_max_timestamp)
            if self.bytes_since_last_index_entry > self.config.index_interval_bytes:
                self.offset_index.append(last_offset, position)
                self.time_index.maybe_append(largest.timestamp, largest.offset)
                self.bytes_since_last_index_entry = 0
        except BaseException:
            self.records.undo_append(position)
            raise
        self.bytes_since_last_index_entry += len(records)
        # A reader at the tail asks for an offset where an append or the log ends: no search for it.
        recent = self._recent
        if recent is None or len(recent) >= _RECENT_POSITIONS:
            # The odd reader has to search; evicting one by one would cost every append.
            recent = self._recent = {}
        recent[first_offset] = position
        return position

    # ---- reading

    def position_of(self, offset: int) -> int | None:
        """Position of the batch with `offset`, or of the next batch there is; None if the segment ends before."""
        recent = self._recent
        if recent is not None and (position := recent.get(offset)) is not None:
            return position
        found = self.translate_offset(offset)
        return None if found is None else found.position

    def translate_offset(self, offset: int) -> BatchPosition | None:
        """The first batch whose last offset is >= `offset`: an index search and a short scan."""
        return self.records.find(offset, self.offset_index.lookup(offset).position)

    def read(
        self, start_offset: int, max_size: int, max_position: int, *, min_one_message: bool = False
    ) -> SegmentRead | None:
        """A range that starts with the batch holding `start_offset`, of at most `max_size` bytes below `max_position`.

        With `min_one_message` the first batch is whole even if it is larger than `max_size`. None if the segment ends
        before `start_offset`.
        """
        position = self.position_of(start_offset)
        if position is None:
            return None
        available = max(0, max_position - position)
        incomplete = False
        if available > max_size:
            first = self.records.batch_at(position)
            if first is not None and first.size > max_size:
                if min_one_message:
                    max_size = first.size
                else:
                    incomplete = True
            available = min(available, max_size)
        return SegmentRead(position, self.records.range(position, available), incomplete)

    def upper_bound_offset(self, start: OffsetPosition, size: int) -> int | None:
        """An offset at or behind the end of `size` bytes from `start`, by the offset index; None if it has none."""
        bound = self.offset_index.upper_bound(start, size)
        return None if bound is None else bound.offset

    def read_next_offset(self) -> int:
        """The offset behind the last whole batch; the base offset if there is none."""
        start = self.offset_index.last_entry()
        last = self.base_offset - 1
        for batch in self.records.walk(min(start.position, self.records.size)):
            last = batch.last_offset
        return last + 1 if last >= self.base_offset else max(start.offset, self.base_offset)

    def aborted_txns(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTxn], bool]:
        """Aborted transactions that overlap [fetch_offset, upper_bound), and whether no later segment has more."""
        return self.txn_index.collect(fetch_offset, upper_bound)

    # ---- changing

    def truncate_to(self, offset: int) -> int:
        """Drop every batch with last offset >= `offset` and return the bytes cut."""
        found = self.translate_offset(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        # More entries will come.
        self.offset_index.grow_to_maximum()
        self.time_index.grow_to_maximum()
        self._recent = None
        cut = 0 if found is None else self.records.truncate(found.position)
        if self.records.size == 0:
            self._rolling_timestamp = None
        self.bytes_since_last_index_entry = 0
        self._max_timestamp = self._largest_by_scan() if self.records.size else None
        return cut

    def _largest_by_scan(self) -> TimestampOffset:
        """The largest timestamp after a truncation: the index's last entry, or a batch behind it."""
        largest = self.time_index.last_entry()
        start = self.offset_index.lookup(largest.offset).position
        for _, data in self.records.batches(start, read_bytes=65536):
            timestamp = _max_timestamp_of(data)
            if timestamp > largest.timestamp:
                largest = TimestampOffset(timestamp, _last_offset_of(data))
        return largest

    def prepare_recovery(self) -> None:
        """Empty all indexes; they are rebuilt from the log."""
        self.offset_index.reset()
        self.time_index.reset()
        self.txn_index.reset()
        self._recent = None

    def finish_recovery(self, size: int, largest: TimestampOffset) -> None:
        """The first `size` bytes are good and `largest` is their largest timestamp: cut log and indexes."""
        self.records.truncate(size)
        # Nobody knows what of it a crash has left on the disk only by luck.
        self.records.dirty = True
        self._max_timestamp = largest
        self._rolling_timestamp = None
        self.bytes_since_last_index_entry = 0
        self.add_closing_time_entry()
        self.offset_index.seal()
        self.time_index.seal()

    def check_indexes(self, end_offset: int | None = None) -> None:
        """Raise `CorruptIndexError` if an index can't belong to this log, which ends below `end_offset`.

        Only lengths and first and last entries are looked at, so it costs the same for every size.
        """
        self.offset_index.check(self.records.size)
        self.time_index.check()
        last = max(self.offset_index.last_entry().offset, self.time_index.last_entry().offset)
        if end_offset is not None and self.records.size and last >= end_offset:
            raise CorruptIndexError(
                f"an index of segment {self.base_offset} has offset {last}, beyond {end_offset - 1}"
            )
        if not self.time_index.entries and self.load_first_batch_timestamp() >= 0:
            raise CorruptIndexError(f"{self.time_index.path} is empty, but the log has timestamps")

    def become_active(self) -> None:
        """Appends will come: preallocate the indexes, keep the file open."""
        self.offset_index.grow_to_maximum()
        self.time_index.grow_to_maximum()
        self.records.pin()

    def become_inactive(self) -> None:
        """Closing time index entry; indexes and log cut to what they hold. The segment is sealed."""
        self.add_closing_time_entry()
        self.offset_index.seal()
        self.time_index.seal()
        self.records.trim()
        self.records.unpin()
        self._recent = None

    def add_closing_time_entry(self) -> None:
        """The last entry of the time index becomes the segment's largest timestamp."""
        largest = self.max_timestamp
        self.time_index.maybe_append(largest.timestamp, largest.offset, skip_full_check=True)

    def flush(self) -> bool:
        """fsync all files that need it; returns whether the log did. Raises `OSError`."""
        wrote = self.records.flush()
        self.offset_index.flush()
        self.time_index.flush()
        self.txn_index.flush()
        return wrote

    def close(self) -> None:
        """Closing time index entry, indexes and log cut to what they hold; the log is fsynced unless it is blank."""
        if self._max_timestamp is not None:
            self.add_closing_time_entry()
        self.offset_index.close()
        self.time_index.close()
        self.records.trim()
        if not self.is_blank:
            self.records.flush()
        self.records.close()
        self.txn_index.close()

    def close_handles(self) -> None:
        """Let go of all files without touching them."""
        self.offset_index.close_handles()
        self.time_index.close_handles()
        self.records.close()
        self.txn_index.close()

    def change_suffix(self, new: str) -> None:
        """Rename all files to end in `new`: '', '.deleted', '.cleaned' or '.swap'. Missing ones are no error."""
        self._suffix = new
        self.records.rename(self._path(LOG_SUFFIX))
        self.offset_index.rename(self._path(INDEX_SUFFIX))
        self.time_index.rename(self._path(TIME_INDEX_SUFFIX))
        self.txn_index.rename(self._path(TXN_INDEX_SUFFIX))

    def moved(self, directory: str) -> None:
        """The partition directory has been renamed."""
        self._directory = directory
        self.records.moved(self._path(LOG_SUFFIX))
        self.offset_index.moved(self._path(INDEX_SUFFIX))
        self.time_index.moved(self._path(TIME_INDEX_SUFFIX))
        self.txn_index.moved(self._path(TXN_INDEX_SUFFIX))

    def delete_files(self) -> None:
        """Remove all files. Missing ones are no error."""
        self.close_handles()
        self.records.delete()
        self.offset_index.delete()
        self.time_index.delete()
        self.txn_index.delete()

    def _path(self, kind: str) -> str:
        return offset_file(self._directory, self.base_offset, kind) + self._suffix

    def __repr__(self) -> str:
        return f"LogSegment(base_offset={self.base_offset}, size={self.size})"


def delete_segment_files(directory: str, base_offset: int, suffix: str = "") -> None:
    """Remove the files of a segment that is not loaded."""
    for kind in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
        unlink_if_exists(offset_file(directory, base_offset, kind) + suffix)


def _max_timestamp_of(batch: memoryview) -> int:
    magic = batch[MAGIC_OFFSET]
    if magic >= 2:
        return int.from_bytes(batch[35:43], "big", signed=True)
    return int.from_bytes(batch[18:26], "big", signed=True) if magic == 1 else -1


def _last_offset_of(batch: memoryview) -> int:
    offset = int.from_bytes(batch[0:8], "big", signed=True)
    return offset + int.from_bytes(batch[23:27], "big", signed=True) if batch[MAGIC_OFFSET] >= 2 else offset
