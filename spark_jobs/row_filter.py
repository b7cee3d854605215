"""Spark's filters applied to rows, with SQL's three values: true, false and unknown; a row passes where all are true.

What is applied here need not be applied by Spark again, and so is listed by ``explain`` as pushed.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

if TYPE_CHECKING:
    import pyarrow as pa

# The type that a literal must have to be compared with a column here.
_LITERALS: dict[str, type] = {
    "topic": str,
    "partition": int,
    "offset": int,
    "timestamp": datetime.datetime,
    "timestampType": int,
}
_ORDER: dict[type, str] = {
    EqualTo: "equal",
    LessThan: "less",
    LessThanOrEqual: "less_equal",
    GreaterThan: "greater",
    GreaterThanOrEqual: "greater_equal",
}
_MAX = 2**63


def is_supported(each: Filter) -> bool:
    """Whether rows can be told apart by this filter here; the others are left to Spark."""
    if isinstance(each, Not):
        return is_supported(each.child)
    column = column_of(each)
    if isinstance(each, IsNull | IsNotNull):
        return column in _LITERALS or column in ("key", "value")
    if column not in _LITERALS:
        return False
    if isinstance(each, In):
        return all(_is_literal(column, value) for value in each.value)
    return isinstance(each, (EqualNullSafe, *_ORDER)) and _is_literal(column, each.value)  # type: ignore[attr-defined]


def column_of(each: Any) -> str | None:
    """The column that a filter is about; None for a field within one, and for filters of another shape."""
    path = getattr(each, "attribute", None)
    return path[0] if path is not None and len(path) == 1 else None


def _is_literal(column: str, value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, _LITERALS[column]) or isinstance(value, bool):
        return False
    if isinstance(value, datetime.datetime):
        return value.tzinfo is not None
    return not isinstance(value, int) or -_MAX <= value < _MAX


def holds(each: Filter, value: Any) -> bool | None:
    """Whether a filter holds for a value of its column; None is unknown (and, as value, null)."""
    match each:
        case Not():
            found = holds(each.child, value)
            return None if found is None else not found
        case IsNull():
            return value is None
        case IsNotNull():
            return value is not None
        case EqualNullSafe():
            return bool(value == each.value)
        case In():
            if value is None:
                return None if each.value else False
            if value in [other for other in each.value if other is not None]:
                return True
            return None if None in each.value else False
    other = each.value  # type: ignore[attr-defined]
    if value is None or other is None:
        return None
    match each:
        case EqualTo():
            return bool(value == other)
        case LessThan():
            return bool(value < other)
        case LessThanOrEqual():
            return bool(value <= other)
        case GreaterThan():
            return bool(value > other)
        case GreaterThanOrEqual():
            return bool(value >= other)
    raise TypeError(f"{each!r} is not supported")


class RowFilter:
    """The rows of Arrow batches for which all filters hold."""

    def __init__(self, filters: Iterable[Filter]) -> None:
        """``filters``: those that :func:`is_supported` takes."""
        self._filters: Sequence[Filter] = tuple(filters)

    def apply(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches with the rows that pass; none that is empty."""
        import pyarrow.compute as pc

        for batch in batches:
            for each in self._filters:
                # A row for which the answer is unknown is dropped as well.
                batch = batch.filter(_mask(pc, each, batch))
            if batch.num_rows:
                yield batch


def _mask(pc: Any, each: Filter, batch: pa.RecordBatch) -> Any:
    """What :func:`holds` says of each row."""
    import pyarrow as pa

    if isinstance(each, Not):
        return pc.invert(_mask(pc, each.child, batch))
    column = batch.column(column_of(each))
    if isinstance(each, IsNull):
        return pc.is_null(column)
    if isinstance(each, IsNotNull):
        return pc.is_valid(column)
    # Spark compares integers as they are, whatever the column's width.
    kind = pa.int64() if pa.types.is_integer(column.type) else column.type
    column = column.cast(kind)
    unknown = pa.scalar(None, pa.bool_())
    if isinstance(each, In):
        if not each.value:
            return pa.repeat(pa.scalar(False), len(column))
        values = [value for value in each.value if value is not None]
        found = pc.is_in(column, value_set=pa.array(values, kind))
        found = found if len(values) == len(each.value) else pc.if_else(found, found, unknown)
        return pc.if_else(pc.is_valid(column), found, unknown)
    value = each.value  # type: ignore[attr-defined]
    if isinstance(each, EqualNullSafe):
        return pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, pa.scalar(value, kind)), False)
    return getattr(pc, _ORDER[type(each)])(column, pa.scalar(value, kind))
