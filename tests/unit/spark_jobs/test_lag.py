"""Offsets behind latest, from progress reports."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark.sql.streaming.listener")

from spark_jobs.lag import Lag, lag_of


def test_lag_over_partitions() -> None:
    end, latest = '{"t":{"0":5,"1":10}}', '{"t":{"0":5,"1":16,"2":3}}'
    assert lag_of(end, latest) == Lag(0, 6, 3.0)


@pytest.mark.parametrize("other", [None, "", "null", "-1", '{"a":1}', '{"t":{"x":"y"}}'])
def test_reports_of_other_sources_have_no_lag(other: object) -> None:
    assert lag_of('{"t":{"0":5}}', other) is None
    assert lag_of(other, '{"t":{"0":5}}') is None
