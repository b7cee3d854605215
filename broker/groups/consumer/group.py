"""A group of the consumer protocol: what its records say. All access is under `lock`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from broker.groups.base import GroupBase, GroupOverview, GroupType
from broker.groups.consumer.assignors.spec import NO_PARTITIONS, Partitions, TopicIdPartition
from broker.groups.consumer.model import (
    NOTHING_YET,
    CurrentAssignment,
    MemberState,
    ResolvedRegex,
    Subscription,
    TopicMetadata,
)
from broker.groups.consumer.states import ConsumerGroupState
from broker.groups.offsets.committer import Committer
from broker.groups.offsets.group_offsets import commit_timestamp
from broker.groups.records import keys
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from timer.clock import Clock
from timer.purgatory import DelayedOperation

Done = Callable[[ErrorCode], None]


class PendingWrite:
    """A batch on its way; `waiters` are told what becomes of it."""

    __slots__ = ("waiters",)

    def __init__(self, waiter: Done) -> None:
        self.waiters = [waiter]


class ConsumerGroup(GroupBase):
    """Only the changes of `changes.py` alter what is stored; they go through the `put_` methods.

    `epoch` grows with every change of what the assignment depends on; the target assignment was made at
    `target_epoch`. `owners` tells who holds a partition, assigned or not given up yet.
    """

    type = GroupType.CONSUMER

    def __init__(self, group_id: str, successor_of: GroupBase | None = None) -> None:
        super().__init__(group_id, successor_of)
        self.epoch = 0
        self.target_epoch = 0
        self.topics: Mapping[str, TopicMetadata] = {}
        self.members: dict[str, Subscription] = {}
        self.targets: dict[str, Partitions] = {}
        self.static_members: dict[str, str] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.owners: dict[TopicIdPartition, str] = {}
        # Not stored: the layout of topics that the group was compared with, whether a record of the classic group that
        # it was is still to be deleted, timers, the last write on its way, and whether a later leader may be without a
        # part of what is stored.
        self.seen_layout: int | None = None
        self.classic_record_stands = successor_of is not None and bool(successor_of.record_keys())
        self.sessions: dict[str, DelayedOperation] = {}
        self.deadlines: dict[str, DelayedOperation] = {}
        self.pending: PendingWrite | None = None
        self.is_unsettled = False
        self._current: dict[str, CurrentAssignment] = {}
        self._subscribers: Counter[str] = Counter()
        self._regex_users: Counter[str] = Counter()
        self._is_dead = False

    @classmethod
    def make(cls, group_id: str, clock: Clock, successor_of: GroupBase | None = None) -> ConsumerGroup:
        return cls(group_id, successor_of)

    def on_loaded_uncommitted(self) -> None:
        """Heartbeats are answered when a later write is acknowledged, and with it what was loaded."""
        self.is_unsettled = True

    # --- what is stored ---

    def put_member(self, member_id: str, subscription: Subscription | None) -> Subscription | None:
        """Set (or with None remove) who a member is; returns what was there."""
        before = self.members.get(member_id)
        if before is not None:
            _uncount(self._subscribers, before.topics)
            _uncount(self._regex_users, [before.regex] if before.regex else ())
            if before.instance_id is not None and self.static_members.get(before.instance_id) == member_id:
                del self.static_members[before.instance_id]
        if subscription is None:
            self.members.pop(member_id, None)
            return before
        self.members[member_id] = subscription
        self._subscribers.update(subscription.topics)
        if subscription.regex:
            self._regex_users[subscription.regex] += 1
        if subscription.instance_id is not None:
            self.static_members[subscription.instance_id] = member_id
        return before

    def put_current(self, member_id: str, current: CurrentAssignment | None) -> CurrentAssignment | None:
        """Set what a member has; returns what was there."""
        before = self._current.get(member_id)
        for partition in before.held if before is not None else ():
            if self.owners.get(partition) == member_id:
                del self.owners[partition]
        if current is None:
            self._current.pop(member_id, None)
        else:
            self._current[member_id] = current
            for partition in current.held:
                self.owners[partition] = member_id
        return before

    def put_target(self, member_id: str, target: Partitions | None) -> Partitions | None:
        """Set what a member should have; returns what was there."""
        before = self.targets.get(member_id)
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target
        return before

    def put_regex(self, regex: str, resolved: ResolvedRegex | None) -> ResolvedRegex | None:
        """Set the topics of a regular expression; returns what was there."""
        before = self.regexes.get(regex)
        if resolved is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = resolved
        return before

    def record_keys(self) -> list[bytes]:
        group_id = self.group_id
        if not self.epoch:
            return [keys.classic_group(group_id)] if self.classic_record_stands else []
        return [
            *(keys.current(group_id, member_id) for member_id in self._current),
            *(keys.target(group_id, member_id) for member_id in self.targets),
            keys.target_epoch(group_id),
            *(keys.member(group_id, member_id) for member_id in self.members),
            *(keys.regex(group_id, regex) for regex in self.regexes),
            keys.topics(group_id),
            keys.epoch(group_id),
        ]

    def forget_strangers(self) -> None:
        """Drop what is known of ids that are not members: remains of members whose tombstones are incomplete."""
        for member_id in self.targets.keys() - self.members.keys():
            self.put_target(member_id, None)
        for member_id in self._current.keys() - self.members.keys():
            self.put_current(member_id, None)

    # --- what follows from it ---

    def current(self, member_id: str) -> CurrentAssignment:
        """What a member has; nothing before its first answer."""
        return self._current.get(member_id, NOTHING_YET)

    def target(self, member_id: str) -> Partitions:
        """What a member should have."""
        return self.targets.get(member_id, NO_PARTITIONS)

    def is_free(self, partition: TopicIdPartition) -> bool:
        """Whether nobody holds the partition."""
        return partition not in self.owners

    def is_reconciled(self, member_id: str) -> bool:
        """Whether a member has what it should have."""
        current = self.current(member_id)
        return current.state is MemberState.STABLE and current.epoch == self.target_epoch

    def uses_regex(self, regex: str) -> bool:
        return regex in self._regex_users

    @property
    def regexes_in_use(self) -> list[str]:
        return list(self._regex_users)

    def topics_of(self, member_id: str) -> frozenset[str]:
        """Names that a member subscribes to, those that its regular expression matches included."""
        subscription = self.members[member_id]
        resolved = self.regexes.get(subscription.regex) if subscription.regex else None
        return subscription.topics if resolved is None else subscription.topics | resolved.topics

    def subscribed_topics(self) -> set[str]:
        """Names that any member subscribes to, whether they exist or not."""
        names = set(self._subscribers)
        for regex in self._regex_users:
            resolved = self.regexes.get(regex)
            if resolved is not None:
                names |= resolved.topics
        return names

    def is_subscribed_to(self, topic: str) -> bool:
        if topic in self._subscribers:
            return True
        return any(topic in self.regexes[regex].topics for regex in self._regex_users if regex in self.regexes)

    def preferred_assignor(self, default: str) -> str:
        """The assignor that most members name; of several the first by name."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor)
        return min(votes, key=lambda name: (-votes[name], name)) if votes else default

    @property
    def state(self) -> ConsumerGroupState:
        if self._is_dead:
            return ConsumerGroupState.DEAD
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(map(self.is_reconciled, self.members)):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_dead(self) -> bool:
        return self._is_dead

    @property
    def is_empty(self) -> bool:
        return not self._is_dead and not self.members

    @property
    def state_name(self) -> str:
        return self.state.value

    def die(self) -> None:
        self._is_dead = True

    @property
    def is_deleted_when_replaced(self) -> bool:
        return True

    def overview(self) -> GroupOverview:
        return GroupOverview(self.group_id, self.type.value, self.state_name, self.type.value)

    # --- offsets ---

    def commit_error(self, committer: Committer) -> ErrorCode:
        """Nobody in particular may commit while the group is empty, else members at their epochs."""
        member_id, epoch = committer.member_id, committer.generation_id
        if self._is_dead:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.classic is None and not committer.knows_epochs:
            return ErrorCode.UNSUPPORTED_VERSION
        return self._epoch_error(member_id, epoch)

    def transactional_commit_error(self, committer: Committer) -> ErrorCode:
        """As for `commit_error`, but nobody in particular may commit at any time."""
        member_id, epoch = committer.member_id, committer.generation_id
        if self._is_dead:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if committer.is_anonymous or (epoch < 0 and not self.members):
            return ErrorCode.NONE
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        # Its answers have no STALE_MEMBER_EPOCH.
        return ErrorCode.NONE if epoch == self.current(member_id).epoch else ErrorCode.ILLEGAL_GENERATION

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Without member and epoch anybody may fetch."""
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        if member_id is None or member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return self._epoch_error(member_id, member_epoch)

    def _epoch_error(self, member_id: str, epoch: int) -> ErrorCode:
        if epoch == self.current(member_id).epoch:
            return ErrorCode.NONE
        is_classic = self.members[member_id].classic is not None
        return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH

    @property
    def has_subscriptions(self) -> bool:
        return True

    def expired_offsets(self, now_ms: int, retention_ms: int) -> list[TopicPartition]:
        """Offsets age from their commit, and go unless a member reads the topic."""
        return self.offsets.expired(now_ms, retention_ms, commit_timestamp, self.is_subscribed_to)

    def __repr__(self) -> str:
        return f"ConsumerGroup({self.group_id!r}, {self.state.value}, epoch={self.epoch}, members={len(self.members)})"


def _uncount(counter: Counter[str], names: frozenset[str] | list[str] | tuple[()]) -> None:
    for name in names:
        counter[name] -= 1
        if not counter[name]:
            del counter[name]
