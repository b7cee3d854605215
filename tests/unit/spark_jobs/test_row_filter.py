"""Any filters over any rows: what narrowing keeps, what Arrow keeps, and what SQL says, which is written down here once
more in another way (unknown as a third number between false and true)."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

datasource = pytest.importorskip("pyspark.sql.datasource")
pa = pytest.importorskip("pyarrow")

from spark_jobs.decode.columns import arrow_schema  # noqa: E402
from spark_jobs.planning import Range  # noqa: E402
from spark_jobs.pushdown import Bounds, PushFilters  # noqa: E402
from spark_jobs.row_filter import RowFilter, holds, is_supported  # noqa: E402
from tests.unit.spark_jobs.made_up import MadeUpCluster  # noqa: E402

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
COLUMNS = ("key", "topic", "partition", "offset", "timestamp", "timestampType")
LITERALS = {
    "topic": st.sampled_from(["a", "b", "", "é"]),
    "partition": st.integers(-1, 3) | st.just(2**40),
    "offset": st.integers(-2, 9) | st.sampled_from([-(2**63), 2**63 - 1]),
    # Between milliseconds too.
    "timestamp": st.integers(-1000, 9000).map(lambda us: EPOCH + datetime.timedelta(microseconds=us)),
    "timestampType": st.integers(-1, 2),
}
COMPARISONS = ["EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"]
FALSE, UNKNOWN, TRUE = 0, 1, 2


@st.composite
def filters(draw: Any) -> Any:
    column = draw(st.sampled_from(list(LITERALS)))
    literal = LITERALS[column] | st.none()
    kind = draw(st.sampled_from([*COMPARISONS, "In", "IsNull", "IsNotNull"]))
    if kind in ("IsNull", "IsNotNull"):
        found = getattr(datasource, kind)((draw(st.sampled_from([column, "key"])),))
    elif kind == "In":
        found = datasource.In((column,), tuple(draw(st.lists(literal, max_size=4))))
    else:
        found = getattr(datasource, kind)((column,), draw(literal))
    return datasource.Not(found) if draw(st.booleans()) else found


ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, b"", b"k"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 2),
        st.integers(0, 7),
        st.integers(0, 8),
        st.sampled_from([0, 1]),
    ),
    max_size=12,
)


def sql(each: Any, value: Any) -> int:
    """SQL's truth of a filter for a value."""
    name = type(each).__name__
    if name == "Not":
        return TRUE - sql(each.child, value)
    if name in ("IsNull", "IsNotNull"):
        return TRUE if (value is None) == (name == "IsNull") else FALSE
    if name == "In":
        return max((sql(datasource.EqualTo(each.attribute, other), value) for other in each.value), default=FALSE)
    if name == "EqualNullSafe":
        return TRUE if value == each.value else FALSE
    if value is None or each.value is None:
        return UNKNOWN
    order = (value > each.value) - (value < each.value)
    wanted = {"EqualTo": (0,), "LessThan": (-1,), "LessThanOrEqual": (-1, 0), "GreaterThan": (1,)}
    return TRUE if order in wanted.get(name, (0, 1)) else FALSE


def attribute(each: Any) -> str:
    return str((each.child if isinstance(each, datasource.Not) else each).attribute[0])


@settings(max_examples=400, deadline=None)
@given(st.lists(filters(), min_size=1, max_size=3), ROWS)
def test_rows_and_ranges_are_what_sql_says(given_filters: list[Any], rows: list[tuple[Any, ...]]) -> None:
    assert all(map(is_supported, given_filters))
    named = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    for row in named:
        row["timestamp"] = EPOCH + datetime.timedelta(milliseconds=row["timestamp"])
    for row in named:
        for each in given_filters:
            value = row[attribute(each)]
            assert holds(each, value) == {FALSE: False, UNKNOWN: None, TRUE: True}[sql(each, value)]
    expected = [row for row in named if all(sql(each, row[attribute(each)]) == TRUE for each in given_filters)]
    batch = pa.RecordBatch.from_pylist(named, arrow_schema(COLUMNS))
    found = [row for part in RowFilter(given_filters).apply([batch]) for row in part.to_pylist()]
    assert found == expected
    places = sorted({(row["topic"], row["partition"]) for row in named})
    times = {
        # In the order of the log, as a broker looks for the first that is not older.
        place: sorted(
            (
                ((row["timestamp"] - EPOCH) // datetime.timedelta(milliseconds=1), row["offset"])
                for row in named
                if (row["topic"], row["partition"]) == place
            ),
            key=lambda pair: pair[1],
        )
        for place in places
    }
    narrow = Bounds.of(given_filters).narrow([Range(*place, 0, 8) for place in places], MadeUpCluster(times=times))
    for row in expected:
        assert any(
            (r.topic, r.partition) == (row["topic"], row["partition"]) and r.start <= row["offset"] < r.end
            for r in narrow
        )


def test_what_is_not_understood_is_left_to_spark() -> None:
    naive = datetime.datetime(2026, 1, 1)
    left = [
        datasource.EqualTo(("value",), b"x"),
        datasource.EqualTo(("timestamp",), naive),
        datasource.EqualTo(("offset",), 2**63),
        datasource.EqualTo(("offset",), "1"),
        datasource.In(("topic",), ("a", 1)),
        datasource.StringStartsWith(("topic",), "a"),
        datasource.Not(datasource.StringStartsWith(("topic",), "a")),
        datasource.EqualTo(("headers", "key"), "a"),
    ]
    assert list(PushFilters(lambda bounds: None)(left)) == left


def test_readers_are_taken_with_pushdown_off_as_well() -> None:
    """Spark's own check of whether a reader pushes filters."""
    from spark_jobs.batch import OdradekReader
    from spark_jobs.segments import SegmentsReader

    readers = [
        OdradekReader({"kafka.bootstrap.servers": "h:1", "subscribe": "t"}),
        SegmentsReader({"path": "/nowhere"}),
    ]
    for reader in readers:
        assert getattr(reader.pushFilters, "__func__", None) is datasource.DataSourceReader.pushFilters
        assert list(reader.pushFilters([datasource.IsNotNull(("offset",))])) == []
