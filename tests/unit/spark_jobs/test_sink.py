"""Options and schemas of a write, and the spreading of rows over partitions."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pytest

pytest.importorskip("pyspark.sql.datasource")

from pyspark.sql.types import StructType

from spark_jobs.encode.encoder import Batch, RowError
from spark_jobs.option_table import OptionError
from spark_jobs.options import Partition
from spark_jobs.sink import OdradekWriter, _Spread
from spark_jobs.write_options import WriteOptions

BASE = {"kafka.bootstrap.servers": "h:1"}


def schema(text: str) -> StructType:
    """A schema of ``name type`` pairs without a running Spark."""
    found = StructType()
    for pair in text.split(", "):
        name, type_ = pair.split(" ")
        found = found.add(name, type_)
    return found


@pytest.mark.parametrize(
    ("columns", "options", "cure"),
    [
        ("value string", {}, "topic is missing"),
        ("key string, topic string", {}, "'value' is missing"),
        ("value integer, topic string", {}, "string or binary"),
        ("value string, key integer, topic string", {}, "'key' has type int"),
        ("value string, topic integer", {}, "'topic' has type int"),
        ("value string, partition string", {"topic": "t"}, "must be integer"),
        ("value string, headers string", {"topic": "t"}, "array<struct<key:string,value:binary>>"),
        ("value string", {"topic": "a/b"}, "no topic name"),
        ("value string", {"topic": "t", "kafka.acks": "0"}, "notice a loss"),
        ("value string", {"topic": "t", "kafka.acks": "1", "kafka.enable.idempotence": "true"}, "drop one"),
        ("value string", {"topic": "t", "kafka.compression.type": "rar"}, "zstd"),
        ("value string", {"topic": "t", "kafka.value.serializer": "x"}, "DataFrame"),
        ("value string", {"topic": "t", "includeTimestamp": "true"}, "column 'timestamp'"),
    ],
)
def test_wrong_schemas_and_options_name_the_cure(columns: str, options: dict[str, str], cure: str) -> None:
    with pytest.raises(OptionError, match=cure):
        OdradekWriter({**BASE, **options}, schema(columns), False)


def test_overwriting_is_refused() -> None:
    with pytest.raises(OptionError, match="append"):
        OdradekWriter({**BASE, "topic": "t"}, schema("value string"), True)


class Recorder:
    """Stands for the producer: three partitions in every topic."""

    def __init__(self) -> None:
        self.sent: dict[Partition, int] = {}

    def partition_count(self, topic: str) -> int:
        return 3

    def send(self, partition: Partition, batches: Iterable[Batch]) -> None:
        self.sent[partition] = self.sent.get(partition, 0) + sum(batch.count for batch in batches)


def spread(table: dict[str, pa.Array], **options: str) -> dict[Partition, int]:
    recorder = Recorder()
    _Spread(WriteOptions.parse({**BASE, **options}), recorder).send(pa.RecordBatch.from_pydict(table), 5)  # type: ignore[arg-type]
    return recorder.sent


VALUES = pa.array([b"x"] * 4, pa.binary())


def test_topics_by_column_and_by_option() -> None:
    topics = pa.array(["a", "b", "a", "b"])
    partitions = pa.array([0, 1, 2, 1], pa.int32())
    table = {"value": VALUES, "topic": topics, "Partition": partitions}
    assert spread(table) == {("a", 0): 1, ("a", 2): 1, ("b", 1): 2}
    assert spread(table, topic="c") == {("c", 0): 1, ("c", 1): 2, ("c", 2): 1}


def test_keys_decide_and_the_column_overrides() -> None:
    keys = pa.array([b"21", b"foobar", b"21", None], pa.binary())
    by_key = [(-973932308 & 0x7FFFFFFF) % 3, (-790332482 & 0x7FFFFFFF) % 3]
    partitions = pa.array([None, None, 2, 0], pa.int32())
    expected: dict[Partition, int] = {}
    for target in (by_key[0], by_key[1], 2, 0):
        expected["t", target] = expected.get(("t", target), 0) + 1
    assert spread({"key": keys, "value": VALUES, "partition": partitions}, topic="t") == expected


def test_rows_without_key_fill_one_batch_after_the_other() -> None:
    assert len(spread({"value": VALUES}, topic="t")) == 1
    assert sorted(spread({"value": VALUES}, topic="t", **{"kafka.batch.size": "30"}).values()) == [1, 1, 2]


def test_rows_that_can_not_be_sent() -> None:
    with pytest.raises(RowError, match="null topic"):
        spread({"value": VALUES, "topic": pa.array(["a", None, "a", "a"])})
    with pytest.raises(RowError, match="a row wants 3"):
        spread({"value": VALUES, "partition": pa.array([0, 1, 2, 3], pa.int32())}, topic="t")
