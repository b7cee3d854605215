"""The same topic and the same query by Spark's own connector and by ours: the same answers. Differences are bugs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from broker.dev.polling import wait_until
from spark_jobs.lag import described
from spark_jobs.topic_pattern import PatternError, compile_java
from tests.spark import connector
from tests.spark.topics import add_partitions, fill, in_order, make_topic
from tests.support.cluster import CLOCK, Cluster


@pytest.fixture(autouse=True)
def _with_connector() -> None:
    connector.require()


def both(spark: Any, cluster: Cluster, topic: str, **options: str) -> tuple[Any, Any]:
    """Frames of Spark's connector and of ours."""
    given = {"kafka.bootstrap.servers": cluster.bootstrap, **options}
    if not {"assign", "subscribePattern"} & set(options):
        given["subscribe"] = topic
    frames = [spark.read.format(name).options(**given).load() for name in ("kafka", "odradek")]
    return frames[0], frames[1]


def offsets(topic: str, *numbers: int) -> str:
    return json.dumps({topic: {str(p): n for p, n in enumerate(numbers)}})


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> str:
    topic = make_topic(cluster)
    fill(cluster, topic, 600, **{"compression.type": "lz4"})  # type: ignore[arg-type]
    return topic


def test_reads(spark: Any, cluster: Cluster, filled: str) -> None:
    topic = filled
    by_time = json.dumps({topic: {"0": 1_700_000_000_100, "1": 1_700_000_000_200, "2": 1_700_000_000_300}})
    cases: list[dict[str, str]] = [
        {},
        {"includeHeaders": "true"},
        {"startingOffsets": offsets(topic, 5, -2, 190), "endingOffsets": offsets(topic, 100, -1, -1)},
        {"startingTimestamp": "1700000000300", "endingTimestamp": "1700000000500"},
        {"startingOffsetsByTimestamp": by_time, "startingOffsets": offsets(topic, 199, 199, 199)},
        {"startingTimestamp": "1800000000000", "startingOffsetsByTimestampStrategy": "latest"},
        {"assign": json.dumps({topic: [0, 2]})},
        {"subscribePattern": topic[:-1] + "."},
        {"minPartitions": "7"},
        {"maxRecordsPerPartition": "50"},
        {"kafka.isolation.level": "read_committed"},
    ]
    for options in cases:
        theirs, ours = both(spark, cluster, topic, **options)
        assert ours.schema == theirs.schema, options
        rows = in_order(theirs.collect())
        assert in_order(ours.collect()) == rows, options
        # Spark's connector divides no batch read whose ends its tasks look up, so maxRecordsPerPartition does nothing.
        if "minPartitions" in options:
            assert ours.rdd.getNumPartitions() >= int(options["minPartitions"])
        elif rows and "maxRecordsPerPartition" not in options:
            assert ours.rdd.getNumPartitions() == theirs.rdd.getNumPartitions(), options
        assert rows or "1800000000000" in options.get("startingTimestamp", "")


def progress(query: Any) -> list[tuple[Any, Any, int]]:
    """Start, end and rows of each batch that read something."""
    found = []
    for each in query.recentProgress:
        (source,) = each.sources
        if source.numInputRows:
            start = None if source.startOffset is None else json.loads(source.startOffset)
            found.append((start, json.loads(source.endOffset), source.numInputRows))
    return found


def test_streams(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    """Batch by batch the same offsets and rows, over restarts and a topic that grows."""
    topic = make_topic(cluster)
    fill(cluster, topic, 400)

    def run(name: str, **options: str) -> tuple[list[tuple[Any, Any, int]], list[Any]]:
        given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, **options}
        frame = spark.readStream.format(name).options(**given, includeHeaders="true").load()
        query = (
            frame.writeStream.format("parquet")
            .option("path", str(tmp_path / name / "out"))
            .option("checkpointLocation", str(tmp_path / name / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert query.exception() is None
        return progress(query), in_order(spark.read.parquet(str(tmp_path / name / "out")).collect())

    start = {"startingOffsets": offsets(topic, 7, -2, 100)}
    limited = {**start, "maxOffsetsPerTrigger": "100"}
    for count, options in ((0, limited), (90, start), (0, start), (300, limited)):
        if count == 300:
            add_partitions(cluster, topic, 4)
        fill(cluster, topic, count, 4 if count == 300 else 3)
        (theirs, their_rows), (ours, our_rows) = run("kafka", **options), run("odradek", **options)
        assert ours == theirs
        assert our_rows == their_rows
    assert len(our_rows) == 400 - 7 - 100 + 90 + 300


@pytest.mark.parametrize("first", ["kafka", "odradek"])
def test_a_checkpoint_is_taken_along_in_mid_stream(spark: Any, cluster: Cluster, tmp_path: Path, first: str) -> None:
    """From one to the other and back, each stopped with records left to read; a partition comes on the way."""
    topic = make_topic(cluster, 2)
    fill(cluster, topic, 600, 2)
    other = {"kafka": "odradek", "odradek": "kafka"}[first]
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    ends = []
    for turn, name in enumerate((first, other, first)):
        frame = spark.readStream.format(name).options(**options, maxOffsetsPerTrigger="60").load()
        sink = frame.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = sink.trigger(**({"processingTime": "0 seconds"} if turn < 2 else {"availableNow": True})).start()
        try:
            if turn == 2:
                assert query.awaitTermination(120)
            else:
                assert wait_until(lambda query=query: len(progress(query)) >= 2, CLOCK, 60_000)  # type: ignore[misc]
            ends.append(sum(progress(query)[-1][1][topic].values()))
        finally:
            query.stop()
        assert query.exception() is None
        if turn == 0:
            add_partitions(cluster, topic, 3)
            fill(cluster, topic, 90, 3, first=600)
    assert ends[0] < 600
    assert ends[0] < ends[1] < ends[2] == 690
    rows = [(r.partition, r.offset) for r in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert sorted(rows) == [(p, offset) for p, count in enumerate((330, 330, 30)) for offset in range(count)]


def test_the_first_batch_waits_for_no_minimum(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    """Ten records where a batch should have a hundred, and a delay that no test would wait for."""
    topic = make_topic(cluster, 2)
    fill(cluster, topic, 10, 2)
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    options |= {"minOffsetsPerTrigger": "100", "maxTriggerDelay": "1h"}
    reports = []
    for name in ("kafka", "odradek"):
        frame = spark.readStream.format(name).options(**options).load()
        sink = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / name))
        query = sink.trigger(processingTime="100 milliseconds").start()
        try:
            assert wait_until(lambda query=query: progress(query), CLOCK, 60_000), query.exception()  # type: ignore[misc, arg-type]
            assert progress(query) == [(None, {topic: {"0": 5, "1": 5}}, 10)]
            (source,) = described(query.lastProgress)["sources"]
            reports.append(source["metrics"])
            assert topic in source["description"]
        finally:
            query.stop()
    lag = reports[1].pop("offsetsBehindLatest")
    assert lag == json.dumps({topic: {"0": 0, "1": 0}})  # ours alone: the lag of each partition
    assert reports[0] == reports[1]


def test_a_compacted_topic(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    """Offsets with gaps, after the broker's cleaner: the same rows, whole, split and as a stream."""
    config = {"cleanup.policy": "compact", "segment.bytes": "16384", "min.cleanable.dirty.ratio": "0.01"}
    topic = make_topic(cluster, 1, replicas=3, **config)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.num.messages": 40})
    for n in range(3000):
        producer.produce(topic, b"value %d" % n * 5, b"k%d" % (n % 150), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    frames = both(spark, cluster, topic)
    assert wait_until(lambda: frames[1].count() < 1500, CLOCK, 90_000, 500), "the cleaner has not compacted the topic"
    for options in ({}, {"minPartitions": "9"}, {"startingOffsets": offsets(topic, 1111)}):
        theirs, ours = both(spark, cluster, topic, **options)

        def same(theirs: Any = theirs, ours: Any = ours) -> bool:
            return bool(in_order(ours.collect()) == in_order(theirs.collect()))

        # The cleaner may go on between the two reads.
        assert wait_until(same, CLOCK, 60_000, 500), options
    rows = in_order(frames[1].collect())
    latest = {b"k%d" % (n % 150): b"value %d" % n * 5 for n in range(3000)}
    assert {bytes(r.key): bytes(r.value) for r in rows} == latest
    stream = spark.readStream.format("odradek").option("kafka.bootstrap.servers", cluster.bootstrap)
    stream = stream.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="700").load()
    sink = stream.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    streamed = in_order(spark.read.parquet(str(tmp_path / "out")).collect())
    last = {bytes(r.key): r.offset for r in streamed}
    assert last == {b"k%d" % (n % 150): n for n in range(2850, 3000)}
    assert streamed == rows or len(streamed) > len(in_order(frames[1].collect()))


def test_both_refuse_the_same(spark: Any, cluster: Cluster, filled: str) -> None:
    cases: list[dict[str, str]] = [
        {"startingOffsets": "latest"},
        {"endingOffsets": "earliest"},
        {"startingOffsets": offsets(filled, 1)},
        {"startingTimestamp": "1800000000000"},
        {"kafka.auto.offset.reset": "earliest"},
        {"kafka.key.deserializer": "x"},
        {"kafka.enable.auto.commit": "true"},
        {"kafka.interceptor.classes": "x"},
        {"assign": "{}", "subscribePattern": "x"},
        {"startingOffsets": offsets(filled, 201, 0, 0)},
        {"startingOffsets": offsets(filled, 201, 0, 0), "failOnDataLoss": "false"},
        {"startingOffsets": offsets(filled, 9, 0, 0), "endingOffsets": offsets(filled, 8, 9, 9)},
        {"endingOffsets": offsets(filled, 201, 9, 9), "kafkaConsumer.pollTimeoutMs": "2000"},
    ]
    for options in cases:
        for name in ("kafka", "odradek"):
            given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": filled, **options}
            with pytest.raises(Exception):  # noqa: B017, PT012 - each has its own type
                spark.read.format(name).options(**given).load().collect()
                pytest.fail(f"{name} took {options}", pytrace=False)


def test_an_end_that_is_not_there_yet(spark: Any, cluster: Cluster, filled: str) -> None:
    """Both give what is there; the connector after its poll timeout, we at once."""
    ending = {"endingOffsets": offsets(filled, 300, 9, 9), "failOnDataLoss": "false"}
    theirs = both(spark, cluster, filled, **ending, **{"kafkaConsumer.pollTimeoutMs": "2000"})[0]
    ours = both(spark, cluster, filled, **ending, **{"kafkaConsumer.pollTimeoutMs": "3600000"})[1]
    assert in_order(ours.collect()) == in_order(theirs.collect())
    assert ours.count() == 218


# One a word.
PATTERNS = r"""
\p{Alnum}+ [\p{Lower}&&[^a-f]]+ [a-z&&[def]]* [a-c[x-z]]+ [^a-c&&[^x-z]]+ (?i)ABC (?i)[^a]bc \Qa.b\E \Qa.b [^\W_]+
(?<n>a)b\k<n> a{1,2}+b (?>a+)b [\w.&&[^\d_]]+ \p{IsAlphabetic}+ \P{Digit}+ \pL+ \p{Lu}\p{L}* [\p{L}\p{Nd}._\-]+
\x61\u0062\0143 \x{61}bc []a]+ [a\]]+ [a-]+ [\-a.]+ a|b|abc ^abc$ \Aabc\z abc\Z \babc\b a.c a\.b [.]*a[.]b (?s)a.c
(a)(b)?c? \H+ \V+ [\h]*abc [A-Z_0-9]+ \p{javaUpperCase}+ \p{ASCII}* (?i)\p{Lower}+ (?i)[A-C&&[b-z]]+ (?:ab)+c?
a(?=b)bc (?<!x)abc (?<=a)b \p{Punct} [\p{Punct}a-z]+ [a&&b] [^^]+ [a^]+ (?-i)abc
"""
NAMES = "abc ABC a.b aba aab xyz axz def a-b_c 123 a1 _ . aB9 bc b bbc A"


def test_patterns_mean_what_they_mean_in_java(spark: Any) -> None:
    java = spark._jvm.java.util.regex.Pattern
    for pattern in [*PATTERNS.split(), "(?x) a b c"]:
        compiled = java.compile(pattern)
        theirs = [name for name in NAMES.split() if compiled.matcher(name).matches()]
        assert [name for name in NAMES.split() if compile_java(pattern).fullmatch(name)] == theirs, pattern
    for pattern in (r"\X", r"a\Gb", r"\R", r"a(?i)b", r"(?u)a", r"\p{IsGreek}"):
        java.compile(pattern)
        with pytest.raises(PatternError, match="can't be translated"):
            compile_java(pattern)


def test_writes(spark: Any, cluster: Cluster) -> None:
    frame = spark.range(500).selectExpr(
        "if(id % 3 = 0, null, cast(id % 50 as string)) as key",
        "cast(id as string) as value",
        "array(named_struct('key', 'h', 'value', cast('x' as binary))) as headers",
        "if(id % 3 = 0, cast(id % 4 as int), null) as partition",
    )
    rows = []
    for name in ("kafka", "odradek"):
        topic = make_topic(cluster, 4)
        writer = frame.write.format(name).option("kafka.bootstrap.servers", cluster.bootstrap)
        writer.option("topic", topic).save()
        ours = both(spark, cluster, topic, includeHeaders="true")[1]
        theirs = both(spark, cluster, topic, includeHeaders="true")[0]
        assert in_order(ours.collect()) == in_order(theirs.collect())
        rows.append(sorted((r.partition, bytes(r.value), r.key, str(r.headers)) for r in ours.collect()))
    assert rows[0] == rows[1]
