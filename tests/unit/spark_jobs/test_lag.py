"""Offsets behind latest, from progress reports."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark.sql.streaming.listener")

from spark_jobs.lag import Lag, described, lag_of


def test_lag_over_partitions() -> None:
    end, latest = '{"t":{"0":5,"1":10}}', '{"t":{"0":5,"1":16,"2":3}}'
    assert lag_of(end, latest) == Lag(0, 6, 3.0)


@pytest.mark.parametrize("other", [None, "", "null", "-1", '{"a":1}', '{"t":{"x":"y"}}'])
def test_reports_of_other_sources_have_no_lag(other: object) -> None:
    assert lag_of('{"t":{"0":5}}', other) is None
    assert lag_of(other, '{"t":{"0":5}}') is None


def test_a_report_is_told_as_by_the_connector() -> None:
    ours = {
        "description": "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@1",
        "endOffset": {"t": {"0": 5}, "u": {"0": 1}},
        "latestOffset": {"t": {"0": 9}, "u": {"0": 1}},
    }
    other = {"description": "RateStreamV2", "endOffset": 5, "latestOffset": 6}
    found = described(SimpleNamespace(json=json.dumps({"batchId": 3, "sources": [ours, other]})))
    assert found["batchId"] == 3
    assert found["sources"][1] == other
    assert found["sources"][0]["description"] == "odradek[t, u]"
    metrics = {"avgOffsetsBehindLatest": "2.0", "maxOffsetsBehindLatest": "4", "minOffsetsBehindLatest": "0"}
    assert found["sources"][0]["metrics"] == metrics
