"""Segment files of partition directories: finding them, cutting them into pieces, reading a piece.

Index files say where batches begin, so a large segment is read by several tasks and offsets or times that nobody
wants are skipped. Nothing is written and no lock is taken: a directory that a broker works on can be read.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from log.errors import LogError
from log.files.checkpoint import LOG_START_OFFSET_CHECKPOINT, OffsetCheckpoint
from log.files.handles import file_names
from log.files.names import DirectoryKind, offset_file, parse_dir_name, segment_bases
from log.files.txn_index import TransactionIndex
from log.records.batch import RecordBatch
from log.topic_partition import TopicPartition
from spark_jobs.decode import walk
from spark_jobs.decode.decoder import CorruptBatchError, Decoder
from spark_jobs.pushdown import Bounds
from spark_jobs.worker import task

logger = logging.getLogger(__name__)

READ_BYTES = 16 * 1024 * 1024
MAX_OFFSET = 2**63 - 1


class SegmentsError(ValueError):
    """A path that holds no partition, or one that holds a partition twice."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One ``.log`` file; ``next_base`` is None for the last of its partition, which may still grow."""

    directory: str
    topic: str
    partition: int
    base_offset: int
    next_base: int | None
    size: int

    @property
    def path(self) -> str:
        """The ``.log`` file."""
        return offset_file(self.directory, self.base_offset, ".log")


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes ``[start, end)`` of a segment, and the offsets ``[first_offset, end_offset)`` wanted of it."""

    segment: Segment
    start: int
    end: int
    first_offset: int
    end_offset: int
    aborted: tuple[tuple[int, int], ...] = ()


def partition_directories(paths: Iterable[str]) -> dict[TopicPartition, list[Path]]:
    """Partition directories at or in the given paths, which may be partition directories, log directories or data
    directories of several brokers. Future, deleted and stray ones are left out. Raises SegmentsError."""
    found: dict[TopicPartition, list[Path]] = {}
    for text in paths:
        path = Path(text)
        if not path.is_dir():
            raise SegmentsError(f"{path} is no directory (or the driver can't read it)")
        before = sum(map(len, found.values()))
        for candidate in (path, *sorted(child for child in path.iterdir() if child.is_dir())):
            try:
                tp, kind = parse_dir_name(candidate.name)
            except LogError:
                continue
            if kind is DirectoryKind.CURRENT and segment_bases(file_names(candidate)):
                found.setdefault(tp, []).append(candidate)
        if sum(map(len, found.values())) == before:
            raise SegmentsError(f"{path} is no partition directory and holds none")
    return found


def one_each(found: dict[TopicPartition, list[Path]]) -> dict[TopicPartition, Path]:
    """Of several replicas of a partition the one whose log goes furthest."""
    return {tp: max(places, key=_extent) for tp, places in found.items()}


def _extent(directory: Path) -> tuple[int, int]:
    last = segments_of(directory)[-1]
    return last.base_offset, last.size


def segments_of(directory: Path) -> list[Segment]:
    """Segments of a partition directory, in order."""
    tp, _ = parse_dir_name(directory.name)
    bases = segment_bases(file_names(directory))
    return [
        Segment(
            str(directory),
            tp.topic,
            tp.partition,
            base,
            following,
            os.stat(offset_file(str(directory), base, ".log")).st_size,
        )
        for base, following in zip(bases, [*bases[1:], None], strict=True)
    ]


def log_start_offset(directory: Path) -> int:
    """From the checkpoint beside the partition's directory; 0 when there is none."""
    tp, _ = parse_dir_name(directory.name)
    try:
        return OffsetCheckpoint(directory.parent / LOG_START_OFFSET_CHECKPOINT).read().get(tp, 0)
    except (OSError, LogError) as error:
        logger.warning("%s: %s; reading from the first segment", directory, error)
        return 0


def plan_partition(directory: Path, bounds: Bounds, piece_bytes: int, *, read_committed: bool) -> list[Piece]:
    """Pieces that may hold rows within the bounds."""
    tp, _ = parse_dir_name(directory.name)
    if not bounds.wants(tp.topic, tp.partition) or bounds.timestamp_ms[0] > bounds.timestamp_ms[1]:
        return []
    first = max(bounds.offset[0], log_start_offset(directory))
    end = min(bounds.offset[1], MAX_OFFSET - 1) + 1
    segments = segments_of(directory)
    aborted = _aborted(segments) if read_committed else []
    pieces: list[Piece] = []
    for segment in segments:
        if segment.base_offset >= end or (segment.next_base is not None and segment.next_base <= first):
            continue
        if segment.next_base is not None and _newest(segment) < bounds.timestamp_ms[0]:
            continue
        pieces += _cut(segment, first, end, piece_bytes, aborted)
    return pieces


def _cut(
    segment: Segment, first: int, end: int, piece_bytes: int, aborted: list[tuple[int, int, int]]
) -> Iterator[Piece]:
    """At positions of the offset index, about ``piece_bytes`` apart; a last segment that may grow stays whole."""
    offsets, positions = _offset_index(segment)
    start = 0
    if len(offsets):
        at = int(np.searchsorted(offsets, first, side="right")) - 1
        start = int(positions[at]) if at >= 0 else 0
    stop = segment.size
    if len(offsets):
        # An entry has the last offset of what was appended at its position, so the one after the first that reaches
        # the end begins behind it.
        beyond = int(np.searchsorted(offsets, end - 1, side="left")) + 1
        stop = int(positions[beyond]) if beyond < len(positions) else stop
    if stop <= start:
        return
    edges = [start]
    for position in positions.tolist():
        if start < position < stop and position - edges[-1] >= piece_bytes:
            edges.append(position)
    mine = tuple((first_offset, producer) for producer, first_offset, last in aborted if last >= segment.base_offset)
    for here, there in zip(edges, [*edges[1:], stop], strict=True):
        yield Piece(segment, here, there, first, end, mine)


def _offset_index(segment: Segment) -> tuple[np.ndarray, np.ndarray]:
    """(absolute offsets, positions) of the entries that make sense; zeros behind the last are preallocated."""
    empty = np.empty(0, np.int64)
    try:
        data = Path(offset_file(segment.directory, segment.base_offset, ".index")).read_bytes()
    except OSError:
        return empty, empty
    entries = np.frombuffer(data, ">i4", count=len(data) // 8 * 2).reshape(-1, 2).astype(np.int64)
    good = np.ones(len(entries), bool)
    good[1:] = (np.diff(entries[:, 0]) > 0) & (np.diff(entries[:, 1]) > 0)
    good &= (entries[:, 1] < segment.size) & (entries[:, 0] >= 0) & (entries[:, 1] >= 0)
    count = len(entries) if good.all() else int(good.argmin())
    if count == 1 and not entries[0].any():
        count = 0
    return entries[:count, 0] + segment.base_offset, entries[:count, 1]


def _newest(segment: Segment) -> int:
    """The largest timestamp of a sealed segment, by its time index; the largest number when that does not tell."""
    try:
        data = Path(offset_file(segment.directory, segment.base_offset, ".timeindex")).read_bytes()
    except OSError:
        return MAX_OFFSET
    if len(data) < 12 or len(data) % 12:
        return MAX_OFFSET
    newest = int.from_bytes(data[-12:-4], "big", signed=True)
    return newest if newest > 0 else MAX_OFFSET


def _aborted(segments: list[Segment]) -> list[tuple[int, int, int]]:
    """(producer id, first offset, last offset) of all aborted transactions of a partition."""
    found = []
    for segment in segments:
        path = offset_file(segment.directory, segment.base_offset, ".txnindex")
        if os.path.exists(path):
            index = TransactionIndex(path, segment.base_offset)
            found += [(txn.producer_id, txn.first_offset, txn.last_offset) for txn in index.entries()]
    return found


def read_piece(
    piece: Piece, columns: tuple[str, ...], *, read_committed: bool, verify: bool
) -> Iterator[pa.RecordBatch]:
    """Rows of a piece, in memory of about two reads. Raises CorruptBatchError, naming file and position."""
    segment = piece.segment
    decoder = Decoder(segment.topic, segment.partition, piece.first_offset, piece.end_offset, columns)
    decoder.aborted.begin(piece.aborted)
    position, step, following = piece.start, READ_BYTES, segment.base_offset
    with task(), open(segment.path, "rb", buffering=0) as file:
        while position < piece.end:
            data = memoryview(os.pread(file.fileno(), min(step, piece.end - position), position))
            table = walk.scan_batches(walk.as_buffer(data), len(data))
            whole = int(table[-1, walk.POSITION] + table[-1, walk.SIZE]) if len(table) else 0
            if len(table) and table[-1, walk.SIZE] < 0:
                torn = int(table[-1, walk.POSITION])
                if segment.next_base is None and not any(data[torn : torn + 1024]):
                    # Preallocated space behind the last batch.
                    data, piece_ends = data[:torn], True
                else:
                    raise CorruptBatchError(f"{segment.path} at position {position + torn}: no batch begins here")
            else:
                piece_ends = False
                data = data[:whole]
                if not whole:
                    if position + step < piece.end:
                        step *= 2
                        continue
                    if segment.next_base is None:
                        return  # The last batch is being written, or was when the broker died.
                    raise CorruptBatchError(f"{segment.path} at position {position}: the batch is cut off")
            if verify:
                _verify(segment, data, position, table, following)
                following = max(
                    following, int((table[:, walk.BASE_OFFSET] + table[:, walk.LAST_OFFSET_DELTA]).max()) + 1
                )
            yield from decoder.decode(data, read_committed=read_committed)
            if piece_ends or decoder.next_offset >= piece.end_offset:
                return
            position += whole


def _verify(segment: Segment, data: memoryview, position: int, table: walk.Int64s, next_offset: int) -> None:
    """Checksums, and offsets, which no checksum covers: ascending and within the segment."""
    end = MAX_OFFSET if segment.next_base is None else segment.next_base
    for row in table:
        at = int(row[walk.POSITION])
        if at >= len(data) or row[walk.MAGIC] < 2:
            continue
        base = int(row[walk.BASE_OFFSET])
        where = f"{segment.path} at position {position + at}: the batch at offset {base}"
        if not RecordBatch(data, at).is_valid():
            raise CorruptBatchError(f"{where} has a wrong checksum")
        if not next_offset <= base < end:
            raise CorruptBatchError(f"{where} is out of order: offsets {next_offset} to {end - 1} can follow here")
        next_offset = base + int(row[walk.LAST_OFFSET_DELTA]) + 1
