"""Opening a partition directory: leftovers of crashes are tidied, segments loaded and, if need be, recovered."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

from log.config import LogConfig
from log.errors import CorruptIndexError, OffsetsOutOfOrderError
from log.files.file_records import FileRecords
from log.files.handles import file_names, unlink_if_exists
from log.files.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    DirectoryKind,
    is_of_segment,
    offset_file,
    offset_of,
    parse_dir_name,
)
from log.files.partition_metadata import PartitionMetadataFile
from log.files.segment import LogSegment, SegmentOffsetOverflowError
from log.files.segments import LogSegments
from log.files.split import split_overflowed_segment
from log.leader_epoch import LeaderEpochCache, leader_epoch_checkpoint
from log.local_log import LocalLog, LogEnvironment, open_segment
from log.management.recovery import rebuild_producer_state, recover_segment
from log.offset_metadata import LogOffsetMetadata
from log.partition_log import PartitionLog
from log.producer_state import ProducerStateConfig, ProducerStateManager
from log.topic_partition import TopicPartition
from timer.sharing import shared

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What is known about a directory before it is read.

    `log_start_offset` and `recovery_point` are from the log directory's checkpoints (0 if they have no entry). `clean`:
    the log directory has the clean-shutdown marker. `on_progress(segments left, bytes done)` is called as segments are
    recovered.
    """

    log_start_offset: int = 0
    recovery_point: int = 0
    clean: bool = True
    on_progress: Callable[[int, int], None] | None = None


def open_log(
    directory: str,
    config: LogConfig,
    env: LogEnvironment,
    options: LoadOptions = LoadOptions(),
    *,
    topic_partition: TopicPartition | None = None,
    topic_id: bytes | None = None,
    producer_config: ProducerStateConfig | None = None,
) -> PartitionLog:
    """Open or create the log in `directory`, whose name says which partition it is.

    Raises `OSError`, `StorageError` (a corrupt checkpoint), `LogError`.
    """
    directory, parent = sys.intern(directory), sys.intern(os.path.dirname(directory))
    is_new = not os.path.isdir(directory)
    if is_new:
        os.makedirs(directory)
    parsed, kind = parse_dir_name(os.path.basename(directory))
    tp = topic_partition if topic_partition is not None else parsed
    checkpoint = leader_epoch_checkpoint(directory, parent)
    checkpoint.create_if_absent()
    epochs = LeaderEpochCache(checkpoint)
    producers = _new_producer_state(tp, directory, env, producer_config)
    segments = LogSegments()
    loader = _Loader(directory, tp, config, env, options, segments, epochs, producers, producer_config)
    loader.deleting = kind is DirectoryKind.DELETE
    log_start, recovery_point, end = loader.load()
    local = LocalLog(directory, tp, config, segments, recovery_point, end, env)
    stored_id = shared(PartitionMetadataFile(directory, parent).read())
    log = PartitionLog(local, log_start, epochs, checkpoint, producers, stored_id)
    # One that a process left behind, which was killed before it flushed anything, may never have been synced. The
    # checkpoints of a clean stop have synced the names of all.
    log.name_is_durable = not is_new and (options.clean or options.recovery_point > log_start)
    if topic_id is not None:
        log.assign_topic_id(topic_id)
    return log


def _new_producer_state(
    tp: TopicPartition, directory: str, env: LogEnvironment, config: ProducerStateConfig | None
) -> ProducerStateManager:
    return ProducerStateManager(tp, directory, env.clock, config or ProducerStateConfig())


class _Loader:
    """One run over one directory. The methods stand in the order of the steps."""

    def __init__(
        self,
        directory: str,
        tp: TopicPartition,
        config: LogConfig,
        env: LogEnvironment,
        options: LoadOptions,
        segments: LogSegments,
        epochs: LeaderEpochCache,
        producers: ProducerStateManager,
        producer_config: ProducerStateConfig | None,
    ) -> None:
        self.directory = directory
        self.tp = tp
        self.config = config
        self.env = env
        self.options = options
        self.segments = segments
        self.epochs = epochs
        self.producers = producers
        self.producer_config = producer_config
        self.deleting = False
        self.rebuilt_segment = False

    def load(self) -> tuple[int, int, LogOffsetMetadata]:
        """(log start offset, recovery point, log end offset)."""
        swap_files = self._remove_leftovers()
        self._finish_swaps(swap_files)
        self._load_with_splits(self._load_segments)
        if self.deleting:
            # It will be removed: neither checked nor preallocated.
            if not len(self.segments):
                self.segments.add(self._new_segment(0))
            recovery_point, end = 0, 0
        else:
            recovery_point, end = self._load_with_splits(self._recover)
            self.segments.active.become_active()
        active = self.segments.active
        start_checkpoint = self.options.log_start_offset
        self.epochs.truncate_from_end(end)
        self.epochs.truncate_from_start(start_checkpoint)
        first = self.segments.first_base_offset
        assert first is not None
        log_start = max(start_checkpoint, first)
        self.producers.remove_stray_snapshots(self.segments.base_offsets())
        # Rebuilding a segment drops the snapshots after it; then "no snapshot" no longer means "no producers".
        clean = self.options.clean and not self.rebuilt_segment
        rebuild_producer_state(self.producers, self.segments, log_start, end, self.env.clock.wall_ms(), clean=clean)
        return log_start, max(recovery_point, log_start), LogOffsetMetadata(end, active.base_offset, active.size)

    # ---- leftovers of deletions, cleanings and splits

    def _remove_leftovers(self) -> list[str]:
        """Delete `.deleted`, `.cleaned` and swap files that are not complete; returns the valid swap files' names."""
        swaps: list[str] = []
        cleaned: list[str] = []
        for name in file_names(self.directory):
            if name.endswith(DELETED_SUFFIX) and not name.endswith(".checkpoint.deleted"):
                unlink_if_exists(self._in_dir(name))
            elif name.endswith(CLEANED_SUFFIX):
                cleaned.append(name)
            elif name.endswith(SWAP_SUFFIX):
                swaps.append(name)
        # Renaming from .cleaned to .swap goes from the highest offset down: from the lowest .cleaned on, the swap
        # was not complete.
        limit = min((offset_of(name) for name in cleaned), default=None)
        for name in cleaned:
            unlink_if_exists(self._in_dir(name))
        if limit is None:
            return swaps
        for name in swaps:
            if offset_of(name) >= limit:
                unlink_if_exists(self._in_dir(name))
        return [name for name in swaps if offset_of(name) < limit]

    def _finish_swaps(self, swaps: list[str]) -> None:
        """Old segments in the range of complete swap files go; the swap files take their final names."""
        logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
        if logs:
            low = min(offset_of(name) for name in logs)
            high = max(self._swap_end(offset_of(name)) for name in logs)
            for name in file_names(self.directory):
                if name.endswith(SWAP_SUFFIX) or not is_of_segment(name):
                    continue
                if low <= offset_of(name) < high:
                    logger.info("%s: removing %s, which a complete swap file replaces", self.tp, name)
                    unlink_if_exists(self._in_dir(name))
        for name in swaps:
            if os.path.exists(self._in_dir(name)):
                os.replace(self._in_dir(name), self._in_dir(name.removesuffix(SWAP_SUFFIX)))

    def _swap_end(self, base_offset: int) -> int:
        records = FileRecords(offset_file(self.directory, base_offset, LOG_SUFFIX) + SWAP_SUFFIX)
        end = base_offset + 1
        for batch in records.walk():
            end = batch.last_offset + 1
        return end

    # ---- segments

    def _load_segments(self) -> None:
        names = sorted(name for name in file_names(self.directory) if is_of_segment(name))
        bases = [offset_of(name) for name in names if name.endswith(LOG_SUFFIX)]
        for name in names:
            if name.endswith(INDEX_SUFFIXES) and offset_of(name) not in bases:
                logger.warning("%s: removing %s, which has no log file", self.tp, name)
                unlink_if_exists(self._in_dir(name))
        for base, following in zip_longest(bases, bases[1:]):
            segment = self._load_segment(base, following, set(names))
            self.segments.add(segment)

    def _load_segment(self, base_offset: int, end_offset: int | None, names: set[str]) -> LogSegment:
        """Open a segment; rebuild its indexes if they are missing or can't be right."""
        missing = [suffix for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX) if f"{base_offset:020d}{suffix}" not in names]
        segment = self._open_segment(base_offset)
        if self.deleting:
            return segment
        try:
            if missing:
                raise CorruptIndexError(f"{', '.join(missing)} missing")
            segment.check_indexes(end_offset)
            segment.txn_index.check()
        except CorruptIndexError as error:
            if not self.options.clean and (end_offset is None or end_offset > self.options.recovery_point):
                return segment  # It will be recovered anyway.
            logger.warning("%s: rebuilding the indexes of segment %d: %s", self.tp, base_offset, error)
            self._recover_segment(segment)
        return segment

    def _open_segment(self, base_offset: int) -> LogSegment:
        return open_segment(self.directory, base_offset, self.config, self.env)

    def _new_segment(self, base_offset: int) -> LogSegment:
        return open_segment(self.directory, base_offset, self.config, self.env, create=True)

    def _load_with_splits(self, step: Callable[[], T]) -> T:
        """Run `step` again after each segment that had to be split because its offsets do not fit its indexes."""
        while True:
            try:
                return step()
            except SegmentOffsetOverflowError as overflow:
                segment = next((s for s in self.segments if s.base_offset == overflow.base_offset), None)
                base = overflow.base_offset
                logger.warning("%s: splitting segment %d: %s", self.tp, base, overflow)
                if segment is not None:
                    segment.close_handles()
                if len(split_overflowed_segment(self.directory, base)) < 2:
                    raise
                for loaded in self.segments:
                    loaded.close_handles()
                self.segments.clear()
                self._finish_swaps(self._remove_leftovers())
                self._load_segments()

    # ---- recovery

    def _recover(self) -> tuple[int, int]:
        """(recovery point, log end offset), after recovering what is not known to be flushed."""
        options = self.options
        if not options.clean:
            self._recover_unflushed()
        end = self._log_end_unless_below_start()
        if end is None:
            self.segments.add(self._new_segment(options.log_start_offset))
            end = options.log_start_offset
            return min(options.recovery_point, end), end
        return (end if options.clean else min(options.recovery_point, end)), end

    def _recover_unflushed(self) -> None:
        pending = self.segments.from_floor(self.options.recovery_point)
        done = 0
        for number, segment in enumerate(pending):
            if self.options.on_progress is not None:
                self.options.on_progress(len(pending) - number, done)
            done += segment.size
            try:
                cut = self._recover_segment(segment)
            except OffsetsOutOfOrderError as error:
                logger.warning("%s: emptying segment %d: %s", self.tp, segment.base_offset, error)
                cut = segment.truncate_to(segment.base_offset)
            if cut:
                self._delete_later(pending[number + 1 :])
                break
        if self.options.on_progress is not None:
            self.options.on_progress(0, done)

    def _recover_segment(self, segment: LogSegment) -> int:
        self.rebuilt_segment = True
        producers = _new_producer_state(self.tp, self.directory, self.env, self.producer_config)
        rebuild_producer_state(
            producers,
            self.segments,
            self.options.log_start_offset,
            segment.base_offset,
            self.env.clock.wall_ms(),
        )
        cut = recover_segment(segment, producers, self.epochs)
        # Not synced: if it is lost or torn at another crash, this is done again.
        producers.take_snapshot(sync=False)
        return cut

    def _log_end_unless_below_start(self) -> int | None:
        """The log end offset; None, with everything dropped, if there is no segment or it ends before the start."""
        if not len(self.segments):
            return None
        end = self.segments.active.read_next_offset()
        start = self.options.log_start_offset
        if end >= start:
            return end
        logger.warning("%s: dropping all segments: they end at %d, before the log start %d", self.tp, end, start)
        self._delete_later(list(self.segments))
        self.epochs.clear()
        self.producers.truncate_fully_and_start_at(start)
        return None

    def _delete_later(self, segments: Iterable[LogSegment]) -> None:
        doomed = list(segments)
        for segment in doomed:
            self.segments.remove(segment.base_offset)
            self.producers.delete_snapshot(segment.base_offset)
            segment.change_suffix(DELETED_SUFFIX)
            segment.close_handles()

        def delete() -> None:
            for segment in doomed:
                segment.delete_files()

        if doomed:
            self.env.scheduler.schedule_once("delete-file", delete, self.config.file_delete_delay_ms)

    def _in_dir(self, name: str) -> str:
        return os.path.join(self.directory, name)
