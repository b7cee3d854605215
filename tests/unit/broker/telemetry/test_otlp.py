"""Our reader of OTLP against OpenTelemetry's own classes, and what becomes of bytes that are no such message."""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker.telemetry.otlp import MAX_ATTRIBUTES, MAX_BUCKETS, MAX_POINTS, OtlpError, Point, decode

metrics_pb2: Any = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")

DELTA, CUMULATIVE = 1, 2


def attributes(entries: Any, **values: Any) -> None:
    for key, value in values.items():
        entry = entries.add(key=key)
        kind = {str: "string_value", bool: "bool_value", int: "int_value", float: "double_value"}[type(value)]
        setattr(entry.value, kind, value)


def message() -> Any:
    data = metrics_pb2.MetricsData()
    resource = data.resource_metrics.add(schema_url="s")
    attributes(resource.resource.attributes, group_id="g")
    scope = resource.scope_metrics.add()
    scope.scope.name = "a scope is not looked at"
    gauge = scope.metrics.add(name="org.gauge", description="d", unit="ms")
    point = gauge.gauge.data_points.add(time_unix_nano=1, start_time_unix_nano=2, as_double=1.5)
    attributes(point.attributes, topic="t", partition=-3, leader=True, share=0.25)
    gauge.gauge.data_points.add(as_int=-7)
    counter = scope.metrics.add(name="org.count")
    counter.sum.is_monotonic = True
    counter.sum.aggregation_temporality = DELTA
    counter.sum.data_points.add(as_int=2**40)
    level = resource.scope_metrics.add().metrics.add(name="org.level")
    level.sum.aggregation_temporality = CUMULATIVE
    level.sum.data_points.add(as_double=2.0)
    return data


def test_gauges_and_sums_are_read() -> None:
    shared = ("group_id", "g")
    own = (("topic", "t"), ("partition", "-3"), ("leader", "true"), ("share", "0.25"))
    found = decode(message().SerializeToString())
    assert found.points == [
        Point("org.gauge", (*own, shared), 1.5),
        Point("org.gauge", (shared,), -7.0),
        Point("org.count", (shared,), float(2**40), is_counter=True, is_delta=True),
        Point("org.level", (shared,), 2.0),
    ]
    assert found.skipped == 0


def test_histograms_are_read_as_buckets_below_bounds() -> None:
    data = metrics_pb2.MetricsData()
    histogram = data.resource_metrics.add().scope_metrics.add().metrics.add(name="h").histogram
    histogram.aggregation_temporality = 1
    point = histogram.data_points.add(count=6, sum=9.5, bucket_counts=[1, 2, 3], explicit_bounds=[0.5, 10.0])
    attributes(point.attributes, topic="t")
    topic = ("topic", "t")
    wanted = [
        ("bucket", (("le", "0.5"), topic), 1.0),
        ("bucket", (("le", "10.0"), topic), 3.0),
        ("bucket", (("le", "+Inf"), topic), 6.0),
        ("sum", (topic,), 9.5),
        ("count", (topic,), 6.0),
    ]
    found = decode(data.SerializeToString())
    assert found.points == [
        Point("h", labels, value, is_counter=True, is_delta=True, part=part) for part, labels, value in wanted
    ]
    assert found.skipped == 0


def test_a_histogram_with_too_many_buckets_is_counted_as_skipped() -> None:
    data = metrics_pb2.MetricsData()
    histogram = data.resource_metrics.add().scope_metrics.add().metrics.add(name="h").histogram
    bounds = [float(number) for number in range(MAX_BUCKETS)]
    histogram.data_points.add(count=3, sum=4.0, bucket_counts=[0] * MAX_BUCKETS + [3], explicit_bounds=bounds)
    found = decode(data.SerializeToString())
    assert (found.points, found.skipped) == ([], 1)


def test_other_kinds_and_points_without_a_value_are_counted() -> None:
    data = metrics_pb2.MetricsData()
    scope = data.resource_metrics.add().scope_metrics.add()
    scope.metrics.add(name="h").histogram.data_points.add(count=1, bucket_counts=[1], explicit_bounds=[1.0])
    scope.metrics.add(name="s").summary.data_points.add(count=1)
    scope.metrics.add(name="n").gauge.data_points.add()
    scope.metrics.add(name="f").gauge.data_points.add(as_int=1, flags=1)
    found = decode(data.SerializeToString())
    assert (found.points, found.skipped) == ([], 4)


def test_a_message_gives_no_more_points_and_attributes_than_the_bound() -> None:
    data = metrics_pb2.MetricsData()
    gauge = data.resource_metrics.add().scope_metrics.add().metrics.add(name="m").gauge
    for _ in range(MAX_POINTS + 5):
        gauge.data_points.add(as_int=1)
    found = decode(data.SerializeToString())
    assert (len(found.points), found.skipped) == (MAX_POINTS, 5)
    data = metrics_pb2.MetricsData()
    point = data.resource_metrics.add().scope_metrics.add().metrics.add(name="m").gauge.data_points.add(as_int=1)
    attributes(point.attributes, **{f"a{n}": "x" for n in range(MAX_ATTRIBUTES + 1)})
    assert decode(data.SerializeToString()).skipped == 1


def test_every_prefix_and_every_changed_byte_is_read_or_refused() -> None:
    whole = message().SerializeToString()
    assert decode(b"").points == []
    refused = 0
    changes = random.Random(1)
    damaged = [whole[:end] for end in range(1, len(whole))]
    for _ in range(2_000):
        copy = bytearray(whole)
        copy[changes.randrange(len(copy))] = changes.randrange(256)
        damaged.append(bytes(copy))
    for data in damaged:
        try:
            decode(data)
        except OtlpError:
            refused += 1
    assert refused > len(whole)


@pytest.mark.parametrize(
    "data", [b"\xff\xff", b"\x0a", b"\x0a\x05abc", b"\x00\x00", b"\x0b", b"\x0d\x00", b"\x80" * 11, b"\x0a\xff" * 5]
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(OtlpError):
        decode(data)
