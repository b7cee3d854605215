"""Requests of black-box tests: one connection, any version, no retries, nothing hidden."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from log.records.compression import Codec
from log.records.record import BatchBuilder, Record, iter_records
from network.client.connection import Connection
from network.protocol.errors import ErrorCode
from network.protocol.message import Request
from network.protocol.messages.api_versions import ApiVersionsRequest
from network.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from network.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from network.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from network.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.batches import iter_batches
from tests.support.cluster import CLOCK, Broker, Cluster

TIMEOUT_MS = 30_000
PRODUCE_VERSION = 9
# The last version that names topics instead of their ids.
FETCH_VERSION = 12
# The request that any broker answers, in any version.
ASK_VERSIONS = ApiVersionsRequest(client_software_name="t", client_software_version="1")


def fresh_name(prefix: str = "topic") -> str:
    """A name that no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def now_ms() -> int:
    """Wall time, for record timestamps."""
    return time.time_ns() // 1_000_000


@contextlib.contextmanager
def connected(broker: Broker, client_id: str = "contract") -> Iterator[Connection]:
    """A connection to one broker."""
    connection = Connection(broker.host, broker.port, client_id, CLOCK, socket_timeout_ms=TIMEOUT_MS)
    try:
        yield connection
    finally:
        connection.close()


def call(broker: Broker, message: Request, version: int, timeout_ms: int = TIMEOUT_MS) -> Any:
    """One request on a connection of its own."""
    with connected(broker) as connection:
        return connection.call(message, version, timeout_ms)


def create_topic(
    cluster: Cluster,
    name: str | None = None,
    *,
    partitions: int = 1,
    replication_factor: int = 1,
    configs: Mapping[str, str] | None = None,
) -> str:
    """Create a topic and wait until every running broker has a leader for each partition."""
    name = name or fresh_name()
    wanted = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    with cluster.client() as client:
        (result,) = client.call_controller(CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)).topics
        assert result.error_code == 0, (ErrorCode.of(result.error_code), result.error_message)
    wait_for_leaders(cluster, name, partitions)
    return name


def wait_for_leaders(cluster: Cluster, name: str, partitions: int) -> None:
    """Until the topic has so many partitions and a leader for each, on every running broker."""
    deadline = time.monotonic() + TIMEOUT_MS / 1000
    for broker in cluster.running:
        while True:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
            (topic,) = call(broker, request, 12).topics
            if len(topic.partitions) == partitions and all(p.leader_id >= 0 for p in topic.partitions):
                break
            assert time.monotonic() < deadline, f"{name} has no leaders: {topic}"
            pause()


def batch(
    values: Sequence[bytes | None],
    *,
    codec: int = Codec.NONE,
    timestamps: Sequence[int] | None = None,
    keys: Sequence[bytes | None] | None = None,
    **options: Any,
) -> bytearray:
    """A record batch of these values; keys are absent and all records of one moment (so that what it takes, packed
    too, is the same at any time) unless given."""
    builder = BatchBuilder(codec=codec, **options)
    now = now_ms()
    for index, value in enumerate(values):
        key = None if keys is None else keys[index]
        builder.append(now if timestamps is None else timestamps[index], key, value)
    return builder.build()


def produce_request(topic: str, records: Any, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
    """One batch for one partition."""
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=TIMEOUT_MS, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def produce(
    broker: Broker, topic: str, records: Any, *, partition: int = 0, acks: int = -1, version: int = PRODUCE_VERSION
) -> PartitionProduceResponse:
    """Send one batch, return the partition's answer."""
    response = call(broker, produce_request(topic, records, partition=partition, acks=acks), version)
    answer = response.responses[0].partition_responses[0]
    assert isinstance(answer, PartitionProduceResponse)
    return answer


def fetch_request(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50_000_000,
    partition_max_bytes: int = 10_000_000,
    **options: Any,
) -> FetchRequest:
    """One partition, without a session."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
        **options,
    )


def fetch(broker: Broker, topic: str, offset: int, *, version: int = FETCH_VERSION, **options: Any) -> PartitionData:
    """Read one partition, return its part of the answer."""
    response = call(broker, fetch_request(topic, offset, **options), version)
    assert response.error_code == 0
    answer = response.responses[0].partitions[0]
    assert isinstance(answer, PartitionData)
    return answer


def records_of(answer: PartitionData) -> list[Record]:
    """All whole records in an answer."""
    return [record for found in iter_batches(answer.records or b"") for record in iter_records(found)]  # type: ignore[arg-type]


def list_offset(
    broker: Broker, topic: str, timestamp: int, *, partition: int = 0, version: int = 7, **options: Any
) -> ListOffsetsPartitionResponse:
    """ListOffsets of one partition."""
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])], **options)
    answer = call(broker, request, version).topics[0].partitions[0]
    assert isinstance(answer, ListOffsetsPartitionResponse)
    return answer


def wait_for_end(broker: Broker, topic: str, offset: int, *, partition: int = 0) -> None:
    """Until a partition ends at the offset: with acks=0 nobody says when the last record is there."""
    deadline = time.monotonic() + TIMEOUT_MS / 1000
    while (end := list_offset(broker, topic, -1, partition=partition).offset) != offset:
        assert time.monotonic() < deadline, f"{topic}-{partition} ends at {end}, not at {offset}"
        pause()


def pause(seconds: float = 0.05) -> None:
    """Between two looks at something that only looking can tell."""
    time.sleep(seconds)
