"""Options of a read: defaults, precedence and refusals are those of Spark's connector."""

from __future__ import annotations

import pytest

from spark_jobs.options import ByOffset, ByTimestamp, Edge, OptionError, ReadOptions, duration_ms
from tests.unit.spark_jobs.made_up import BASE, read_options


def test_defaults() -> None:
    batch, stream = read_options(), read_options(streaming=True)
    assert (batch.starting, batch.ending) == (Edge.EARLIEST, Edge.LATEST)
    assert stream.starting is Edge.LATEST
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert not batch.read_committed
    assert (batch.poll_timeout_ms, batch.fetch_retries, batch.fetch_retry_interval_ms) == (120_000, 3, 10)
    assert stream.max_trigger_delay_ms == 15 * 60_000
    assert batch.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def test_names_are_case_insensitive() -> None:
    given = {"KAFKA.BOOTSTRAP.SERVERS": "h:1", "Subscribe": "a, b,a", "INCLUDEHEADERS": "TRUE"}
    options = ReadOptions.parse(given, streaming=False)
    assert options.subscription.topics == ("a", "b")
    assert options.columns[-1] == "headers"


def test_precedence_of_starting_options() -> None:
    offsets = '{"t":{"0":5}}'
    times = '{"t":{"0":1000}}'
    both = read_options(startingOffsets=offsets, startingOffsetsByTimestamp=times)
    assert both.starting == ByTimestamp({("t", 0): 1000})
    all_three = read_options(startingOffsets=offsets, startingOffsetsByTimestamp=times, startingTimestamp="7")
    assert all_three.starting == ByTimestamp({}, 7)
    assert read_options(startingOffsets=offsets).starting == ByOffset({("t", 0): 5})


def test_precedence_of_ending_options() -> None:
    given = {"endingOffsets": "latest", "endingOffsetsByTimestamp": '{"t":{"0":1}}'}
    assert read_options(**given).ending == ByTimestamp({("t", 0): 1})
    assert read_options(**given, endingTimestamp="9").ending == ByTimestamp({}, 9)


def test_marks_in_json_are_kept() -> None:
    options = read_options(startingOffsets='{"t":{"0":-2}}', endingOffsets='{"t":{"0":-1}}')
    assert options.starting == ByOffset({("t", 0): -2})
    assert options.ending == ByOffset({("t", 0): -1})


def test_a_pattern_matches_whole_names() -> None:
    subscription = read_options(subscribePattern="t.*x").subscription
    assert subscription.matches("tax")
    assert not subscription.matches("tax2")


@pytest.mark.parametrize(
    ("options", "cure"),
    [
        ({"subscribe": "t", "assign": '{"t":[0]}'}, "exactly one"),
        ({"subscribe": " "}, "empty"),
        ({"subscribe": ","}, "no topic"),
        ({"subscribePattern": "("}, "regular expression"),
        ({"assign": "[1]"}, "topicA"),
        ({"assign": '{"t":["0"]}'}, "partition numbers"),
        ({"startingOffsets": "latest"}, "latest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "latest"),
        ({"endingOffsets": "earliest"}, "earliest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "earliest"),
        ({"startingOffsets": '{"t":{"zero":1}}'}, "zero"),
        ({"startingOffsets": '{"t":[1]}'}, "object of partitions"),
        ({"startingTimestamp": "yesterday"}, "milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "'error' or 'latest'"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"minPartitions": "0"}, "positive"),
        ({"maxRecordsPerPartition": "-1"}, "positive"),
        ({"fetchOffset.numRetries": "x"}, "at least 0"),
        ({"kafka.isolation.level": "serializable"}, "read_committed"),
        ({"columns": "key,headers"}, "choose from"),
        ({"kafka.auto.offset.reset": "latest"}, "startingOffsets"),
        ({"kafka.key.deserializer": "x"}, "DataFrame"),
        ({"kafka.value.deserializer": "x"}, "DataFrame"),
        ({"kafka.enable.auto.commit": "true"}, "checkpoint"),
        ({"kafka.interceptor.classes": "x"}, "transform"),
        ({"kafka.security.protocol": "SASL_SSL"}, "PLAINTEXT listener"),
    ],
)
def test_refusals_of_batch_reads_name_the_cure(options: dict[str, str], cure: str) -> None:
    with pytest.raises(OptionError, match=cure):
        read_options(**options)


@pytest.mark.parametrize(
    ("options", "cure"),
    [
        ({"endingOffsets": "latest"}, "no end"),
        ({"endingTimestamp": "1"}, "no end"),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "below"),
        ({"maxTriggerDelay": "soon"}, "15m"),
    ],
)
def test_refusals_of_streams_name_the_cure(options: dict[str, str], cure: str) -> None:
    with pytest.raises(OptionError, match=cure):
        read_options(streaming=True, **options)


def test_without_bootstrap_or_subscription() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        ReadOptions.parse({"subscribe": "t"}, streaming=False)
    with pytest.raises(OptionError, match="found none"):
        ReadOptions.parse(BASE, streaming=False)


def test_streams_may_start_at_latest() -> None:
    assert read_options(streaming=True, startingOffsets='{"t":{"0":-1}}').starting == ByOffset({("t", 0): -1})


@pytest.mark.parametrize(("text", "ms"), [("15m", 900_000), ("2 h", 7_200_000), ("500ms", 500), ("30", 30)])
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text, "x") == ms
