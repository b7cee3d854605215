"""Groups with members of both protocols, in front of a coordinator in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from broker.groups.classic.requests import JoinResult
from broker.groups.consumer.config import MigrationPolicy
from network.protocol.errors import ErrorCode as E
from network.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tests.support.consumer_groups import CONFIG, consumer_coordinator
from tests.support.groups import Coordinator


def make(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL) -> Coordinator:
    made = consumer_coordinator(config=replace(CONFIG, migration_policy=policy))
    made.topics.set("t", 4)
    return made


def assignment(*partitions: int) -> bytes:
    topics = [TopicPartition(topic="t", partitions=list(partitions))]
    return ConsumerProtocolAssignment(assigned_partitions=topics).encode_versioned(1)


def classic_group(coordinator: Coordinator) -> JoinResult:
    """One member that has everything."""
    answer = coordinator.join()
    coordinator.advance(5, 1)
    member = answer.value
    assert coordinator.sync(member, {member.member_id: assignment(0, 1, 2, 3)}).value.error is E.NONE
    return member


def rejoin(coordinator: Coordinator, member: JoinResult, **options: Any) -> JoinResult:
    return coordinator.join(member.member_id, **options).value


def type_of(coordinator: Coordinator) -> list[str]:
    return [group.group_type for group in coordinator.admin.list_groups()[1]]


def loaded(coordinator: Coordinator) -> Coordinator:
    made = consumer_coordinator(coordinator.log, config=coordinator.core.consumer.config, clock=coordinator.clock)
    made.topics = coordinator.topics
    return made
