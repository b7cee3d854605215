"""Filters as narrower ranges: Spark's own filter classes, a made-up cluster."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

datasource = pytest.importorskip("pyspark.sql.datasource")

from spark_jobs.planning import Range  # noqa: E402
from spark_jobs.pushdown import Bounds, PushFilters  # noqa: E402
from tests.unit.spark_jobs.made_up import MadeUpCluster  # noqa: E402

RANGES = [Range("t", 0, 0, 100), Range("t", 1, 50, 60), Range("u", 1, 0, 10)]
UTC = datetime.UTC


def narrowed(*filters: Any, cluster: MadeUpCluster | None = None) -> list[Range]:
    return Bounds.of(filters).narrow(RANGES, cluster or MadeUpCluster())


def test_partitions() -> None:
    assert narrowed(datasource.EqualTo(("partition",), 0)) == [RANGES[0]]
    assert narrowed(datasource.In(("partition",), (1, 7))) == RANGES[1:]
    assert narrowed(datasource.EqualTo(("partition",), 0), datasource.In(("partition",), (1,))) == []


def test_offsets() -> None:
    assert narrowed(datasource.GreaterThanOrEqual(("offset",), 55)) == [Range("t", 0, 55, 100), Range("t", 1, 55, 60)]
    assert narrowed(datasource.GreaterThan(("offset",), 97)) == [Range("t", 0, 98, 100)]
    assert narrowed(datasource.LessThan(("offset",), 5)) == [Range("t", 0, 0, 5), Range("u", 1, 0, 5)]
    assert narrowed(datasource.EqualTo(("offset",), 52)) == [Range("t", 0, 52, 53), Range("t", 1, 52, 53)]
    assert narrowed(datasource.In(("offset",), (3, 9)))[0] == Range("t", 0, 3, 10)


def test_a_lower_time_is_looked_up_and_an_upper_one_does_not_cut() -> None:
    cluster = MadeUpCluster({}, {}, {("t", 0): [(1500, 40)], ("t", 1): [(900, 0)]})
    when = datetime.datetime.fromtimestamp(1.2, UTC)
    assert narrowed(datasource.GreaterThan(("timestamp",), when), cluster=cluster) == [Range("t", 0, 40, 100)]
    assert narrowed(datasource.LessThan(("timestamp",), when), cluster=cluster) == RANGES


@pytest.mark.parametrize(
    "never",
    [
        datasource.In(("offset",), (None,)),
        datasource.EqualTo(("offset",), None),
        datasource.EqualNullSafe(("offset",), None),
        datasource.LessThan(("timestamp",), None),
        datasource.IsNull(("timestamp",)),
        datasource.Not(datasource.In(("offset",), (1, None))),
        datasource.Not(datasource.IsNotNull(("partition",))),
        datasource.EqualTo(("topic",), None),
    ],
)
def test_null_where_no_column_is_null(never: Any) -> None:
    assert narrowed(never) == []


def test_null_beside_numbers() -> None:
    assert narrowed(datasource.In(("offset",), (1, None))) == [Range("t", 0, 1, 2), Range("u", 1, 1, 2)]
    assert narrowed(datasource.In(("partition",), (1, None))) == RANGES[1:]
    assert narrowed(datasource.Not(datasource.EqualNullSafe(("offset",), None))) == RANGES


def test_topics_and_ranges_of_partitions() -> None:
    assert narrowed(datasource.EqualTo(("topic",), "u")) == RANGES[2:]
    assert narrowed(datasource.GreaterThan(("partition",), 0)) == RANGES[1:]
    assert narrowed(datasource.Not(datasource.EqualTo(("topic",), "u"))) == RANGES[:2]
    assert narrowed(datasource.Not(datasource.In(("partition",), (1,)))) == RANGES[:1]


def test_filters_of_other_columns_and_shapes_are_left_to_spark() -> None:
    filters = [datasource.EqualTo(("key",), b"x"), datasource.IsNotNull(("offset",)), datasource.EqualTo(("a", "b"), 1)]
    assert narrowed(*filters) == RANGES
    taken: list[Bounds] = []
    assert list(PushFilters(taken.append)(filters)) == [filters[0], filters[2]]
    assert taken[0].filters == (filters[1],)
