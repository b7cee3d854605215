"""Which offsets of a group are too old (KIP-211)."""

from __future__ import annotations

from broker.groups.base import GroupBase
from broker.groups.classic.group import CONSUMER_PROTOCOL_TYPE, Group
from broker.groups.classic.states import GroupState
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.offsets.group_offsets import CommittedOffset
from log.topic_partition import TopicPartition


def expired_offsets(group: GroupBase, now_ms: int, retention_ms: int) -> list[TopicPartition]:
    """Partitions whose offsets the retention ends; called under the group's lock.

    An empty group's offsets age from when it became empty (from their commit if that is unknown), those of a simple
    consumer from their commit. A running consumer group loses only offsets of topics that no member subscribes to, and
    so does a group of the consumer protocol, running or empty.
    """
    offsets = group.offsets
    if isinstance(group, ConsumerGroup):
        return offsets.expired(now_ms, retention_ms, _commit_timestamp, group.is_subscribed_to)
    assert isinstance(group, Group)
    if group.protocol_type is None:
        return offsets.expired(now_ms, retention_ms, _commit_timestamp)
    if group.is_in(GroupState.EMPTY):
        since = group.current_state_timestamp
        return offsets.expired(now_ms, retention_ms, _commit_timestamp if since is None else lambda _: since)
    if (
        group.protocol_type == CONSUMER_PROTOCOL_TYPE
        and group.subscribed_topics is not None
        and group.is_in(GroupState.STABLE)
    ):
        return offsets.expired(now_ms, retention_ms, _commit_timestamp, group.is_subscribed_to)
    return []


def _commit_timestamp(commit: CommittedOffset) -> int:
    return commit.value.commit_timestamp
