"""A group coordinator on a log in memory, a manual clock and no threads."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from broker.groups.classic.requests import (
    HeartbeatRequest,
    JoinRequest,
    JoinResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
)
from broker.groups.config import GroupConfig
from broker.groups.consumer.assignors.spec import Partitions, TopicIdPartition
from broker.groups.consumer.config import ConsumerGroupConfig
from broker.groups.coordinator import GroupCoordinator, Surroundings
from broker.groups.offsets.commits import Results
from broker.groups.offsets.committer import Committer, TransactionalProducer
from broker.groups.offsets.group_offsets import OffsetAndMetadata
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tests.support.internal_topic import MemoryTopic
from timer.chance import SystemChance
from timer.clock import ManualClock
from timer.executor import InlineExecutor
from timer.metrics import NULL_METRICS
from timer.purgatory import Purgatory
from timer.scheduler import ManualScheduler
from timer.timer import SystemTimer

PARTITIONS = 3
T = TypeVar("T")


class Answer(Generic[T]):
    """A callback that remembers its one answer."""

    def __init__(self) -> None:
        self.values: list[T] = []

    def __call__(self, value: T) -> None:
        assert not self.values, "answered twice"
        self.values.append(value)

    @property
    def done(self) -> bool:
        return bool(self.values)

    @property
    def value(self) -> T:
        assert self.values, "not answered yet"
        return self.values[0]


class Topics:
    """The topics of a cluster in memory; `set` makes or changes one, with 0 partitions it goes."""

    def __init__(self) -> None:
        self.layout_version = 0
        self.topics: dict[str, range] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.topic_names: dict[bytes, str] = {}

    def set(self, name: str, partitions: int) -> None:
        self.layout_version += 1
        if not partitions:
            del self.topics[name]
            del self.topic_names[self.topic_ids.pop(name)]
            return
        self.topics[name] = range(partitions)
        if name not in self.topic_ids:
            self.topic_ids[name] = self.layout_version.to_bytes(16, "big")
            self.topic_names[self.topic_ids[name]] = name

    def partitions(self, name: str, *numbers: int) -> Partitions:
        """The named partitions, or all."""
        topic_id = self.topic_ids[name]
        return frozenset(TopicIdPartition(topic_id, number) for number in numbers or self.topics[name])


class Coordinator:
    """A running coordinator that owns every partition; time passes by `advance`."""

    def __init__(
        self,
        log: MemoryTopic | None = None,
        clock: ManualClock | None = None,
        consumer_config: ConsumerGroupConfig | None = None,
        **settings: int,
    ) -> None:
        self.clock = clock or ManualClock()
        self.log = log or MemoryTopic(PARTITIONS)
        config = GroupConfig(**{"initial_rebalance_delay_ms": 1, **settings})  # type: ignore[arg-type]
        self.scheduler = ManualScheduler(self.clock)
        self._ids = 0
        self.rebalances = self._purgatory("Rebalance")
        self.heartbeats = self._purgatory("Heartbeat")
        self.core = GroupCoordinator(
            self.log,
            PARTITIONS,
            Surroundings(self.clock, SystemChance(), self.scheduler, self.rebalances, self.heartbeats, NULL_METRICS),
            config,
            consumer_config,
            topics=lambda: self.topics,
            new_id=self._next_id,
        )
        self.owned = self.core.owned
        self.topics = Topics()
        self.core.startup()
        self.offsets = self.core.offsets
        self.admin = self.core.admin
        self.elect()

    def _purgatory(self, name: str) -> Purgatory:  # type: ignore[type-arg]
        return Purgatory(name, SystemTimer(name, self.clock, InlineExecutor()), reaper_enabled=False)

    def _next_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    def elect(self, epoch: int = 0) -> None:
        for partition in range(PARTITIONS):
            self.core.on_election(partition, epoch)
        self.scheduler.tick()

    def resign(self, epoch: int | None = 1) -> None:
        for partition in range(PARTITIONS):
            self.core.on_resignation(partition, epoch)
        self.scheduler.tick()

    def advance(self, ms: int, step: int = 50) -> None:
        while ms > 0:
            self.clock.advance(min(step, ms))
            ms -= step
            self.scheduler.tick()
            while self.rebalances.step() or self.heartbeats.step():
                pass

    def state(self, group_id: str = "g") -> str:
        return self.admin.describe_group(group_id).state

    def join(self, member_id: str = "", group_id: str = "g", **options: Any) -> Answer[JoinResult]:
        answer: Answer[JoinResult] = Answer()
        request = JoinRequest(
            group_id=group_id,
            member_id=member_id,
            **{
                "client_id": "client",
                "client_host": "/127.0.0.1",
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 60_000,
                "protocol_type": "consumer",
                "protocols": (("range", subscription("t")),),
                "require_known_member_id": False,
                **options,
            },
        )
        self.core.join_group(request, answer)
        return answer

    def sync(
        self,
        member: JoinResult,
        assignment: dict[str, bytes] | None = None,
        group_id: str = "g",
        instance_id: str | None = None,
    ) -> Answer[SyncResult]:
        answer: Answer[SyncResult] = Answer()
        self.core.sync_group(
            SyncRequest(
                group_id,
                member.generation_id,
                member.member_id,
                instance_id,
                member.protocol_type,
                member.protocol_name,
                assignment or {},
            ),
            answer,
        )
        return answer

    def stable(self, count: int = 1, **options: Any) -> list[JoinResult]:
        """A stable group of so many members; the leader comes first. Members are given `a0`, `a1`... as assignment."""
        answers = [self.join(**options) for _ in range(count)]
        self.advance(5, 1)
        members = [answer.value for answer in answers]
        members.sort(key=lambda member: member.member_id != member.leader_id)
        group_id, instance_id = options.get("group_id", "g"), options.get("group_instance_id")
        syncs = [self.sync(member, group_id=group_id, instance_id=instance_id) for member in members[1:]]
        assignment = {member.member_id: f"a{i}".encode() for i, member in enumerate(members)}
        syncs.append(self.sync(members[0], assignment, group_id, instance_id))
        assert all(sync.value.error is ErrorCode.NONE for sync in syncs)
        return members

    def heartbeat(self, member: JoinResult, instance_id: str | None = None, group_id: str = "g") -> ErrorCode:
        return self.core.heartbeat(HeartbeatRequest(group_id, member.generation_id, member.member_id, instance_id))

    def leave(self, *members: LeavingMember, group_id: str = "g") -> list[ErrorCode]:
        return [error for _, error in self.core.leave_group(group_id, list(members)).members]

    def commit(
        self,
        offsets: dict[str, int],
        committer: Committer | None = None,
        producer: TransactionalProducer | None = None,
        **values: object,
    ) -> Answer[Results]:
        """Commit offsets given by partition name (`t-0`)."""
        answer: Answer[Results] = Answer()
        values = {"commit_timestamp": self.clock.wall_ms(), **values}
        named = {partition(name): OffsetAndMetadata(offset, **values) for name, offset in offsets.items()}  # type: ignore[arg-type]
        committer = committer or Committer("g")
        if producer is None:
            self.offsets.commit(committer, named, answer)
        else:
            self.offsets.commit_in_transaction(committer, producer, named, answer)
        return answer

    def committed(self, group_id: str = "g", require_stable: bool = False) -> dict[str, int | str]:
        """Offset, or name of the error, of every partition that has one."""
        error, found = self.offsets.fetch(group_id, None, require_stable)
        assert error is ErrorCode.NONE
        return {
            str(name): fetched.value.offset if fetched.error is ErrorCode.NONE else fetched.error.name
            for name, fetched in found.items()
        }


def partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def subscription(*topics: str) -> bytes:
    """Metadata of a consumer that subscribes to these topics."""
    return ConsumerProtocolSubscription(topics=list(topics)).encode_versioned(0)
