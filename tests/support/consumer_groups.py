"""Members of the consumer protocol in front of a coordinator in memory."""

from __future__ import annotations

from typing import Any

from broker.groups.consumer.assignors.spec import NO_PARTITIONS, Partitions
from broker.groups.consumer.config import ConsumerGroupConfig
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.requests import HeartbeatRequest, HeartbeatResult
from network.protocol.errors import ApiError, ErrorCode
from tests.support.groups import Answer, Coordinator
from tests.support.internal_topic import MemoryTopic

CONFIG = ConsumerGroupConfig(is_enabled=True, session_timeout_ms=10_000, heartbeat_interval_ms=1_000)


def consumer_coordinator(
    log: MemoryTopic | None = None, config: ConsumerGroupConfig = CONFIG, **options: Any
) -> Coordinator:
    return Coordinator(log, consumer_config=config, **options)


class Client:
    """A member; it gives up what an answer takes away when it beats the next time."""

    def __init__(
        self, coordinator: Coordinator, member_id: str, *topics: str, group_id: str = "g", **options: Any
    ) -> None:
        self.coordinator = coordinator
        self.group_id = group_id
        self.member_id = member_id
        self.topics = frozenset(topics)
        self.options = options
        self.epoch = 0
        self.owned: Partitions = NO_PARTITIONS

    def send(self, epoch: int, **fields: Any) -> Answer[HeartbeatResult]:
        """One request; the answer may still be on its way. Raises ApiError."""
        answer: Answer[HeartbeatResult] = Answer()
        fields = {"member_id": self.member_id, "instance_id": self.options.get("instance_id"), **fields}
        request = HeartbeatRequest(group_id=self.group_id, epoch=epoch, client_id="c", client_host="/h", **fields)
        self.coordinator.core.consumer_group_heartbeat(request, answer)
        return answer

    def join(self) -> HeartbeatResult:
        self.owned = NO_PARTITIONS
        fields = {"rebalance_timeout_ms": 5_000, "topics": self.topics, "owned": NO_PARTITIONS, **self.options}
        return self._take(self.send(0, **fields).value)

    def beat(self, **fields: Any) -> HeartbeatResult:
        return self._take(self.send(self.epoch, **{"owned": self.owned, **fields}).value)

    def leave(self, epoch: int = -1) -> HeartbeatResult:
        return self.send(epoch).value

    def _take(self, result: HeartbeatResult) -> HeartbeatResult:
        if result.error is ErrorCode.NONE:
            self.epoch = result.epoch
            if result.assignment is not None:
                self.owned = result.assignment
        return result

    def error(self, **fields: Any) -> ErrorCode:
        """What a heartbeat is refused with."""
        try:
            return self.send(self.epoch, **fields).value.error
        except ApiError as error:
            return error.code


def group_of(coordinator: Coordinator, group_id: str = "g") -> ConsumerGroup:
    group = coordinator.owned.find_as(group_id, ConsumerGroup)
    assert group is not None
    return group


def stored_state(group: ConsumerGroup) -> dict[str, Any]:
    """All of a group that its records tell."""
    return {
        "epochs": (group.epoch, group.target_epoch),
        "topics": dict(group.topics),
        "members": dict(group.members),
        "targets": dict(group.targets),
        "current": {member_id: group.current(member_id) for member_id in group.members},
        "static": dict(group.static_members),
        "regexes": dict(group.regexes),
        "owners": dict(group.owners),
        "offsets": dict(group.offsets.committed),
    }
