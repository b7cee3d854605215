"""Reads of the whole cluster that do without the brokers that do not answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient
from network.client.cluster_metadata import ClusterMetadata
from network.client.connection import AuthenticationFailed, ConnectionFailed
from network.client.connection_pool import UnsupportedVersion
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.message import Request
from network.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from network.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

EARLIEST, LATEST = -2, -1
BROKER_TIMEOUT_MS = 1_500
"""For one broker of many: a page is not held up by one that is away."""


def ask_each(client: ClusterClient, brokers: Iterable[int], request: Request) -> tuple[dict[int, Any], dict[int, str]]:
    """The answers by broker, and why the others have none. Raises `AuthenticationFailed`."""
    answers: dict[int, Any] = {}
    silent: dict[int, str] = {}
    for broker_id in sorted(brokers):
        try:
            answer = client.call_broker(broker_id, request, BROKER_TIMEOUT_MS)
        except AuthenticationFailed:
            raise
        except (ConnectionFailed, ApiError, UnsupportedVersion) as error:
            silent[broker_id] = str(error)
            continue
        code = ErrorCode.of(answer.error_code)
        if code in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            answers[broker_id] = answer
        else:
            silent[broker_id] = code.name
    return answers, silent


def replica_sizes(answers: Mapping[int, Any]) -> Iterator[tuple[int, str, TopicPartition, int, int]]:
    """(broker, directory, partition, bytes, lag) of every replica in answers to DescribeLogDirs."""
    for broker_id, answer in answers.items():
        for result in answer.results:
            for topic in result.topics:
                for each in topic.partitions:
                    if not each.is_future_key:
                        name = TopicPartition(topic.name, each.partition_index)
                        yield broker_id, result.log_dir, name, each.partition_size, each.offset_lag


def log_dirs(client: ClusterClient, brokers: Iterable[int]) -> tuple[dict[int, Any], dict[int, str]]:
    """All directories of the brokers. Needs `Describe` on the cluster."""
    return ask_each(client, brokers, DescribeLogDirsRequest(topics=None))


def offsets(
    client: ClusterClient,
    metadata: ClusterMetadata,
    partitions: Iterable[TopicPartition],
    timestamp: int,
    isolation: int = 0,
) -> dict[TopicPartition, int]:
    """Offsets for a timestamp, of the partitions whose leaders answer; -1 where no record is that late."""
    by_leader: dict[int, dict[str, list[int]]] = {}
    for each in partitions:
        topic = metadata.topics.get(each.topic)
        known = None if topic is None else topic.partitions.get(each.partition)
        if known is not None and known.leader >= 0:
            by_leader.setdefault(known.leader, {}).setdefault(each.topic, []).append(each.partition)
    found: dict[TopicPartition, int] = {}
    for leader, topics in by_leader.items():
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[
                ListOffsetsTopic(
                    name=name,
                    partitions=[ListOffsetsPartition(partition_index=n, timestamp=timestamp) for n in numbers],
                )
                for name, numbers in topics.items()
            ],
        )
        try:
            answer = client.call_broker(leader, request, BROKER_TIMEOUT_MS)
        except AuthenticationFailed:
            raise
        except (ConnectionFailed, ApiError):
            continue
        for topic in answer.topics:
            for each in topic.partitions:
                if not each.error_code:
                    found[TopicPartition(topic.name, each.partition_index)] = each.offset
    return found
