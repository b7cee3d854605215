"""Pure arithmetic of offsets: which ranges a batch reads, and how they are split over tasks.

Offsets are kept as ``{(topic, partition): offset}``; the JSON form, in checkpoints too, is Spark's
``{"topic": {"0": n}}``.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_jobs.options import Partition

Offsets = Mapping[Partition, int]
OffsetJson = dict[str, dict[str, int]]
# In the latest offsets of a progress report stands under this name, which no topic can have, how commits to the
# consumer group went.
GROUP_REPORT = "odradek/group"


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets ``[start, end)`` of a partition, read by one task."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Offsets in the range; gaps count."""
        return max(0, self.end - self.start)


def to_json(offsets: Offsets) -> OffsetJson:
    """As Spark's connector writes them: topics and partitions sorted."""
    result: OffsetJson = {}
    for (topic, partition), offset in sorted(offsets.items()):
        result.setdefault(topic, {})[str(partition)] = offset
    return result


def from_json(value: Mapping[str, Mapping[str, int]]) -> dict[Partition, int]:
    """Back from :func:`to_json`; numbers may be strings, as after a round trip through another engine."""
    return {
        (topic, int(p)): int(offset)
        for topic, partitions in value.items()
        if topic != GROUP_REPORT
        for p, offset in partitions.items()
    }


def rate_limit(limit: int, start: Offsets, end: Offsets, since: Offsets) -> dict[Partition, int]:
    """At most ``limit`` offsets over all partitions, in proportion to what each has (Spark's rule).

    ``start`` is where the batch begins; a new partition begins at ``since`` (its earliest offset). A small partition
    gets at least one offset, so none starves.
    """
    sizes: dict[Partition, int] = {}
    for partition, last in end.items():
        begin = start.get(partition, since.get(partition))
        if begin is not None and last > begin:
            sizes[partition] = last - begin
    total = sum(sizes.values())
    if total < 1:
        return dict(end)
    limited: dict[Partition, int] = {}
    for partition, last in end.items():
        size = sizes.get(partition)
        if size is None:
            limited[partition] = last
            continue
        begin = start.get(partition, since.get(partition, 0))
        share = limit * (size / total)
        granted = math.ceil(share) if share < 1 else math.floor(share)
        limited[partition] = min(begin + granted, last)
    return limited


def split(ranges: Iterable[Range], min_partitions: int | None, max_records: int | None) -> list[Range]:
    """Split ranges so that there are at least ``min_partitions`` of them, if there are so many offsets, and none
    exceeds ``max_records`` offsets.

    Empty ranges are left out. The largest parts are split first, and sizes of the parts of a range differ by at most
    one.
    """
    parts = [r for r in ranges if r.size > 0]
    if max_records is not None:
        parts = [piece for r in parts for piece in _divide(r, math.ceil(r.size / max_records))]
    if min_partitions is None or len(parts) >= min_partitions:
        return parts
    total = sum(r.size for r in parts)
    counts = [min(r.size, max(1, r.size * min_partitions // total)) for r in parts]
    largest = [(-r.size / count, index) for index, (r, count) in enumerate(zip(parts, counts, strict=True))]
    heapq.heapify(largest)
    for _ in range(min(min_partitions, total) - sum(counts)):
        _, index = heapq.heappop(largest)
        counts[index] += 1
        heapq.heappush(largest, (-parts[index].size / counts[index], index))
    return [piece for r, count in zip(parts, counts, strict=True) for piece in _divide(r, count)]


def _divide(r: Range, count: int) -> list[Range]:
    pieces = []
    start = r.start
    for left in range(min(count, r.size), 0, -1):
        end = start + (r.end - start) // left
        pieces.append(Range(r.topic, r.partition, start, end))
        start = end
    return pieces
