"""What ConsumerGroupDescribe shows of a group."""

from __future__ import annotations

from typing import NamedTuple

from broker.groups.consumer.assignors.spec import Partitions
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.model import Subscription


class ConsumerMemberDescription(NamedTuple):
    member_id: str
    subscription: Subscription
    epoch: int
    assigned: Partitions
    target: Partitions
    all_topics: frozenset[str]
    """Names of the subscription, those that its regular expression matches included."""


class ConsumerGroupDescription(NamedTuple):
    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: tuple[ConsumerMemberDescription, ...]


def describe(group: ConsumerGroup, default_assignor: str) -> ConsumerGroupDescription:
    """Called under the group's lock."""
    members = []
    for member_id, subscription in group.members.items():
        current = group.current(member_id)
        members.append(
            ConsumerMemberDescription(
                member_id,
                subscription,
                current.epoch,
                current.assigned,
                group.target(member_id),
                group.topics_of(member_id),
            )
        )
    return ConsumerGroupDescription(
        group.state.value, group.epoch, group.target_epoch, group.preferred_assignor(default_assignor), tuple(members)
    )
