"""A member of the classic protocol that speaks it itself, one request at a time; it reads one topic."""

from __future__ import annotations

from typing import Any

from network.client.connection import Connection
from network.protocol.errors import ErrorCode as E
from network.protocol.messages import consumer_protocol_assignment as assignment
from network.protocol.messages import consumer_protocol_subscription as subscription
from network.protocol.messages.heartbeat import HeartbeatRequest
from network.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from network.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from network.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

TOPIC = "one"
Numbers = set[int]


class ClassicMember:
    """A member of the classic protocol; `owned` are numbers of partitions."""

    def __init__(self, connection: Connection, group: str, **options: Any) -> None:
        self.connection = connection
        self.group = group
        self.options = options
        self.member_id = ""
        self.generation_id = -1
        self.owned: Numbers = set()

    def join(self, **options: Any) -> JoinGroupResponse:
        """One JoinGroup, or two if an id is given first."""
        content = subscription.ConsumerProtocolSubscription(
            topics=[TOPIC],
            owned_partitions=[subscription.TopicPartition(topic=TOPIC, partitions=sorted(self.owned))],
            generation_id=self.generation_id,
        )
        request = JoinGroupRequest(
            **{
                "group_id": self.group,
                "session_timeout_ms": 15_000,
                "rebalance_timeout_ms": 15_000,
                "member_id": self.member_id,
                "protocol_type": "consumer",
                "protocols": [JoinGroupRequestProtocol(name="range", metadata=content.encode_versioned(3))],
                **self.options,
                **options,
            }
        )
        response: JoinGroupResponse = self.connection.call(request, 9, 20_000)
        if response.error_code == E.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return self.join(**options)
        if not response.error_code:
            self.member_id, self.generation_id = response.member_id, response.generation_id
        return response

    def sync(self, given: Numbers | None = None, data: bytes | None = None, **options: Any) -> SyncGroupResponse:
        """SyncGroup; `given` is what a leader gives itself, `data` what its assignor adds."""
        assignments = []
        if given is not None:
            content = assignment.ConsumerProtocolAssignment(
                assigned_partitions=[assignment.TopicPartition(topic=TOPIC, partitions=sorted(given))],
                user_data=data,
            )
            assignments = [SyncGroupRequestAssignment(member_id=self.member_id, assignment=content.encode_versioned(3))]
        request = SyncGroupRequest(
            **{
                "group_id": self.group,
                "generation_id": self.generation_id,
                "member_id": self.member_id,
                "group_instance_id": self.options.get("group_instance_id"),
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": assignments,
                **options,
            }
        )
        response: SyncGroupResponse = self.connection.call(request, 5, 20_000)
        if not response.error_code:
            found = assignment.ConsumerProtocolAssignment.decode_versioned(bytes(response.assignment))
            self.owned = {number for topic in found.assigned_partitions for number in topic.partitions}
        return response

    def beat(self, **options: Any) -> E:
        request = HeartbeatRequest(
            **{
                "group_id": self.group,
                "generation_id": self.generation_id,
                "member_id": self.member_id,
                "group_instance_id": self.options.get("group_instance_id"),
                **options,
            }
        )
        return E.of(self.connection.call(request, 4, 20_000).error_code)

    def step(self) -> None:
        """What a client does: beat, and join and sync again when told to."""
        if self.beat() is E.REBALANCE_IN_PROGRESS:
            assert self.join().error_code == 0
            assert self.sync().error_code in (0, E.REBALANCE_IN_PROGRESS)

    def leave(self) -> E:
        request = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=self.member_id)])
        response = self.connection.call(request, 5, 20_000)
        return E.of(response.error_code or response.members[0].error_code)

    def make_stable(self) -> None:
        """Alone in a classic group, with all partitions."""
        assert self.join().error_code == 0
        assert self.sync({0, 1, 2, 3}).error_code == 0
