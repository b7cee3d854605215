"""Members of a classic group by script: they share a topic's partitions, commit what nobody else commits, and leave."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from network.protocol.errors import ErrorCode
from network.protocol.messages.heartbeat import HeartbeatRequest
from network.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from network.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from network.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from network.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.real.brokers import Cluster
from tests.simulation.real.client import GROUP, PARTITIONS, Client
from tests.simulation.real.group_history import GroupHistory

NAME = "members"
TOPIC = "work"
SESSION_MS = 1_500
REBALANCE_MS = 2_000
ELSEWHERE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)


class JoinAgain(Exception):
    """The generation is over, or the group does not know the member."""


class Offsets(Client):
    """Asks how far the group has come."""

    def __init__(self, cluster: Cluster, name: str, history: GroupHistory, group: str = NAME) -> None:
        super().__init__(cluster, name, history.history)
        self.groups = history
        self.group = group

    def work(self) -> None:
        for partition in range(PARTITIONS):
            self.fetch(partition)

    def fetch(self, partition: int) -> None:
        began = self.groups.now()
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[partition])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group, topics=topics)])

        def attempt() -> int | None:
            coordinator = self.coordinator(self.group, GROUP)
            answer = self.ask(coordinator, request, 8).groups[0]
            if answer.error_code or answer.topics[0].partitions[0].error_code:
                return None
            if not self.cluster.coordinates(self.group, coordinator):
                return None
            return int(answer.topics[0].partitions[0].committed_offset)

        self.groups.fetched(self.name, partition, self.until(attempt), began)


class Member(Offsets):
    """Joins, syncs, beats and commits; the leader among them shares the partitions out."""

    def work(self) -> None:
        self.member_id = ""
        while not self.is_over():
            try:
                self._join()
                self._sync()
                for partition in self.owned:
                    self.fetch(partition)
                self._stay()
            except JoinAgain:
                pass

    def _answer(self, request: Any, version: int, code_of: Callable[[Any], int]) -> Any:
        """An answer without an error. Raises JoinAgain for one that ends the membership."""

        def attempt() -> Any:
            coordinator = self.coordinator(NAME, GROUP)
            answer = self.ask(coordinator, request, version)
            code = ErrorCode.of(code_of(answer))
            if code is ErrorCode.NONE:
                return answer if self.cluster.coordinates(NAME, coordinator) else None
            if code is ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            elif code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            elif code in ELSEWHERE:
                return None
            raise JoinAgain(code.name)

        return self.until(attempt)

    def _join(self) -> None:
        at_least = self.groups.newest
        request = JoinGroupRequest(
            group_id=NAME,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="simulation",
            protocols=[JoinGroupRequestProtocol(name="in turn", metadata=b"")],
        )
        answer = self._answer(request, 6, lambda each: int(each.error_code))
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.groups.joined(self.name, self.generation, at_least)
        everybody = sorted(each.member_id for each in answer.members)
        self.shares = {
            member: [each for each in range(PARTITIONS) if each % len(everybody) == at]
            for at, member in enumerate(everybody)
        }

    def _sync(self) -> None:
        assignments = [
            SyncGroupRequestAssignment(member_id=member, assignment=json.dumps(share).encode())
            for member, share in self.shares.items()
        ]
        request = SyncGroupRequest(
            group_id=NAME, generation_id=self.generation, member_id=self.member_id, assignments=assignments
        )
        answer = self._answer(request, 4, lambda each: int(each.error_code))
        self.owned: list[int] = json.loads(bytes(answer.assignment) or b"[]")
        self.groups.owns(self.name, self.member_id, self.generation, self.owned)

    def _stay(self) -> None:
        while self.more():
            if self.owned and self.rng.random() < 0.08:
                self.pause(2 * SESSION_MS)  # and does not know that the others have gone on
                self._commit(self.rng.choice(self.owned))
            beat = HeartbeatRequest(group_id=NAME, generation_id=self.generation, member_id=self.member_id)
            self._answer(beat, 3, lambda each: int(each.error_code))
            if self.owned and self.rng.random() < 0.6:
                self._commit(self.rng.choice(self.owned))
            if self.rng.random() < 0.04:
                self._leave()
            self.pause(self.rng.randint(50, 500))

    def _commit(self, partition: int) -> None:
        offset = self.groups.commits(partition, self.generation)
        topics = [
            OffsetCommitRequestTopic(
                name=TOPIC,
                partitions=[OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)],
            )
        ]
        request = OffsetCommitRequest(
            group_id=NAME,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=topics,
        )
        self._answer(request, 7, lambda each: int(each.topics[0].partitions[0].error_code))
        self.groups.committed(self.name, partition, offset)

    def _leave(self) -> None:
        request = LeaveGroupRequest(group_id=NAME, members=[MemberIdentity(member_id=self.member_id)])
        self._answer(request, 4, lambda each: int(each.error_code))
        self.cluster.note(f"{self.name} leaves")
        self.member_id = ""
        raise JoinAgain
