"""What the handlers of the group APIs share: authorization, and partitions by topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from broker.requests.authorization import Operation, ResourceType
from broker.requests.registry import Call
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode

T = TypeVar("T")


def may(call: Call[Any], operation: Operation, resource: ResourceType, name: str, *, explicit: bool = True) -> bool:
    """Whether the caller may do it; `explicit`: `Authorizer.authorize`."""
    authorizer = call.broker.authorizer
    return authorizer.allows_everything or authorizer.authorize(
        call.connection, operation, resource, name, explicit=explicit
    )


def require_group(call: Call[Any], operation: Operation, group_id: str) -> None:
    """Raises ApiError(GROUP_AUTHORIZATION_FAILED)."""
    if not may(call, operation, ResourceType.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def require_static_members(call: Call[Any], group_instance_id: str | None) -> None:
    """Raises ApiError(UNSUPPORTED_VERSION) for an instance id while older brokers may coordinate (KIP-345)."""
    if group_instance_id is not None and not call.broker.config.version.at_least("2.3-IV0"):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


def topic_error(call: Call[Any], topic: str, operation: Operation = Operation.READ) -> ErrorCode:
    """TOPIC_AUTHORIZATION_FAILED or NONE."""
    if may(call, operation, ResourceType.TOPIC, topic):
        return ErrorCode.NONE
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED


def partition_error(call: Call[Any], partition: TopicPartition) -> ErrorCode:
    """UNKNOWN_TOPIC_OR_PARTITION for what the metadata does not have, or NONE."""
    if call.broker.metadata_cache.contains(partition.topic, partition.partition):
        return ErrorCode.NONE
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def partitions_of(topics: Iterable[Any]) -> Iterator[tuple[TopicPartition, Any]]:
    """The partitions of a request that commits offsets, with what it says of each."""
    for topic in topics:
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition.partition_index), partition


def sort_out(
    call: Call[Any], topics: Iterable[Any]
) -> tuple[dict[TopicPartition, Any], dict[TopicPartition, ErrorCode]]:
    """The partitions whose offsets the caller may commit, with what it says of each; and the errors of the others."""
    accepted: dict[TopicPartition, Any] = {}
    refused: dict[TopicPartition, ErrorCode] = {}
    denied: dict[str, ErrorCode] = {}
    for name, partition in partitions_of(topics):
        error = denied.get(name.topic)
        if error is None:
            error = denied[name.topic] = topic_error(call, name.topic)
        if error is ErrorCode.NONE:
            error = partition_error(call, name)
        if error is ErrorCode.NONE:
            accepted[name] = partition
        else:
            refused[name] = error
    return accepted, refused


def java_address(host: str) -> str:
    """A client's address as Java prints one without a resolved name, which is how Kafka stores it."""
    return f"/{host}"


def by_topic(partitions: Mapping[TopicPartition, T]) -> Iterable[tuple[str, list[tuple[int, T]]]]:
    """The entries grouped by topic, in order of first appearance."""
    grouped: dict[str, list[tuple[int, T]]] = {}
    for partition, value in partitions.items():
        grouped.setdefault(partition.topic, []).append((partition.partition, value))
    return grouped.items()
