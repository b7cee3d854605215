"""Offsets behind latest, from progress reports."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark.sql.streaming.listener")

from spark_jobs import lag, lag_metrics
from spark_jobs.lag import Lag, LagListener, described, lag_of


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
    metrics["offsetsBehindLatest"] = '{"t": {"0": 4}, "u": {"0": 0}}'
    assert found["sources"][0]["metrics"] == metrics
    ours["latestOffset"] = {"t": {"0": 9}, "odradek/group": {"commits": 7, "failures": 2}}
    told = described(SimpleNamespace(json=json.dumps({"sources": [ours]})))["sources"][0]["metrics"]
    assert (told["groupCommits"], told["groupCommitFailures"]) == ("7", "2")
    assert told["offsetsBehindLatest"] == '{"t": {"0": 4}}'


def progress(query: str, *sources: tuple[object, object], name: str | None = None) -> SimpleNamespace:
    made = [SimpleNamespace(endOffset=end, latestOffset=latest) for end, latest in sources]
    return SimpleNamespace(progress=SimpleNamespace(id=query, name=name, sources=made))


def test_a_listener_keeps_queries_and_their_sources_apart() -> None:
    listener = LagListener(lambda query, lag: None)
    first = ('{"t":{"0":5}}', '{"t":{"0":9,"1":1},"odradek/group":{"commits":3,"failures":1}}')
    listener.onQueryProgress(progress("a", first, ("12", "13"), ('{"u":{"0":1}}', '{"u":{"0":1}}'), name="same"))
    listener.onQueryProgress(progress("b", ('{"t":{"0":2}}', '{"t":{"0":9}}'), name="same"))
    assert listener.by_query == {"a": Lag(0, 4, 5 / 3), "b": Lag(7, 7, 7.0)}
    assert listener.by_source["a", 0].by_partition == {("t", 0): 4, ("t", 1): 1}
    assert sorted(listener.by_source) == [("a", 0), ("a", 2), ("b", 0)]
    listener.onQueryTerminated(SimpleNamespace(id="a"))
    assert sorted(listener.by_source) == [("b", 0)]
    assert sorted(listener.by_query) == ["a", "b"]


def test_no_more_queries_are_kept_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "MAX_QUERIES", 2)
    listener = LagListener(lambda query, lag: None)
    for query in ("a", "b", "a", "c"):
        listener.onQueryProgress(progress(query, ('{"t":{"0":2}}', '{"t":{"0":9}}')))
    assert list(listener.by_query) == ["a", "c"]
    assert sorted(listener.by_source) == [("a", 0), ("c", 0)]


def test_the_text_for_prometheus_is_read_by_its_own_parser_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    listener = LagListener(lambda query, lag: None)
    report = '{"t":{"0":9,"1":1},"odradek/group":{"commits":3,"failures":1}}'
    listener.onQueryProgress(progress("a", ('{"t":{"0":5}}', report), name='quoted "\\\n'))
    text = lag_metrics.prometheus_text(listener)
    found = {
        (sample.name, sample.labels.get("partition")): (sample.value, sample.labels)
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["odradek_spark_records_behind", "0"][0] == 4
    assert found["odradek_spark_records_behind", "1"][0] == 1
    assert found["odradek_spark_position", "0"][0] == 5
    assert found["odradek_spark_group_commits_total", None][0] == 3
    assert found["odradek_spark_group_commit_failures_total", None][0] == 1
    labels = found["odradek_spark_records_behind", "0"][1]
    assert labels == {"query_id": "a", "query": 'quoted "\\\n', "source": "0", "topic": "t", "partition": "0"}
    monkeypatch.setattr(lag_metrics, "MAX_PARTITIONS", 1)
    bounded = lag_metrics.prometheus_text(listener)
    assert bounded.count("odradek_spark_records_behind{") == 1
    assert "odradek_spark_partitions_left_out 1\n" in bounded
