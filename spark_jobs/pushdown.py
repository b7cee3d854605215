"""Filters on topic, partition, offset and timestamp, as narrower ranges of a batch read.

Rows are filtered after that as well (by :mod:`spark_jobs.row_filter` or by Spark), so narrowing may be generous but
never too strict.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql.datasource import DataSourceReader, Filter

from spark_jobs.options import Partition
from spark_jobs.planning import Range
from spark_jobs.row_filter import column_of, holds, is_supported

_MIN, _MAX = -(2**63), 2**63 - 1


class Lookup(Protocol):
    """Offsets by timestamp, as the cluster gives them."""

    def offsets_by_timestamp(self, wanted: dict[Partition, int]) -> dict[Partition, int | None]: ...


@dataclass(slots=True)
class Bounds:
    """What the filters leave: partitions, offsets and timestamps (both ends inclusive)."""

    filters: tuple[Filter, ...] = ()
    offset: list[int] = field(default_factory=lambda: [_MIN, _MAX])
    timestamp_ms: list[int] = field(default_factory=lambda: [_MIN, _MAX])

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> Bounds:
        """Read Spark's filters; those of other columns or shapes are ignored."""
        bounds = cls(tuple(each for each in filters if is_supported(each)))
        for each in bounds.filters:
            if _column(each) == "offset":
                _narrow(bounds.offset, each)
            elif _column(each) == "timestamp":
                _narrow(bounds.timestamp_ms, each)
        return bounds

    def wants(self, topic: str, partition: int) -> bool:
        """Whether a partition may have rows that pass."""
        known = {"topic": topic, "partition": partition}
        return all(holds(each, known[name]) is True for each in self.filters if (name := _column(each)) in known)

    def narrow(self, ranges: list[Range], lookup: Lookup) -> list[Range]:
        """Cut ranges to the bounds. A lower timestamp bound is looked up; an upper one can't cut: records may be
        out of order in time."""
        kept = [
            Range(r.topic, r.partition, max(r.start, self.offset[0]), min(r.end, self.offset[1] + 1))
            for r in ranges
            if self.wants(r.topic, r.partition) and self.timestamp_ms[0] <= self.timestamp_ms[1]
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


def _column(each: Any) -> str | None:
    while type(each).__name__ == "Not":
        each = each.child
    return column_of(each)


def _narrow(limits: list[int], each: Any) -> None:
    """Limits for a column that is never null. A comparison with null holds for no row, nor does its negation."""
    kind = type(each).__name__
    if kind in ("IsNotNull", "Not"):
        # What Spark can turn round, such as NOT (a < b), it has; what is left cuts at most single values out.
        if kind == "IsNotNull" or not _is_never_true(each.child):
            return
        limits[0], limits[1] = _MAX, _MIN
        return
    values = () if kind == "IsNull" else each.value if kind == "In" else (each.value,)
    known = [_number(value) for value in values if value is not None]
    if not known:
        limits[0], limits[1] = _MAX, _MIN
    elif kind in ("EqualTo", "EqualNullSafe", "In"):
        limits[0], limits[1] = max(limits[0], min(known)), min(limits[1], max(known))
    elif kind in ("GreaterThan", "GreaterThanOrEqual"):
        limits[0] = max(limits[0], known[0] + _open(kind, each.value))
    elif kind in ("LessThan", "LessThanOrEqual"):
        limits[1] = min(limits[1], known[0] - _open(kind, each.value))


def _is_never_true(child: Any) -> bool:
    """Whether NOT of this holds for no value that is not null."""
    kind = type(child).__name__
    if kind == "IsNotNull":
        return True
    if kind in ("IsNull", "EqualNullSafe", "Not"):
        return False
    return None in child.value if kind == "In" else child.value is None


def _open(kind: str, value: Any) -> int:
    """What an open end takes away; nothing of timestamps, whose microseconds are cut off here."""
    return int(not kind.endswith("OrEqual") and isinstance(value, int))


def _number(value: Any) -> int:
    """An offset as it is, a timestamp in ms (rounded down)."""
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // datetime.timedelta(milliseconds=1)
    return int(value)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class FilteredReader(DataSourceReader):
    """A reader whose subclass reads within `_bounds`. Filters narrow what is read and are applied to the rows."""

    _bounds = Bounds()

    @property
    def pushFilters(self) -> Any:
        """See :class:`PushFilters`."""
        return PushFilters(self._push)

    def _push(self, bounds: Bounds) -> None:
        self._bounds = bounds


class PushFilters:
    """A reader's ``pushFilters`` that works whether Spark's filter pushdown is on or (the default) off.

    While it is off Spark refuses a reader that overrides the method, which it finds out by the function behind it.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, take: Callable[[Bounds], None]) -> None:
        self._take = take

    def __call__(self, filters: list[Filter]) -> Iterator[Filter]:
        """Take the filters that can be applied here, and give the rest back to Spark."""
        bounds = Bounds.of(filters)
        self._take(bounds)
        taken = {id(each) for each in bounds.filters}
        yield from (each for each in filters if id(each) not in taken)
