"""A group of the classic protocol: its members, its generation and its state. All access is under `lock`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from broker.groups.base import GroupBase, GroupOverview, GroupType
from broker.groups.classic.member import Member
from broker.groups.classic.requests import (
    JoinCallback,
    JoinMember,
    JoinResult,
    Protocols,
    SyncCallback,
    SyncResult,
)
from broker.groups.classic.states import TABLE, Effect, Event, GroupState, IllegalTransitionError
from broker.groups.offsets.committer import Committer
from broker.groups.offsets.group_offsets import commit_timestamp
from broker.groups.records import keys
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode, ProtocolError
from network.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from timer.clock import Clock

CONSUMER_PROTOCOL_TYPE = "consumer"


class ClassicGroup(GroupBase):
    """State of one group.

    `pending_members` are ids that were handed out and have not joined yet; `pending_sync` are members of this
    generation whose SyncGroup has not come. `subscribed_topics` is None while unknown. `current_state_timestamp` is
    wall time in ms, None when it is not known (loaded from an old record).
    """

    type = GroupType.CLASSIC

    def __init__(self, group_id: str, clock: Clock, successor_of: GroupBase | None = None) -> None:
        super().__init__(group_id, successor_of)
        self._clock = clock
        self._state = GroupState.EMPTY
        self.current_state_timestamp: int | None = clock.wall_ms()
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.new_member_added = False
        self.subscribed_topics: set[str] | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: set[str] = set()
        self.pending_sync: set[str] = set()
        # How many members support each protocol.
        self._supported: dict[str, int] = {}
        self._awaiting_join = 0

    @classmethod
    def make(cls, group_id: str, clock: Clock, successor_of: GroupBase | None = None) -> ClassicGroup:
        return cls(group_id, clock, successor_of)

    # --- state ---

    @property
    def state(self) -> GroupState:
        return self._state

    def take(self, event: Event) -> Effect:
        """Go to the next state of the table, and return what is to be done about it.

        Raises IllegalTransitionError when the table does not have the event for this state, and changes nothing.
        """
        found = TABLE[self._state].get(event)
        if found is None:
            raise IllegalTransitionError(f"group {self.group_id}: {event.name} in {self._state.value}")
        effect, state = found
        if state is not self._state:
            self._state = state
            self.current_state_timestamp = self._clock.wall_ms()
        return effect

    def is_in(self, *states: GroupState) -> bool:
        return self._state in states

    def on_loaded_uncommitted(self) -> None:
        pass  # As with Apache Kafka: with the next coordinator its members make another generation.

    @property
    def is_dead(self) -> bool:
        return self._state is GroupState.DEAD

    @property
    def is_empty(self) -> bool:
        return self._state is GroupState.EMPTY

    @property
    def state_name(self) -> str:
        return self._state.value

    def die(self) -> None:
        self.take(Event.REMOVED)

    def record_keys(self) -> list[bytes]:
        """None before the first generation ended: only then a record is written."""
        return [keys.classic_group(self.group_id)] if self.generation_id > 0 else []

    @property
    def is_deleted_when_replaced(self) -> bool:
        return False

    def overview(self) -> GroupOverview:
        return GroupOverview(self.group_id, self.protocol_type or "", self._state.value, self.type.value)

    # --- members ---

    def add(self, member: Member, callback: JoinCallback | None = None) -> None:
        """Take a member in. The first of an empty group fixes the protocol type and leads."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if member.group_instance_id is not None:
            if member.group_instance_id in self.static_members:
                raise AssertionError(f"instance {member.group_instance_id} is in group {self.group_id} already")
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._note_protocols(member)
        self._set_join_callback(member, callback)
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Take a member out; another becomes leader if it led."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._forget_protocols(member)
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
            if member.is_awaiting_join:
                self._awaiting_join -= 1
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)
        return member

    def update_member(
        self,
        member: Member,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        callback: JoinCallback | None,
    ) -> None:
        self._forget_protocols(member)
        member.protocols = protocols
        self._note_protocols(member)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._set_join_callback(member, callback)

    def replace_static_member(self, instance_id: str, old_id: str, new_id: str) -> Member:
        """Give a static member a new id; whoever waits under the old one is answered FENCED_INSTANCE_ID."""
        member = self.members.pop(old_id)
        self.answer_join(member, JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_id))
        self.answer_sync(member, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        member.member_id = new_id
        self.members[new_id] = member
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.static_members[instance_id] = new_id
        if old_id in self.pending_sync:
            self.pending_sync.discard(old_id)
            self.pending_sync.add(new_id)
        return member

    def answer_join(self, member: Member, result: JoinResult) -> bool:
        """Answer a waiting JoinGroup; False if the member does not wait for one."""
        callback = member.join_callback
        if callback is None:
            return False
        self._set_join_callback(member, None)
        callback(result)
        return True

    def answer_sync(self, member: Member, result: SyncResult) -> bool:
        """Answer a waiting SyncGroup; False if the member does not wait for one."""
        callback: SyncCallback | None = member.sync_callback
        if callback is None:
            return False
        member.sync_callback = None
        callback(result)
        return True

    def _set_join_callback(self, member: Member, callback: JoinCallback | None) -> None:
        self._awaiting_join += (callback is not None) - (member.join_callback is not None)
        member.join_callback = callback

    def _note_protocols(self, member: Member) -> None:
        for name, _ in member.protocols:
            self._supported[name] = self._supported.get(name, 0) + 1

    def _forget_protocols(self, member: Member) -> None:
        for name, _ in member.protocols:
            self._supported[name] -= 1
            if not self._supported[name]:
                del self._supported[name]

    def member_error(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Whether the sender of a request is the member that it says it is."""
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def request_error(self, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        """Whether the sender is a member, and of this generation."""
        if self._state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.member_error(member_id, group_instance_id)
        if error is ErrorCode.NONE and generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    # --- offsets ---

    def commit_error(self, committer: Committer) -> ErrorCode:
        error = self.transactional_commit_error(committer)
        if error is not ErrorCode.NONE or self._state is GroupState.EMPTY:
            return error
        if committer.is_anonymous:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self._state is GroupState.COMPLETING_REBALANCE:
            # The member has joined but not been given its partitions: it can't know what it commits.
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def transactional_commit_error(self, committer: Committer) -> ErrorCode:
        is_anybody = committer.is_anonymous or (committer.generation_id < 0 and self._state is GroupState.EMPTY)
        if is_anybody and self._state is not GroupState.DEAD:
            return ErrorCode.NONE
        return self.request_error(committer.member_id, committer.group_instance_id, committer.generation_id)

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def expired_offsets(self, now_ms: int, retention_ms: int) -> list[TopicPartition]:
        """An empty group's offsets age from when it became empty (from their commit if that is unknown), those of a
        simple consumer from their commit. A running consumer group loses only those of topics that no member reads.
        """
        offsets = self.offsets
        if self.protocol_type is None:
            return offsets.expired(now_ms, retention_ms, commit_timestamp)
        if self._state is GroupState.EMPTY:
            since = self.current_state_timestamp
            return offsets.expired(now_ms, retention_ms, commit_timestamp if since is None else lambda _: since)
        if self.has_subscriptions and self.subscribed_topics is not None and self._state is GroupState.STABLE:
            return offsets.expired(now_ms, retention_ms, commit_timestamp, self.is_subscribed_to)
        return []

    @property
    def has_subscriptions(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    # --- what is known of the whole ---

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def awaiting_join(self) -> int:
        """Members whose JoinGroup waits for its answer."""
        return self._awaiting_join

    @property
    def has_all_members_joined(self) -> bool:
        return self._awaiting_join == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest of the members' rebalance timeouts; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def not_yet_rejoined(self) -> list[Member]:
        return [member for member in self.members.values() if not member.is_awaiting_join]

    def elect_joined_leader(self) -> bool:
        """Let a member that has joined lead; False if there is none."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is not None and leader.is_awaiting_join:
            return True
        for member in self.members.values():
            if member.is_awaiting_join:
                self.leader_id = member.member_id
                return True
        return False

    def supports_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether somebody with these protocols may join."""
        names = list(names)
        if self._state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and any(
            self._supported.get(name) == len(self.members) for name in names
        )

    def select_protocol(self) -> str:
        """The vote: each member names its first choice among those all support. Raises ValueError without members."""
        if not self.members:
            raise ValueError(f"group {self.group_id} has no members to vote")
        count = len(self.members)
        candidates = {name for name, supporters in self._supported.items() if supporters == count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def next_generation(self) -> None:
        """Begin a generation of the members that are there."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        self.pending_sync.clear()

    def join_members(self) -> tuple[JoinMember, ...]:
        """All members with their metadata for the elected protocol."""
        protocol = self.protocol_name
        assert protocol is not None
        return tuple(
            JoinMember(member.member_id, member.group_instance_id, member.metadata(protocol))
            for member in self.members.values()
        )

    def compute_subscribed_topics(self) -> set[str] | None:
        """Topics that the members of a consumer group subscribe to; None when that cannot be known."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if not self.members:
            return set()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        try:
            for member in self.members.values():
                topics.update(subscription_topics(member.metadata(self.protocol_name)))
        except (ProtocolError, KeyError, ValueError, IndexError):
            return None
        return topics

    def is_subscribed_to(self, topic: str) -> bool:
        """An unknown subscription counts as one to every topic."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self.members.values()))

    def __repr__(self) -> str:
        state, generation = self._state.value, self.generation_id
        return f"ClassicGroup({self.group_id!r}, {state}, generation={generation}, members={self.size})"


def subscription_topics(metadata: bytes) -> list[str]:
    """Topics in the metadata of a consumer protocol: the fields of version 0 stand first in every version."""
    if len(metadata) < 2:
        raise ProtocolError("a subscription needs a version")
    if int.from_bytes(metadata[:2], "big", signed=True) < 0:
        raise ProtocolError("a subscription has a negative version")
    subscription, _ = ConsumerProtocolSubscription.decode_from(metadata, 2, 0)
    return list(subscription.topics)
