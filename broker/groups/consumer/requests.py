"""ConsumerGroupHeartbeat without the differences of its versions, its checks, and its result."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from broker.groups.consumer import regex
from broker.groups.consumer.assignors.spec import Partitions
from broker.groups.consumer.model import STATIC_LEAVE_EPOCH, Subscription
from network.protocol.errors import ApiError, ErrorCode


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """None (-1 for the timeout, which is in ms) means: as in the heartbeat before.

    `epoch` is 0 to join, -1 to leave and -2 for a static member that will be back. `owned` is what the member says it
    has now. `has_own_id`: the version in which clients make their ids.
    """

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""
    has_own_id: bool = True
    may_describe: Callable[[str], bool] = lambda topic: True
    """Which topics the member's regular expression may find."""

    @property
    def is_full(self) -> bool:
        """A request that says everything: the member has joined, or may have missed answers."""
        subscribes = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None

    def updated(self, before: Subscription | None) -> Subscription:
        """The member's subscription with what the request brings; who sends it is a classic member no more."""
        it = before or Subscription()
        return Subscription(
            instance_id=it.instance_id if self.instance_id is None else self.instance_id,
            rack_id=it.rack_id if self.rack_id is None else self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            topics=it.topics if self.topics is None else self.topics,
            regex=it.regex if self.regex is None else self.regex,
            rebalance_timeout_ms=it.rebalance_timeout_ms
            if self.rebalance_timeout_ms == -1
            else self.rebalance_timeout_ms,
            assignor=it.assignor if self.assignor is None else self.assignor,
        )


class HeartbeatResult(NamedTuple):
    """What the member is told; without `assignment` nothing of it has changed."""

    error: ErrorCode
    member_id: str | None = None
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


HeartbeatCallback = Callable[[HeartbeatResult], None]


def check(request: HeartbeatRequest, assignors: Collection[str]) -> None:
    """What can be said without the group. Raises ApiError."""
    for name, value in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} is empty")
    if (request.has_own_id or request.epoch != 0) and not request.member_id.strip():
        raise _invalid("MemberId is empty")
    if request.epoch == 0:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("a member that joins must give RebalanceTimeoutMs")
        if request.owned is None or request.owned:
            raise _invalid("a member that joins must give TopicPartitions, and own none")
        if request.topics is None and request.regex is None:
            raise _invalid("a member that joins must give SubscribedTopicNames or SubscribedTopicRegex")
    elif request.epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise _invalid("only a member with an InstanceId leaves for a while")
    elif request.epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch is {request.epoch}")
    if request.assignor is not None and request.assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR, f"assignor {request.assignor} is not one of {', '.join(assignors)}"
        )
    if request.regex:
        regex.check(request.regex)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
