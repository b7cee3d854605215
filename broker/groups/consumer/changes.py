"""Changes of a consumer group: each is one record of `__consumer_offsets`, and knows how to undo itself.

A group changes only by these, when a request is handled and when the log is loaded; so what memory holds is what the
log says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from broker.groups.consumer.assignors.spec import Partitions
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.model import (
    ClassicProtocols,
    CurrentAssignment,
    MemberState,
    ResolvedRegex,
    Subscription,
    TopicMetadata,
    by_topic,
    from_topics,
)
from broker.groups.records import keys
from network.protocol.messages import consumer_group_current_member_assignment_value as current_value
from network.protocol.messages import consumer_group_member_metadata_value as member_value
from network.protocol.messages import consumer_group_partition_metadata_value as topics_value
from network.protocol.messages import consumer_group_target_assignment_member_value as target_value
from network.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from network.protocol.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from network.protocol.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

VALUE_VERSION = 0


class Change(Protocol):
    """One record and its effect."""

    def apply(self, group: ConsumerGroup) -> Change:
        """Alter the group; returns the change that takes it back."""

    def record(self, group_id: str) -> tuple[bytes, bytes | None]:
        """Key and value; None deletes."""


@dataclass(frozen=True, slots=True)
class SetEpoch:
    """The group's epoch."""

    epoch: int

    def apply(self, group: ConsumerGroup) -> Change:
        before, group.epoch = group.epoch, self.epoch
        return SetEpoch(before)

    def record(self, group_id: str) -> tuple[bytes, bytes | None]:
        value = ConsumerGroupMetadataValue(epoch=self.epoch).encode_versioned(VALUE_VERSION)
        return keys.epoch(group_id), value


@dataclass(frozen=True, slots=True)
class SetTopics:
    """The topics that the assignment was made for. Racks are left out: no assignor here looks at them."""

    topics: Mapping[str, TopicMetadata]

    def apply(self, group: ConsumerGroup) -> Change:
        before, group.topics = group.topics, self.topics
        return SetTopics(before)

    def record(self, group_id: str) -> tuple[bytes, bytes | None]:
        value = topics_value.ConsumerGroupPartitionMetadataValue(
            topics=[
                topics_value.TopicMetadata(topic_id=topic_id, topic_name=name, num_partitions=partitions)
                for name, (topic_id, partitions) in sorted(self.topics.items())
            ]
        )
        return keys.topics(group_id), value.encode_versioned(VALUE_VERSION)


@dataclass(frozen=True, slots=True)
class SetMember:
    """A member and its subscription; None removes it."""

    member_id: str
    subscription: Subscription | None

    def apply(self, group: ConsumerGroup) -> Change:
        return SetMember(self.member_id, group.put_member(self.member_id, self.subscription))

    def record(self, group_id: str) -> tuple[bytes, bytes | None]:
        key, it = keys.member(group_id, self.member_id), self.subscription
        if it is None:
            return key, None
        classic = None
        if it.classic is not None:
            classic = member_value.ClassicMemberMetadata(
                session_timeout_ms=it.classic.session_timeout_ms,
                supported_protocols=[
                    member_value.ClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in it.classic.protocols
                ],
            )
        value = member_value.ConsumerGroupMemberMetadataValue(
            instance_id=it.instance_id,
            rack_id=it.rack_id,
            client_id=it.client_id,
            client_host=it.client_host,
            subscribed_topic_names=sorted(it.topics),
            subscribed_topic_regex=it.regex or None,
            rebalance_timeout_ms=it.rebalance_timeout_ms,
            server_assignor=it.assignor,
            classic_member_metadata=classic,
        )
        return key, value.encode_versioned(VALUE_VERSION)


@dataclass(frozen=True, slots=True)
class SetTargetEpoch:
    """The epoch at which the target assignment was made."""

    epoch: int

    def apply(self, group: ConsumerGroup) -> Change:
        before, group.target_epoch = group.target_epoch, self.epoch
        return SetTargetEpoch(before)

    def record(self, group_id: str) -> tuple[bytes, bytes | None]:
        value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=self.epoch)
        return keys.target_epoch(group_id), value.encode_versioned(VALUE_VERSION)


@dataclass(frozen=True, slots=True)
class SetTarget:
    """What a member should have; None forgets it."""

    member_id: str
    target: Partitions | None

    def apply(self, group: ConsumerGroup) -> Change:
        return SetTarget(self.member_id, group.put_target(self.member_id, self.target))

    def record(self, group_id: str) -> tuple[bytes, bytes | None]:
        key = keys.target(group_id, self.member_id)
        if self.target is None:
            return key, None
        value = target_value.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                target_value.TopicPartition(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in by_topic(self.target).items()
            ]
        )
        return key, value.encode_versioned(VALUE_VERSION)


@dataclass(frozen=True, slots=True)
class SetCurrent:
    """What a member has; None forgets it."""

    member_id: str
    current: CurrentAssignment | None

    def apply(self, group: ConsumerGroup) -> Change:
        return SetCurrent(self.member_id, group.put_current(self.member_id, self.current))

    def record(self, group_id: str) -> tuple[bytes, bytes | None]:
        key, it = keys.current(group_id, self.member_id), self.current
        if it is None:
            return key, None
        value = current_value.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=it.epoch,
            previous_member_epoch=it.previous_epoch,
            state=it.state,
            assigned_partitions=_held(it.assigned),
            partitions_pending_revocation=_held(it.revoking),
        )
        return key, value.encode_versioned(VALUE_VERSION)


@dataclass(frozen=True, slots=True)
class SetRegex:
    """The topics of a regular expression; None forgets it."""

    regex: str
    resolved: ResolvedRegex | None

    def apply(self, group: ConsumerGroup) -> Change:
        return SetRegex(self.regex, group.put_regex(self.regex, self.resolved))

    def record(self, group_id: str) -> tuple[bytes, bytes | None]:
        key, it = keys.regex(group_id, self.regex), self.resolved
        if it is None:
            return key, None
        value = ConsumerGroupRegularExpressionValue(
            topics=sorted(it.topics), version=it.version, timestamp=it.timestamp
        )
        return key, value.encode_versioned(VALUE_VERSION)


def decode(version: int, second: str, value: bytes) -> Change:
    """The change of a stored record, by the version of its key. Raises ProtocolError."""
    return _DECODERS[version](second, value)


def _held(partitions: Partitions) -> list[current_value.TopicPartitions]:
    return [
        current_value.TopicPartitions(topic_id=topic_id, partitions=numbers)
        for topic_id, numbers in by_topic(partitions).items()
    ]


def _decode_epoch(_: str, value: bytes) -> Change:
    return SetEpoch(ConsumerGroupMetadataValue.decode_versioned(value).epoch)


def _decode_topics(_: str, value: bytes) -> Change:
    stored = topics_value.ConsumerGroupPartitionMetadataValue.decode_versioned(value)
    return SetTopics({each.topic_name: TopicMetadata(each.topic_id, each.num_partitions) for each in stored.topics})


def _decode_member(member_id: str, value: bytes) -> Change:
    stored = member_value.ConsumerGroupMemberMetadataValue.decode_versioned(value)
    classic = stored.classic_member_metadata
    return SetMember(
        member_id,
        Subscription(
            instance_id=stored.instance_id,
            rack_id=stored.rack_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            topics=frozenset(stored.subscribed_topic_names),
            regex=stored.subscribed_topic_regex or "",
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            assignor=stored.server_assignor,
            classic=None
            if classic is None
            else ClassicProtocols(
                classic.session_timeout_ms,
                tuple((each.name, bytes(each.metadata)) for each in classic.supported_protocols),
            ),
        ),
    )


def _decode_target_epoch(_: str, value: bytes) -> Change:
    return SetTargetEpoch(ConsumerGroupTargetAssignmentMetadataValue.decode_versioned(value).assignment_epoch)


def _decode_target(member_id: str, value: bytes) -> Change:
    stored = target_value.ConsumerGroupTargetAssignmentMemberValue.decode_versioned(value)
    return SetTarget(member_id, from_topics(stored.topic_partitions))


def _decode_current(member_id: str, value: bytes) -> Change:
    stored = current_value.ConsumerGroupCurrentMemberAssignmentValue.decode_versioned(value)
    known = stored.state in MemberState.__members__.values()
    return SetCurrent(
        member_id,
        CurrentAssignment(
            stored.member_epoch,
            stored.previous_member_epoch,
            MemberState(stored.state) if known else MemberState.UNKNOWN,
            from_topics(stored.assigned_partitions),
            from_topics(stored.partitions_pending_revocation),
        ),
    )


def _decode_regex(regex: str, value: bytes) -> Change:
    stored = ConsumerGroupRegularExpressionValue.decode_versioned(value)
    return SetRegex(regex, ResolvedRegex(frozenset(stored.topics), stored.version, stored.timestamp))


_DECODERS: dict[int, Callable[[str, bytes], Change]] = {
    keys.EPOCH: _decode_epoch,
    keys.TOPICS: _decode_topics,
    keys.MEMBER: _decode_member,
    keys.TARGET_EPOCH: _decode_target_epoch,
    keys.TARGET: _decode_target,
    keys.CURRENT: _decode_current,
    keys.REGEX: _decode_regex,
}
