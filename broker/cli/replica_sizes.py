"""How many bytes the replicas of each broker take, as its log directories say."""

from __future__ import annotations

from collections.abc import Iterable

import click

from broker.cli.reassignment_files import by_topic
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient
from network.client.connection import ConnectionFailed
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

_TIMEOUT_MS = 5_000

Sizes = dict[TopicPartition, int]


def sizes_on(client: ClusterClient, broker_id: int, partitions: Iterable[TopicPartition] | None = None) -> Sizes:
    """Bytes of the replicas on a broker, all or only these. Replicas on their way between two directories of the
    broker do not count twice; a directory that failed counts nothing. Raises ApiError and ConnectionFailed."""
    topics = None
    if partitions is not None:
        topics = [
            DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in by_topic(partitions).items()
        ]
    response = client.call_broker(broker_id, DescribeLogDirsRequest(topics=topics), _TIMEOUT_MS)
    if response.error_code:
        raise ApiError(ErrorCode.of(response.error_code), f"log directories of broker {broker_id}")
    return {
        TopicPartition(topic.name, each.partition_index): each.partition_size
        for result in response.results
        if not result.error_code
        for topic in result.topics
        for each in topic.partitions
        if not each.is_future_key
    }


def all_sizes(client: ClusterClient) -> dict[int, Sizes | None]:
    """Bytes of the replicas on every broker; None, with a warning, for one that does not answer."""
    found: dict[int, Sizes | None] = {}
    for broker_id in sorted(client.brokers()):
        try:
            found[broker_id] = sizes_on(client, broker_id)
        except (ApiError, ConnectionFailed) as error:
            click.echo(f"broker {broker_id} does not say how large its replicas are: {error}", err=True)
            found[broker_id] = None
    return found


def largest_sizes(client: ClusterClient) -> Sizes:
    """Bytes of the largest replica of every partition: what a new replica will have to copy."""
    largest: Sizes = {}
    for sizes in all_sizes(client).values():
        for tp, size in (sizes or {}).items():
            largest[tp] = max(size, largest.get(tp, 0))
    return largest
