"""``odradek produce TOPIC``: lines of standard input become records."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import BinaryIO

import click

from broker.cli.client import bootstrap_option, cluster, describe
from broker.cli.errors import CommandError
from broker.cli.output import is_for_people, say
from broker.dev.polling import wait_until
from log.records.compression import codec_named
from log.records.record import BatchBuilder
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from network.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from timer.clock import SystemClock

MAX_BATCH_BYTES = 512 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024
CREATION_TIMEOUT_MS = 10_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Line = tuple[bytes | None, bytes | None]


@click.command("produce")
@click.argument("topic")
@bootstrap_option
@click.option("--key-separator", help="Each line is KEY, this separator, VALUE.")
@click.option("--null-marker", help="A key or value that is exactly this text is sent as null.")
@click.option("--partition", type=click.IntRange(0), help="Send everything there.")
@click.option("--compression", default="none", type=click.Choice(CODECS), show_default=True)
@click.option("--acks", default="all", type=click.Choice(["all", "1", "0"]), show_default=True)
def command(
    topic: str,
    bootstrap_server: str,
    key_separator: str | None,
    null_marker: str | None,
    partition: int | None,
    compression: str,
    acks: str,
) -> None:
    """Send each line of standard input to TOPIC as a record.

    Records with a key go to the partition that the Java client would choose; those without go round by batches.
    """
    separator = None if key_separator is None else key_separator.encode()
    marker = None if null_marker is None else null_marker.encode()
    with cluster(bootstrap_server) as client:
        sender = Sender(client, topic, partition, codec_named(compression), -1 if acks == "all" else int(acks))
        for key, value in lines(sys.stdin.buffer, separator, marker):
            sender.add(key, value)
        sender.flush()
    if is_for_people():
        click.echo(f"Produced {sender.sent} records to {topic}.", err=True)
    else:
        say("", topic=topic, records=sender.sent)


def lines(source: BinaryIO, separator: bytes | None, null_marker: bytes | None) -> Iterator[Line]:
    """Keys and values of the lines. Raises CommandError naming the line that has no separator or is too long."""
    number = 0
    while True:
        line = source.readline(MAX_LINE_BYTES + 1)
        if not line:
            return
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise CommandError(f"line {number} is longer than {MAX_LINE_BYTES} bytes")
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        key: bytes | None = None
        value: bytes | None = line
        if separator is not None:
            key, found, value = line.partition(separator)
            if not found:
                raise CommandError(f"line {number} has no key separator {separator.decode()!r}")
        yield (None if key == null_marker else key), (None if value == null_marker else value)


def partitions_of(client: ClusterClient, topic: str) -> int:
    """How many partitions the topic has; a missing one is made, where the brokers allow that.

    Raises ApiError with the reason when there is none and none can be made.
    """
    try:
        return len(client.topic(topic).partitions)
    except ApiError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
    passing = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    code = 0

    def settled() -> bool:
        nonlocal code
        (answer,) = client.call_any(request).topics
        code = answer.error_code
        return code not in passing and all(partition.leader_id >= 0 for partition in answer.partitions)

    wait_until(settled, SystemClock(), CREATION_TIMEOUT_MS, interval_ms=100)
    if code:
        raise ApiError(ErrorCode.of(code), topic)
    return len(client.topic(topic, refresh=True).partitions)


class Sender:
    """Batches by partition, one request at a time, so the order of a partition is kept."""

    def __init__(self, client: ClusterClient, topic: str, partition: int | None, codec: int, acks: int) -> None:
        self._client = client
        self._topic = topic
        self._codec = codec
        self._acks = acks
        self._clock = SystemClock()
        count = partitions_of(client, topic)
        if partition is not None and partition >= count:
            raise CommandError(f"{topic} has no partition {partition}; it has {count}")
        self._fixed = partition
        self._count = count
        self._turn = 0
        self._open: dict[int, tuple[BatchBuilder, int, int]] = {}
        self.sent = 0

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Append a record; sends the partition's batch when it is full."""
        partition = self._choose(key)
        builder, size, count = self._open.get(partition) or (BatchBuilder(base_offset=0, codec=self._codec), 0, 0)
        builder.append(self._clock.wall_ms(), key, value)
        size += len(key or b"") + len(value or b"") + 16
        self._open[partition] = builder, size, count + 1
        if size >= MAX_BATCH_BYTES:
            self._send(partition)
            self._turn += 1

    def flush(self) -> None:
        """Send what is left."""
        for partition in list(self._open):
            self._send(partition)

    def _choose(self, key: bytes | None) -> int:
        if self._fixed is not None:
            return self._fixed
        if key is None:
            return self._turn % self._count
        return (murmur2(key) & 0x7FFFFFFF) % self._count

    def _send(self, partition: int) -> None:
        builder, _, count = self._open.pop(partition)
        data = PartitionProduceData(index=partition, records=builder.build())
        request = ProduceRequest(
            acks=self._acks,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
        )
        response = self._client.call_leader(self._topic, partition, request)
        if response is not None:
            answer = response.responses[0].partition_responses[0]
            if answer.error_code:
                text = describe(answer.error_code, answer.error_message)
                raise CommandError(f"{self._topic}-{partition}: {text}; {self.sent} records were sent before")
        self.sent += count


def murmur2(data: bytes) -> int:
    """The hash by which Kafka's clients place keys (MurmurHash2, seed 0x9747b28c), as an unsigned int32."""
    m = 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & 0xFFFFFFFF
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & 0xFFFFFFFF
        k = (k ^ k >> 24) * m & 0xFFFFFFFF
        h = (h * m & 0xFFFFFFFF) ^ k
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & 0xFFFFFFFF
    h = (h ^ h >> 13) * m & 0xFFFFFFFF
    return h ^ h >> 15
