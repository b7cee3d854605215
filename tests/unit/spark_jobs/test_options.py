"""Options of a read: defaults, precedence and refusals are those of Spark's connector."""

from __future__ import annotations

import pickle
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from network.client.security import CLIENT_KEYS
from spark_jobs import connection, option_table, options, write_options
from spark_jobs.option_table import OptionError
from spark_jobs.options import ByOffset, ByTimestamp, Edge, ReadOptions, duration_ms
from spark_jobs.write_options import WriteOptions
from tests.unit.spark_jobs.made_up import BASE, read_options
from timer.clock import SystemClock


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
    given: dict[str, Any] = {"endingOffsets": "latest", "endingOffsetsByTimestamp": '{"t":{"0":1}}'}
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
    ("given", "cure"),
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
        ({"startingOffsets": "group"}, "name the group in odradek.group.id"),
        ({"endingOffsets": "group", "odradek.group.id": "g"}, "endingOffsets is 'group'"),
        ({"odradek.group.id": " "}, "empty"),
        ({"odradek.group.reset": "now"}, "'earliest', 'latest' or 'none'"),
        ({"odradek.groupid": "g"}, r"is odradek\.group\.id meant"),
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
        ({"kafka.security.protocol": "TLS"}, "option kafka.security.protocol: TLS is not served"),
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/nowhere/ca.pem"},
            f"kafka.ssl.truststore.location: /nowhere/ca.pem cannot be read: .*on {socket.gethostname()}: ",
        ),
        (
            {
                "kafka.security.protocol": "SSL",
                "kafka.ssl.keystore.type": "PEM",
                "kafka.ssl.keystore.key": "sesame",
                "kafka.ssl.keystore.certificate.chain": "sesame",
            },
            "kafka.ssl.keystore.key: 0 private keys",
        ),
        ({"kafka.security.protocol": "SASL_PLAINTEXT"}, "kafka.sasl.jaas.config is not set"),
        (
            {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.jaas.config": 'X required password="sesame";'},
            "kafka.sasl.jaas.config: No serviceName defined",
        ),
    ],
)
def test_refusals_of_batch_reads_name_the_cure(given: dict[str, Any], cure: str) -> None:
    with pytest.raises(OptionError, match=cure) as told:
        read_options(**given)
    assert "sesame" not in str(told.value)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("subscribeX", "is subscribe meant"),
        ("startingOffset", "is startingOffsets meant"),
        ("failOnDataLos", "is failOnDataLoss meant"),
        ("kafka.isolation.lvl", r"is kafka\.isolation\.level meant"),
        ("isolation.level", r"is kafka\.isolation\.level meant"),
        ("zzz", "option zzz is not known$"),
        ("kafka.acks", "not one of reads"),
        ("kafka.session.timeout.ms", "no consumer group"),
        ("kafka.sasl.login.class", "no such choice"),
        ("kafka.ssl.provider", "TLS is OpenSSL's"),
    ],
)
def test_options_that_are_not_taken_are_named(name: str, nearest: str) -> None:
    with pytest.raises(OptionError, match=nearest):
        read_options(**{name: "1"})  # type: ignore[arg-type]


def test_all_that_is_wrong_is_told_at_once() -> None:
    given = {**BASE, "topic": "t", "kafka.partitioner.class": "x", "kafka.retries": "1", "topik": "t"}
    with pytest.raises(OptionError) as told:
        WriteOptions.parse(given)
    for part in ("a column partition", "kafka.delivery.timeout.ms", "is topic meant"):
        assert part in str(told.value)


def test_options_for_the_other_side_are_passed_over() -> None:
    """A query often keeps one set of options for both; Spark adds some of its own."""
    given = {**BASE, "subscribe": "t", "topic": "t", "path": "x", "checkpointLocation": "y", "includeHeaders": "true"}
    assert WriteOptions.parse(given).topic == "t"
    assert ReadOptions.parse(given, streaming=True).include_headers


def test_the_page_of_options_is_current() -> None:
    page = Path(__file__).parents[3] / "docs" / "spark-options.md"
    assert page.read_text() == option_table.markdown(), "python -m spark_jobs.option_table > docs/spark-options.md"


def test_every_option_that_is_taken_is_in_the_table_and_is_read() -> None:
    """Names that the code asks for, against names that the table takes."""
    sources = [Path(module.__file__ or "").read_text() for module in (options, write_options)]
    asked = {connection.BOOTSTRAP}
    asked |= {name.lower() for source in sources for name in re.findall(r'given[^"\n]*"([\w.]+)"', source)}
    asked |= {f"{side}{kind}" for side in ("starting", "ending") for kind in ("timestamp", "offsets")}
    asked |= {"startingoffsetsbytimestamp", "endingoffsetsbytimestamp", "subscribe", "subscribepattern", "assign"}
    asked |= {f"kafka.{name}" for name in CLIENT_KEYS}  # read where connections are secured
    passive = {option_table.Taken.NEEDLESS, option_table.Taken.REFUSED}
    honoured = {o.name.lower() for o in option_table.TABLE if o.taken not in passive} - {"checkpointlocation"}
    assert honoured - asked == set()


@pytest.mark.parametrize(
    ("given", "cure"),
    [
        ({"endingOffsets": "latest"}, "no end"),
        ({"endingTimestamp": "1"}, "no end"),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "below"),
        ({"maxTriggerDelay": "soon"}, "15m"),
    ],
)
def test_refusals_of_streams_name_the_cure(given: dict[str, str], cure: str) -> None:
    with pytest.raises(OptionError, match=cure):
        read_options(streaming=True, **given)


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


def test_a_login_travels_and_is_not_shown() -> None:
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": 'X required username="alice" password="sesame";',
    }
    for made in (read_options(**login), WriteOptions.parse({"kafka.bootstrap.servers": "h:1", **login})):  # type: ignore[arg-type]
        assert "sesame" not in repr(made)
        there = pickle.loads(pickle.dumps(made))
        assert there == made
        assert there.security.wrapper(SystemClock()) is not None
    assert read_options().security.wrapper(SystemClock()) is None


def test_tokens_of_a_provider_are_for_the_executors_to_get() -> None:
    """No provider is asked for one where a query is planned."""
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.jaas.config": 'X required clientId="spark" clientSecret="sesame";',
        "kafka.sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
        "OAuthBearerLoginCallbackHandler",
        "kafka.sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
    }
    there = pickle.loads(pickle.dumps(read_options(**login)))  # type: ignore[arg-type]
    assert there.security.wrapper(SystemClock()) is there.security.wrapper(SystemClock()), "one token for all tasks"
    with pytest.raises(OptionError, match=r"option kafka\.sasl.jaas.config: .*clientSecret"):
        read_options(**{**login, "kafka.sasl.jaas.config": 'X required clientId="spark";'})  # type: ignore[arg-type]
