"""A member of a consumer group that speaks the protocol itself, one request at a time."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from broker.coordinator.internal_topic_names import partition_for
from network.client.connection import Connection
from network.protocol.errors import ErrorCode
from network.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from network.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from network.protocol.uuids import new_uuid, to_text
from timer.chance import SystemChance

TIMEOUT_S = 60.0
Owned = set[tuple[bytes, int]]


def wait_until(condition: Callable[[], Any], what: str = "", timeout_s: float = TIMEOUT_S) -> Any:
    """The first true value of `condition`."""
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < end, f"not in {timeout_s} s: {what}"
        time.sleep(0.1)
    return value


def new_group() -> str:
    return f"group-{uuid.uuid4().hex[:10]}"


def groups_everywhere(partitions: int) -> list[str]:
    """A new group in each of so many partitions of `__consumer_offsets`."""
    found: dict[int, str] = {}
    while len(found) < partitions:
        name = new_group()
        found[partition_for(name, partitions)] = name
    return list(found.values())


def encode_owned(owned: Iterable[tuple[bytes, int]]) -> list[TopicPartitions]:
    """Partitions by topic, as requests have them."""
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(owned):
        by_topic.setdefault(topic_id, []).append(partition)
    return [TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in by_topic.items()]


class RawMember:
    """Owns what its last answer with an assignment gave it; `beat` tells that only when asked to."""

    def __init__(self, connection: Connection, group: str, topics: list[str] | None = None, **options: Any) -> None:
        self.connection = connection
        self.group = group
        self.member_id = options.pop("member_id", to_text(new_uuid(SystemChance())))
        self.topics = topics
        self.regex: str | None = options.pop("regex", None)
        self.instance_id: str | None = options.pop("instance_id", None)
        self.assignor: str | None = options.pop("assignor", None)
        self.rebalance_timeout_ms: int = options.pop("rebalance_timeout_ms", 30_000)
        self.version: int = options.pop("version", 1)
        assert not options
        self.epoch = 0
        self.owned: Owned = set()

    def send(self, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """One request with nothing in it but what is given."""
        fields.setdefault("instance_id", self.instance_id)
        fields.setdefault("member_id", self.member_id)
        request = ConsumerGroupHeartbeatRequest(group_id=self.group, member_epoch=epoch, **fields)
        response: ConsumerGroupHeartbeatResponse = self.connection.call(request, self.version, 20_000)
        if not response.error_code and epoch >= 0:
            self.member_id = response.member_id or self.member_id
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.owned = {
                    (topic.topic_id, number)
                    for topic in response.assignment.topic_partitions
                    for number in topic.partitions
                }
        return response

    def full(self, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """One request that says everything."""
        return self.send(
            epoch,
            **{
                "rebalance_timeout_ms": self.rebalance_timeout_ms,
                "subscribed_topic_names": self.topics if self.topics is not None or self.regex is not None else [],
                "subscribed_topic_regex": self.regex,
                "server_assignor": self.assignor,
                "topic_partitions": [] if epoch == 0 else encode_owned(self.owned),
                **fields,
            },
        )

    def join(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Enter the group; fails on an error."""
        self.owned = set()
        response = self.full(0, **fields)
        assert response.error_code == 0, (ErrorCode.of(response.error_code), response.error_message)
        return response

    def beat(self) -> ConsumerGroupHeartbeatResponse:
        """Stay in the group, tell what is owned; fails on an error. What the answer takes away is given up at once."""
        response = self.send(self.epoch, topic_partitions=encode_owned(self.owned))
        assert response.error_code == 0, (ErrorCode.of(response.error_code), response.error_message)
        return response

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        return self.send(epoch)


def settle(members: list[RawMember], partitions: Owned) -> None:
    """Heartbeats of all until they own the partitions exactly once, as evenly as can be, at one epoch."""

    def balanced() -> bool:
        for member in members:
            member.beat()
        sizes = [len(member.owned) for member in members]
        union = set().union(*(member.owned for member in members))
        return (
            union == partitions
            and sum(sizes) == len(partitions)
            and max(sizes) - min(sizes) <= 1
            and len({member.epoch for member in members}) == 1
        )

    wait_until(balanced, f"a balance of {len(partitions)} partitions over {len(members)} members")


def wait_assignable(connection: Connection, groups: Iterable[str], topics: list[str], count: int) -> None:
    """Until a member of each group is given all partitions of the topics: so many.

    Kafka's coordinators, one a partition of `__consumer_offsets`, hear of a topic later than its metadata shows it, and
    one after the other.
    """
    for group in groups:
        probe = RawMember(connection, group, topics)
        probe.join()
        wait_until(lambda probe=probe: probe.beat() and len(probe.owned) == count, f"{topics} at a coordinator")  # type: ignore[misc]
        probe.leave()


def describe(connection: Connection, group: str, version: int = 1) -> DescribedGroup:
    """ConsumerGroupDescribe of one group."""
    groups: list[DescribedGroup] = connection.call(
        ConsumerGroupDescribeRequest(group_ids=[group]), version, 20_000
    ).groups
    (found,) = groups
    return found
