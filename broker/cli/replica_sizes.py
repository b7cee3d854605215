"""How many bytes the replicas of each broker take, as its log directories say."""

from __future__ import annotations

from collections.abc import Iterable

from broker.cli.reassignment_files import by_topic
from log.topic_partition import TopicPartition
from network.cluster_client import ClusterClient
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

Sizes = dict[TopicPartition, int]


def sizes_on(client: ClusterClient, broker_id: int, partitions: Iterable[TopicPartition] | None = None) -> Sizes:
    """Bytes of the replicas on a broker, all or only these. Replicas on their way between two directories of the
    broker do not count twice; a directory that failed counts nothing. Raises ApiError and ConnectionFailed."""
    topics = None
    if partitions is not None:
        topics = [
            DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in by_topic(partitions).items()
        ]
    response = client.call_broker(broker_id, DescribeLogDirsRequest(topics=topics))
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


def largest_sizes(client: ClusterClient) -> Sizes:
    """Bytes of the largest replica of every partition: what a new replica will have to copy."""
    found: Sizes = {}
    for broker_id in client.brokers():
        for tp, size in sizes_on(client, broker_id).items():
            found[tp] = max(size, found.get(tp, 0))
    return found
