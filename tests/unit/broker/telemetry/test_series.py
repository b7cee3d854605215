"""What clients push, as lines of the page."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.metrics import MetricsRegistry
from broker.telemetry.otlp import Point
from broker.telemetry.series import MAX_LABELS, MAX_NAME, ClientSeries, Source
from broker.telemetry.subscriptions import ClientSubscription
from broker.telemetry.telemetry import ClientTelemetry
from log.records.compression import Codec, compress
from network.protocol.errors import ApiError, ErrorCode
from timer.clock import ManualClock

LIFE_MS = 1_000


def source(instance: str = "i", client: str = "c") -> Source:
    return Source(instance, client, "soft", "1.0", "10.0.0.1", "User:u")


def samples(series: ClientSeries) -> dict[tuple[str, str], float]:
    """By name and client instance; the page must be one that Prometheus takes."""
    page = "".join(series.lines())
    heads = [line for line in page.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    return {
        (sample.name, sample.labels["client_instance_id"]): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def counter(value: float, *, is_delta: bool) -> Point:
    return Point("org.apache.kafka.n", (), value, is_counter=True, is_delta=is_delta)


def test_differences_are_added_up_and_everything_else_replaced() -> None:
    series = ClientSeries(ManualClock(), 100)
    for value in (2.0, 3.0):
        gauge = Point("org.apache.kafka.g", (), value)
        level = Point("org.apache.kafka.level", (), value, is_delta=True)
        series.take(source(), [gauge, level, counter(value, is_delta=True)], LIFE_MS)
        series.take(source("j"), [counter(value, is_delta=False)], LIFE_MS)
    assert samples(series) == {
        ("org_apache_kafka_g", "i"): 3.0,
        ("org_apache_kafka_level", "i"): 5.0,
        ("org_apache_kafka_n_total", "i"): 5.0,
        ("org_apache_kafka_n_total", "j"): 3.0,
    }


def test_histograms_are_prometheus_s() -> None:
    series = ClientSeries(ManualClock(), 100)
    parts = (
        ("bucket", (("le", "1.0"),), 2.0),
        ("bucket", (("le", "+Inf"),), 3.0),
        ("sum", (), 4.5),
        ("count", (), 3.0),
    )
    points = [Point("org.apache.kafka.h", labels, value, True, True, part) for part, labels, value in parts]
    for _ in range(2):
        series.take(source(), points, LIFE_MS)
    (family,) = text_string_to_metric_families("".join(series.lines()))
    assert (family.name, family.type) == ("org_apache_kafka_h", "histogram")
    assert [(sample.name.rpartition("_")[2], sample.labels.get("le"), sample.value) for sample in family.samples] == [
        ("bucket", "1.0", 4.0),
        ("bucket", "+Inf", 6.0),
        ("sum", None, 9.0),
        ("count", None, 6.0),
    ]


def test_labels_say_who_pushed_and_cannot_be_forged() -> None:
    series = ClientSeries(ManualClock(), 100)
    attributes = (
        ("principal", "User:root"),
        ("node.id", 'a"\\\n'),
        ("node_id", "second"),
        ("1st", "x"),
        ("__name__", "y"),
    )
    series.take(source(client="c\n"), [Point("org.apache.kafka.g", attributes, 1.0)], LIFE_MS)
    (family,) = text_string_to_metric_families("".join(series.lines()))
    (sample,) = family.samples
    assert sample.labels == {
        "client_instance_id": "i",
        "client_id": "c\n",
        "client_software_name": "soft",
        "client_software_version": "1.0",
        "client_source_address": "10.0.0.1",
        "principal": "User:u",
        "node_id": 'a"\\\n',
        "_1st": "x",
        "name__": "y",
    }


def test_no_client_writes_into_the_series_of_the_broker() -> None:
    series = ClientSeries(ManualClock(), 100)
    series.take(source(), [Point("kafka_server_x", (), 1.0), Point("9 lives\n", (), 1.0)], LIFE_MS)
    assert {name for name, _ in samples(series)} == {"client_kafka_server_x", "client_9_lives_"}


def test_a_name_of_two_kinds_is_of_none() -> None:
    series = ClientSeries(ManualClock(), 100)
    series.take(source(), [Point("org.apache.kafka.x.total", (), 1.0)], LIFE_MS)
    series.take(source("j"), [Point("org.apache.kafka.x", (), 2.0, is_counter=True)], LIFE_MS)
    page = "".join(series.lines())
    assert "# TYPE org_apache_kafka_x_total untyped\n" in page
    assert len(samples(series)) == 2


def test_series_are_bounded_in_all_and_for_one_client() -> None:
    series = ClientSeries(ManualClock(), 20)
    many = [Point(f"m{number}", (), 1.0) for number in range(30)]
    series.take(source(), many, LIFE_MS)
    assert (len(series), series.dropped) == (2, 28)
    for number in range(20):
        series.take(source(str(number)), many, LIFE_MS)
    assert len(series) == len(samples(series)) == 20
    long = Point("m" * MAX_NAME, (), 1.0), Point("m", (("a", "x" * MAX_LABELS),), 1.0)
    dropped = series.dropped
    series.take(source(), [many[0], *long], LIFE_MS)  # what is there goes on
    assert series.dropped == dropped + 2


def test_what_is_not_pushed_any_more_goes_and_makes_room() -> None:
    clock = ManualClock()
    series = ClientSeries(clock, 20)
    series.take(source(), [Point("a", (), 1.0), Point("b", (), 1.0)], LIFE_MS)
    clock.advance(LIFE_MS - 1)
    series.take(source(), [Point("a", (), 2.0)], LIFE_MS)
    series.expire()
    assert len(series) == 2
    clock.advance(1)
    series.expire()
    assert samples(series) == {("client_a", "i"): 2.0}
    series.take(source(), [Point("c", (), 3.0)], LIFE_MS)
    assert len(series) == 2
    clock.advance(LIFE_MS)
    series.expire()
    assert (len(series), samples(series)) == (0, {})


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_push_that_expands_without_end_is_too_large(codec: Codec) -> None:
    telemetry = ClientTelemetry(ManualClock(), MetricsRegistry(), max_bytes=10_000, max_series=10)
    subscription = ClientSubscription((), 100, 1)
    with pytest.raises(ApiError) as refused:
        telemetry.take(source(), subscription, codec, compress(codec, bytes(1_000_000)))
    assert refused.value.code is ErrorCode.TELEMETRY_TOO_LARGE
    with pytest.raises(ApiError) as refused:
        telemetry.take(source(), subscription, codec, b"garbage")
    assert refused.value.code is ErrorCode.INVALID_RECORD
