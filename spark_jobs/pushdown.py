"""Filters on partition, offset and timestamp, as narrower ranges of a batch read.

Every filter is still applied by Spark, so narrowing may be generous but never too strict.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from spark_jobs.options import Partition
from spark_jobs.planning import Range

_MIN, _MAX = -(2**63), 2**63 - 1


class Lookup(Protocol):
    """Offsets by timestamp, as the cluster gives them."""

    def offsets_by_timestamp(self, wanted: dict[Partition, int]) -> dict[Partition, int | None]: ...


@dataclass(slots=True)
class Bounds:
    """What the filters leave: partitions (None: all), offsets and timestamps, both ends inclusive."""

    partitions: set[int] | None = None
    offset: list[int] = field(default_factory=lambda: [_MIN, _MAX])
    timestamp_ms: list[int] = field(default_factory=lambda: [_MIN, _MAX])

    @classmethod
    def of(cls, filters: Iterable[Any]) -> Bounds:
        """Read Spark's filters; those of other columns or shapes are ignored."""
        bounds = cls()
        for each in filters:
            column = getattr(each, "attribute", None)
            if column is None or len(column) != 1:
                continue
            bounds._take(column[0], type(each).__name__, getattr(each, "value", None))
        return bounds

    def _take(self, column: str, kind: str, value: Any) -> None:
        if column == "partition":
            wanted = set(value) if kind == "In" else {value} if kind in ("EqualTo", "EqualNullSafe") else None
            if wanted is not None:
                self.partitions = wanted if self.partitions is None else self.partitions & wanted
        elif column == "offset" and (isinstance(value, int) or kind == "In"):
            _narrow(self.offset, kind, value)
        elif column == "timestamp" and isinstance(value, datetime.datetime):
            _narrow(self.timestamp_ms, kind, _milliseconds(value), exact=False)

    def narrow(self, ranges: list[Range], lookup: Lookup) -> list[Range]:
        """Cut ranges to the bounds. A lower timestamp bound is looked up; an upper one can't cut: records may be
        out of order in time."""
        kept = [
            Range(r.topic, r.partition, max(r.start, self.offset[0]), min(r.end, self.offset[1] + 1))
            for r in ranges
            if self.partitions is None or r.partition in self.partitions
        ]
        kept = [r for r in kept if r.size > 0]
        if self.timestamp_ms[0] > 0 and kept:
            found = lookup.offsets_by_timestamp({(r.topic, r.partition): self.timestamp_ms[0] for r in kept})
            starts = {r: found[r.topic, r.partition] for r in kept}
            # No record at or after the bound: nothing of the range can pass the filter.
            kept = [
                Range(r.topic, r.partition, max(r.start, start), r.end)
                for r, start in starts.items()
                if start is not None
            ]
        return [r for r in kept if r.size > 0]


def _narrow(limits: list[int], kind: str, value: Any, *, exact: bool = True) -> None:
    if kind in ("EqualTo", "EqualNullSafe"):
        limits[0], limits[1] = max(limits[0], value), min(limits[1], value)
    elif kind == "In" and value and exact:
        limits[0], limits[1] = max(limits[0], min(value)), min(limits[1], max(value))
    elif kind in ("GreaterThan", "GreaterThanOrEqual"):
        limits[0] = max(limits[0], value + (1 if kind == "GreaterThan" and exact else 0))
    elif kind in ("LessThan", "LessThanOrEqual"):
        limits[1] = min(limits[1], value - (1 if kind == "LessThan" and exact else 0))


def _milliseconds(value: datetime.datetime) -> int:
    return int(value.timestamp() * 1000) if value.tzinfo else int(value.astimezone().timestamp() * 1000)
