"""Checks the files of a data directory against each other, without changing them: for `odradek log verify`."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

from log.errors import CorruptSnapshotError, LogError
from log.files.checkpoint import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
)
from log.files.handles import file_names
from log.files.meta_properties import META_PROPERTIES, read_meta_properties
from log.files.names import (
    CLEAN_SHUTDOWN_FILE,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    DirectoryKind,
    offset_file,
    offset_in,
    parse_dir_name,
    segment_bases,
)
from log.files.partition_metadata import PARTITION_METADATA, PartitionMetadataFile
from log.files.producer_snapshot import list_snapshots, read_snapshot, snapshot_name
from log.files.txn_index import TransactionIndex
from log.leader_epoch import LEADER_EPOCH_CHECKPOINT, leader_epoch_checkpoint
from log.records.batch import MAX_INT32, RecordBatch
from log.records.batch_reader import read_batches
from log.records.compression import STORED_DECOMPRESSION_LIMIT
from log.records.old_formats import LegacyBatch
from log.records.record import ControlType, control_type_of, iter_records, record_bytes
from log.records.record_walk import walk_records

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_CHECKPOINT,
)


class Severity(StrEnum):
    """How bad a finding is: damage, something that a start repairs, or something worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about one file."""

    severity: Severity
    path: str
    message: str


@dataclass(slots=True)
class Totals:
    """What was looked at."""

    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Segment:
    """What a walk over one `.log` file has seen: per batch its position, base offset, last offset, max timestamp."""

    base_offset: int
    path: Path
    batches: list[tuple[int, int, int, int]] = field(default_factory=list)
    abort_markers: set[int] = field(default_factory=set)
    end: int = 0
    """The position behind the last whole batch."""


def partition_directories(path: str | os.PathLike[str]) -> list[Path]:
    """The partition directories at or in `path`: `path` itself when it holds segments, else its sub-directories."""
    path = Path(path)
    if _logs(path):
        return [path]
    found = []
    for child in sorted(path.iterdir()):
        if child.is_dir():
            try:
                kind = parse_dir_name(child.name)[1]
            except LogError:
                continue
            if kind is not DirectoryKind.DELETE:
                found.append(child)
    return found


def _logs(directory: Path) -> list[Path]:
    """Its `.log` files, in order."""
    return [Path(offset_file(str(directory), base, LOG_SUFFIX)) for base in segment_bases(file_names(directory))]


def is_log_directory(path: str | os.PathLike[str]) -> bool:
    """Whether `path` looks like a log directory, even one without partitions, or like a partition directory."""
    path = Path(path)
    return (path / META_PROPERTIES).exists() or any(
        directory == path or _logs(directory) for directory in partition_directories(path)
    )


def log_bytes(path: str | os.PathLike[str]) -> int:
    """How many bytes of `.log` files a verification will read."""
    return sum(log.stat().st_size for directory in partition_directories(path) for log in _logs(directory))


class Verifier:
    """One verification. `progress(n)` is told of every `n` bytes of `.log` files that have been read.

    With `deep` the records of every batch are expanded and walked, not only its checksum computed.
    """

    def __init__(self, *, deep: bool = True, progress: Callable[[int], None] = lambda size: None) -> None:
        self.totals = Totals()
        self._deep = deep
        self._progress = progress

    def verify(self, path: str | os.PathLike[str]) -> Iterator[Finding]:
        """The findings about a log directory or a partition directory. Raises OSError."""
        path = Path(path)
        ends: dict[str, int] = {}
        directories = partition_directories(path)
        for directory in directories:
            clean = (directory.parent / CLEAN_SHUTDOWN_FILE).exists()
            yield from self._partition(directory, clean, ends)
        if directories != [path]:
            yield from self._log_directory(path, ends)

    # A log directory

    def _log_directory(self, path: Path, ends: dict[str, int]) -> Iterator[Finding]:
        try:
            if read_meta_properties(path) is None:
                yield Finding(Severity.NOTE, str(path / META_PROPERTIES), "is missing")
        except LogError as error:
            yield Finding(Severity.ERROR, str(path / META_PROPERTIES), str(error))
        for name in _CHECKPOINTS:
            try:
                entries = OffsetCheckpoint(path / name).read()
            except LogError as error:
                yield Finding(Severity.ERROR, str(path / name), str(error))
                continue
            for tp, offset in entries.items():
                end = ends.get(str(tp))
                if end is None:
                    yield Finding(Severity.NOTE, str(path / name), f"names {tp}, which is not here")
                elif offset > end:
                    text = f"has offset {offset} for {tp}, whose log ends at {end}"
                    yield Finding(Severity.WARNING, str(path / name), text)

    # A partition directory

    def _partition(self, directory: Path, clean: bool, ends: dict[str, int]) -> Iterator[Finding]:
        self.totals.partitions += 1
        logs = _logs(directory)
        yield from self._what_is_no_file_of_it(directory, logs)
        previous: int | None = None
        gaps = 0
        segments = []
        for number, path in enumerate(logs):
            segment = _Segment(int(path.stem), path)
            if previous is not None and segment.base_offset <= previous:
                text = f"begins at {segment.base_offset}, but the segment before ends at {previous}"
                yield Finding(Severity.ERROR, str(path), text)
            yield from self._walk(segment, last=number == len(logs) - 1, clean=clean)
            for _, base, last, _ in segment.batches:
                if previous is not None and base > previous + 1:
                    gaps += 1
                previous = max(last, previous if previous is not None else -1)
            yield from self._indexes(segment, trimmed=clean or number < len(logs) - 1)
            segments.append(segment)
        if gaps:
            yield Finding(Severity.NOTE, str(directory), f"{gaps} gap(s) between offsets, as compaction leaves them")
        if logs:
            last_base = int(logs[-1].stem)
            ends[directory.name] = max(last_base, previous + 1 if previous is not None else 0)
        yield from self._small_files(directory, segments)

    def _what_is_no_file_of_it(self, directory: Path, logs: list[Path]) -> Iterator[Finding]:
        own = {log.with_suffix(suffix).name for log in logs for suffix in INDEX_SUFFIXES}
        own |= {LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA}
        for path in sorted(directory.iterdir()):
            if path.is_dir() and path.name in own:
                yield Finding(Severity.ERROR, str(path), "is a directory in the place of a file; a start fails")
            elif path.is_dir():
                yield Finding(Severity.WARNING, str(path), "is a directory, which a start leaves alone")
            elif path.suffix in (".cleaned", ".swap"):
                yield Finding(Severity.WARNING, str(path), "is left over from a cleaning; a start completes it")

    def _walk(self, segment: _Segment, *, last: bool, clean: bool) -> Iterator[Finding]:
        self.totals.segments += 1
        path, previous, epoch = str(segment.path), segment.base_offset - 1, -1
        with segment.path.open("rb") as file:
            size, valid = os.fstat(file.fileno()).st_size, 0
            try:
                for position, batch in read_batches(file.fileno()):
                    self.totals.batches += 1
                    self._progress(batch.size_in_bytes)
                    valid = segment.end = position + batch.size_in_bytes
                    if not batch.is_valid():
                        yield Finding(Severity.ERROR, path, f"position {position}: wrong checksum")
                        continue
                    base = batch.base_offset if batch.magic >= 2 else batch.last_offset
                    if base <= previous or batch.last_offset < base:
                        text = f"position {position}: offsets {base} to {batch.last_offset} follow {previous}"
                        yield Finding(Severity.ERROR, path, text)
                    if batch.last_offset - segment.base_offset > MAX_INT32:
                        text = f"position {position}: offset {batch.last_offset} is too far from the base offset"
                        yield Finding(Severity.ERROR, path, text)
                    if 0 <= batch.partition_leader_epoch < epoch:
                        text = f"position {position}: leader epoch {batch.partition_leader_epoch} follows {epoch}"
                        yield Finding(Severity.ERROR, path, text)
                    epoch = max(epoch, batch.partition_leader_epoch)
                    previous = batch.last_offset
                    segment.batches.append((position, base, batch.last_offset, batch.max_timestamp))
                    yield from self._records(segment, position, batch)
            except LogError as error:
                yield Finding(Severity.ERROR, path, str(error))
            if valid < size:
                torn = last and not clean
                text = f"{size - valid} bytes behind the last whole batch" + (
                    ", which a start cuts off" if torn else ""
                )
                yield Finding(Severity.WARNING if torn else Severity.ERROR, path, text)
                self._progress(size - valid)
            self.totals.bytes += size

    def _records(self, segment: _Segment, position: int, batch: RecordBatch | LegacyBatch) -> Iterator[Finding]:
        try:
            if isinstance(batch, LegacyBatch):
                self.totals.records += sum(1 for _ in batch.iter_records(STORED_DECOMPRESSION_LIMIT, check_inner=True))
                return
            self.totals.records += batch.record_count
            if batch.is_control:
                self._note_marker(segment, batch)
            elif self._deep:
                walk_records(record_bytes(batch, STORED_DECOMPRESSION_LIMIT), batch.record_count)
        except LogError as error:
            text = f"position {position}, offset {batch.last_offset}: {error}"
            yield Finding(Severity.ERROR, str(segment.path), text)

    def _note_marker(self, segment: _Segment, batch: RecordBatch) -> None:
        for record in iter_records(batch):
            if control_type_of(record.key) is ControlType.ABORT:
                segment.abort_markers.add(record.offset)

    # The files beside a segment

    def _indexes(self, segment: _Segment, *, trimmed: bool) -> Iterator[Finding]:
        offsets, times, transactions = map(segment.path.with_suffix, INDEX_SUFFIXES)
        # A directory in the place of one has been told of.
        if not offsets.is_dir():
            yield from self._offset_index(segment, offsets, trimmed)
        if not times.is_dir():
            yield from self._time_index(segment, times, trimmed)
        if not transactions.is_dir():
            yield from self._txn_index(segment, transactions)

    def _offset_index(self, segment: _Segment, path: Path, trimmed: bool) -> Iterator[Finding]:
        if not path.exists():
            yield Finding(Severity.WARNING, str(path), "is missing; a start rebuilds it")
            return
        data = path.read_bytes()
        if len(data) % _OFFSET_ENTRY.size and trimmed:
            yield Finding(Severity.ERROR, str(path), f"its size {len(data)} is no multiple of {_OFFSET_ENTRY.size}")
        starts = {position: base for position, base, _, _ in segment.batches}
        previous_offset, previous_position = -1, -1
        for delta, position in _entries(_OFFSET_ENTRY, data):
            offset = segment.base_offset + delta
            if delta == 0 and position == 0 and previous_offset >= 0 and not trimmed:
                return
            if offset <= previous_offset or position <= previous_position:
                text = f"entry {offset} at {position} does not follow {previous_offset} at {previous_position}"
                yield Finding(Severity.ERROR, str(path), text)
            elif delta == 0 and position == 0 and not trimmed:
                return
            elif position not in starts:
                # Behind a torn end the segment will be recovered, and its indexes with it.
                severity = Severity.ERROR if trimmed or position < segment.end else Severity.WARNING
                yield Finding(severity, str(path), f"entry {offset}: no batch begins at position {position}")
            elif starts[position] > offset:
                text = f"entry {offset}: the batch at position {position} begins at {starts[position]}"
                yield Finding(Severity.ERROR, str(path), text)
            previous_offset, previous_position = offset, position

    def _time_index(self, segment: _Segment, path: Path, trimmed: bool) -> Iterator[Finding]:
        if not path.exists():
            yield Finding(Severity.WARNING, str(path), "is missing; lookups by time read the segment from its start")
            return
        data = path.read_bytes()
        if len(data) % _TIME_ENTRY.size and trimmed:
            yield Finding(Severity.ERROR, str(path), f"its size {len(data)} is no multiple of {_TIME_ENTRY.size}")
        previous = -1
        batches = iter(segment.batches)
        largest = -1
        last_seen = segment.base_offset - 1
        for timestamp, delta in _entries(_TIME_ENTRY, data):
            if timestamp == 0 and delta == 0 and not trimmed:
                return
            offset = segment.base_offset + delta
            if timestamp <= previous:
                yield Finding(Severity.ERROR, str(path), f"timestamp {timestamp} follows {previous}")
            previous = timestamp
            while last_seen < offset:
                batch = next(batches, None)
                if batch is None:
                    break
                last_seen, largest = batch[2], max(largest, batch[3])
            if largest > timestamp:
                text = f"entry {timestamp} at offset {offset}: a record before has timestamp {largest}"
                yield Finding(Severity.ERROR, str(path), text)

    def _txn_index(self, segment: _Segment, path: Path) -> Iterator[Finding]:
        if not path.exists():
            if segment.abort_markers:
                text = f"is missing, but the segment has {len(segment.abort_markers)} ABORT marker(s)"
                yield Finding(Severity.NOTE, str(path), text)
            return
        index = TransactionIndex(path, segment.base_offset)
        try:
            previous = -1
            for txn in index.entries():
                if txn.last_offset <= previous:
                    yield Finding(Severity.ERROR, str(path), f"last offset {txn.last_offset} follows {previous}")
                previous = txn.last_offset
                if txn.last_offset not in segment.abort_markers:
                    text = f"names an ABORT marker at {txn.last_offset}, which is not in the segment"
                    yield Finding(Severity.ERROR, str(path), text)
        except LogError as error:
            yield Finding(Severity.ERROR, str(path), str(error))
        finally:
            index.close()

    def _small_files(self, directory: Path, segments: list[_Segment]) -> Iterator[Finding]:
        for offset in list_snapshots(directory):
            path = directory / snapshot_name(offset)
            try:
                read_snapshot(path)
            except CorruptSnapshotError as error:
                yield Finding(Severity.WARNING, str(path), f"{error}; a start takes an older one")
        try:
            entries = leader_epoch_checkpoint(directory).read()
            for before, after in pairwise(entries):
                if after.epoch <= before.epoch or after.start_offset <= before.start_offset:
                    text = (
                        f"epoch {after.epoch} at {after.start_offset} follows {before.epoch} at {before.start_offset}"
                    )
                    yield Finding(Severity.WARNING, str(directory / LEADER_EPOCH_CHECKPOINT), text)
        except LogError as error:
            yield Finding(Severity.ERROR, str(directory / LEADER_EPOCH_CHECKPOINT), str(error))
        metadata = PartitionMetadataFile(directory)
        try:
            metadata.read()
        except LogError as error:
            yield Finding(Severity.ERROR, str(metadata.path), str(error))
        bases = {segment.base_offset for segment in segments}
        for path in sorted([*directory.glob("*.index"), *directory.glob("*.timeindex"), *directory.glob("*.txnindex")]):
            if path.is_file() and (base := offset_in(path.stem)) is not None and base not in bases:
                yield Finding(Severity.WARNING, str(path), "has no .log file; a start deletes it")


def _entries(entry: struct.Struct, data: bytes) -> Iterator[tuple[int, ...]]:
    return entry.iter_unpack(data[: len(data) // entry.size * entry.size])
