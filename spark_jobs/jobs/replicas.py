"""Comparing the replicas of one partition, batch by batch, up to the high watermark.

A follower stores the bytes that it fetched, so replicas have the same batches. Only compaction, which each broker does
by itself, makes other batches of the same records: then record by record, where both still have the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from log.errors import LogError
from log.files.checkpoint import CLEANER_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from log.files.names import parse_dir_name
from log.records.batch import RecordBatch
from log.records.batch_reader import read_batches
from log.records.record import iter_records
from spark_jobs.segment_files import log_start_offset, segments_of


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that replicas do not agree on."""

    severity: str
    path: str
    position: int
    offset: int
    message: str


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    position: int
    last_offset: int
    crc: int
    epoch: int


@dataclass(slots=True)
class _Replica:
    directory: Path
    batches: dict[int, _Place]
    start: int
    end: int


def compare_replicas(directories: Sequence[Path]) -> Iterator[Difference]:
    """Differences between replicas of one partition, each against the one that goes furthest."""
    if len(directories) < 2:
        return
    replicas = [_replica(directory) for directory in directories]
    limit = min([_high_watermark(directories), *(replica.end for replica in replicas)])
    first = max(replica.start for replica in replicas)
    reference = max(replicas, key=lambda replica: replica.end)
    compacted = any(_is_compacted(directory) for directory in directories)
    for replica in replicas:
        if replica is not reference:
            yield from _compare(reference, replica, first, limit, compacted)


def _replica(directory: Path) -> _Replica:
    batches: dict[int, _Place] = {}
    end = 0
    for segment in segments_of(directory):
        end = max(end, segment.base_offset)
        with open(segment.path, "rb") as file:
            try:
                for position, batch in read_batches(file.fileno()):
                    end = max(end, batch.last_offset + 1)
                    if isinstance(batch, RecordBatch):
                        place = _Place(
                            segment.path, position, batch.last_offset, batch.crc, batch.partition_leader_epoch
                        )
                        batches[batch.base_offset] = place
            except LogError:
                continue  # The check of the single replica reports it.
    return _Replica(directory, batches, log_start_offset(directory), end)


def _high_watermark(directories: Sequence[Path]) -> int:
    """The largest that any replica knows: what is below was committed."""
    found = [0]
    for directory in directories:
        try:
            found.append(_checkpoint(directory, HIGH_WATERMARK_CHECKPOINT))
        except (OSError, LogError):
            continue
    return max(found)


def _checkpoint(directory: Path, name: str) -> int:
    return OffsetCheckpoint(directory.parent / name).read().get(parse_dir_name(directory.name)[0], -1)


def _is_compacted(directory: Path) -> bool:
    try:
        return _checkpoint(directory, CLEANER_CHECKPOINT) >= 0
    except (OSError, LogError):
        return False


def _compare(a: _Replica, b: _Replica, first: int, limit: int, compacted: bool) -> Iterator[Difference]:
    odd_a: list[_Place] = []
    odd_b: list[_Place] = []
    for base in sorted(a.batches.keys() | b.batches.keys()):
        mine, theirs = a.batches.get(base), b.batches.get(base)
        last = max(place.last_offset for place in (mine, theirs) if place is not None)
        if base >= limit or last < first:
            continue
        if mine is not None and theirs is not None and (mine.crc, mine.last_offset) == (theirs.crc, theirs.last_offset):
            if mine.epoch != theirs.epoch:
                text = f"leader epoch {theirs.epoch}, but {mine.epoch} in {mine.path}"
                yield Difference("error", theirs.path, theirs.position, base, text)
            continue
        odd_a += [] if mine is None else [mine]
        odd_b += [] if theirs is None else [theirs]
    if odd_a or odd_b:
        yield from _compare_records(odd_a, odd_b, first, limit, compacted)


def _compare_records(
    odd_a: list[_Place], odd_b: list[_Place], first: int, limit: int, compacted: bool
) -> Iterator[Difference]:
    ours, theirs = _records(odd_a, first, limit), _records(odd_b, first, limit)
    for offset in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(offset), theirs.get(offset)
        if mine is not None and other is not None:
            if mine[1:] != other[1:]:
                place = other[0]
                text = f"the record differs from the one in {mine[0].path} at position {mine[0].position}"
                yield Difference("error", place.path, place.position, offset, text)
        else:
            has = mine or other
            assert has is not None
            severity, why = ("note", ", as compaction may leave it") if compacted else ("error", "")
            yield Difference(severity, has[0].path, has[0].position, offset, f"only this replica has the record{why}")


def _records(places: list[_Place], first: int, limit: int) -> dict[int, tuple[_Place, object, object, object, object]]:
    found: dict[int, tuple[_Place, object, object, object, object]] = {}
    for place in places:
        with open(place.path, "rb") as file:
            for _, batch in read_batches(file.fileno(), place.position):
                try:
                    for r in iter_records(batch):
                        if first <= r.offset < limit:
                            found[r.offset] = (place, r.timestamp, r.key, r.value, r.headers)
                except LogError:
                    pass  # The check of the single replica reports it.
                break
    return found
