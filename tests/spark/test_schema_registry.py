"""Decoding by schema: a registry that nobody here wrote, and values that Confluent's own serializers wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema as RegisteredSchema
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from spark_jobs.schemas import METRICS, from_schema_registry
from spark_jobs.schemas.protobuf import _compile
from spark_jobs.schemas.registry import PROTOBUF, HttpRegistry, Schema, UnknownSchemaError
from tests.spark.apicurio import apicurio
from tests.spark.topics import in_order, make_topic, reader
from tests.support.cluster import Cluster

FIRST = {
    "type": "record",
    "name": "Click",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "gone", "type": "string"},
    ],
}
SECOND = {
    **FIRST,
    "fields": [
        {"name": "id", "type": "long"},
        FIRST["fields"][1],
        {"name": "tags", "type": {"type": "map", "values": "string"}, "default": {}},
        {"name": "page", "type": ["null", "string"], "default": None},
    ],
}
AT = datetime(2026, 1, 2, tzinfo=UTC)

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Other { string note = 1; }
message Outer {
  map<string, int64> sums = 1;
  message Click { int64 id = 1; google.protobuf.Timestamp at = 2; optional string page = 3; Kind kind = 4; }
  enum Kind { UNKNOWN = 0; HARD = 1; }
}
"""

CLICK_JSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Click",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["id"],
}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apicurio(tmp_path_factory.mktemp("registry")) as url:
        yield url


def send(cluster: Cluster, topic: str, values: Sequence[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value, f"k{number}".encode(), 0, headers=[("mine", b"kept")])
    assert producer.flush(60) == 0


def serialize(serializer: Callable[[Any, SerializationContext], bytes], topic: str, value: Any) -> bytes:
    return serializer(value, SerializationContext(topic, MessageField.VALUE))


def avro(client: SchemaRegistryClient, topic: str) -> list[bytes]:
    """A record of each of two versions of the schema."""
    serializers = [
        AvroSerializer(client, json.dumps(schema), conf={"normalize.schemas": True}) for schema in (FIRST, SECOND)
    ]
    return [
        serialize(serializers[0], topic, {"id": 1, "at": AT, "gone": "x"}),
        serialize(serializers[1], topic, {"id": 1 << 40, "at": AT, "tags": {"a": "b"}, "page": "/"}),
    ]


BAD = [b"plain", b"\0\0\0\xff\xff{}", b""]


def test_avro_of_two_versions_and_dead_letters(spark: Any, cluster: Cluster, registry: str) -> None:
    from pyspark.sql import Observation

    topic, dead = make_topic(cluster, 1), make_topic(cluster, 1)
    good = avro(SchemaRegistryClient({"url": registry}), topic)
    send(cluster, topic, [good[0], *BAD, None, good[1], good[1] + b"more"])
    frame = reader(spark, cluster, topic, includeHeaders="true")
    counted = Observation(METRICS)
    letters = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": dead}
    decoded = from_schema_registry(
        frame, registry, subject=f"{topic}-value", mode="dead-letter", dead_letter=letters, metrics=counted
    )
    assert decoded.columns == frame.columns
    assert decoded.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,at:timestamp,tags:map<string,string>,page:string>"
    )
    rows = in_order(decoded.selectExpr("offset", "partition", "value.id", "value.tags", "value.page", "key").collect())
    assert [(row.offset, row.id, row.tags, row.page) for row in rows] == [
        (0, 1, {}, None),
        (4, None, None, None),
        (5, 1 << 40, {"a": "b"}, "/"),
    ]
    assert counted.get == {"records": 7, "failed": 4}
    found = in_order(reader(spark, cluster, dead, includeHeaders="true").collect())
    told = [{each.key: bytes(each.value).decode() for each in row.headers} for row in found]
    assert [bytes(row.value) for row in found] == [*BAD, good[1] + b"more"]
    assert [bytes(row.key) for row in found] == [b"k1", b"k2", b"k3", b"k6"]
    assert [(each["mine"], each["topic"], each["partition"], each["offset"]) for each in told] == [
        ("kept", topic, "0", str(offset)) for offset in (1, 2, 3, 6)
    ]
    assert "begins with byte 112" in told[0]["error"]
    assert "65535" in told[1]["error"]
    assert "4 bytes are left over" in told[3]["error"]
    # The older form, by version; and a record fails the query by its place.
    old = from_schema_registry(frame, registry, subject=f"{topic}-value", version=1, mode="null", into="old")
    with pytest.raises(Exception, match=rf"{topic}-0 offset 1: the value begins with byte 112"):
        from_schema_registry(frame, registry, subject=f"{topic}-value").collect()
    first = in_order(old.where("offset = 0").select("offset", "partition", "old.*").collect())[0]
    assert (first.id, first.gone) == (1, "x")


def test_a_stream_counts_in_its_progress(spark: Any, cluster: Cluster, registry: str, tmp_path: Path) -> None:
    topic, dead = make_topic(cluster, 1), make_topic(cluster, 1)
    serializer = JSONSerializer(json.dumps(CLICK_JSON), SchemaRegistryClient({"url": registry}))
    good = serialize(serializer, topic, {"id": 7, "tags": ["a", "b"]})
    send(cluster, topic, [good, good[:5] + b'{"tags": []}', good])
    server = {"kafka.bootstrap.servers": cluster.bootstrap}
    stream = spark.readStream.format("odradek").options(**server, subscribe=topic, startingOffsets="earliest").load()
    decoded = from_schema_registry(
        stream, registry, subject=f"{topic}-value", mode="dead-letter", dead_letter={**server, "topic": dead}
    )
    query = (
        decoded.selectExpr("offset", "value.*")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    rows = sorted(spark.read.parquet(str(tmp_path / "out")).collect())
    assert [(row.offset, row.id, row.tags) for row in rows] == [(0, 7, ["a", "b"]), (2, 7, ["a", "b"])]
    counts = [progress.observedMetrics[METRICS] for progress in query.recentProgress if progress.observedMetrics]
    assert sum(each.failed for each in counts) == 1
    assert sum(each.records for each in counts) == 3
    (letter,) = reader(spark, cluster, dead).collect()
    assert bytes(letter.value) == good[:5] + b'{"tags": []}'


def test_protobuf_finds_its_message(spark: Any, cluster: Cluster, registry: str) -> None:
    from google.protobuf import message_factory

    topic = make_topic(cluster, 1)
    file = _compile(Schema(0, PROTOBUF, PROTO))
    click, other = (
        message_factory.GetMessageClass(file.pool.FindMessageTypeByName(f"shop.{name}"))
        for name in ("Outer.Click", "Other")
    )
    client = SchemaRegistryClient({"url": registry})
    message = click(id=5, page="", kind=1)
    message.at.FromDatetime(AT)
    # Confluent's serializer for Python registers a compiled file, and counts what protoc makes of the map.
    conf = {"use.deprecated.format": False}
    values = [
        serialize(ProtobufSerializer(kind, client, conf), topic, value)
        for kind, value in ((click, message), (other, other(note="x")))
    ]
    # As the one for Java does: the text, and the messages that it declares.
    number = client.register_schema(f"{topic}-text", RegisteredSchema(PROTO, PROTOBUF))
    values.append(b"\0" + number.to_bytes(4, "big") + b"\4\2\0" + message.SerializeToString())
    send(cluster, topic, values)
    frame = reader(spark, cluster, topic)
    frame = from_schema_registry(frame, registry, schema_id=number, message="shop.Outer.Click", mode="null")
    rows = in_order(frame.select("offset", "partition", "value.*", "value").collect())
    for row in (rows[0], rows[2]):
        assert (row.id, row.at.timestamp(), row.page, row.kind) == (5, AT.timestamp(), "", "HARD")
    assert rows[1].value is None


def test_what_the_registry_does_not_know(registry: str) -> None:
    client = HttpRegistry(registry)
    with pytest.raises(UnknownSchemaError):
        client.by_id(1 << 20)
    with pytest.raises(UnknownSchemaError):
        client.by_subject("nobody", "latest")
