"""What the coordinator asks of a group, whichever protocol it speaks."""

from __future__ import annotations

from _thread import RLock
from abc import ABC, abstractmethod
from enum import Enum
from threading import RLock as new_lock
from typing import ClassVar, NamedTuple, Protocol, Self, TypeVar

from broker.groups.offsets.committer import Committer
from broker.groups.offsets.group_offsets import GroupOffsets
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from timer.clock import Clock


class GroupType(Enum):
    """The protocols, by their names on the wire."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class GroupOverview(NamedTuple):
    """A group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class GroupBase(ABC):
    """All access is under `lock`.

    A group that became one of the other protocol hands its lock and its offsets on: `is_replaced`, and dead as itself.
    """

    type: ClassVar[GroupType]

    group_id: str
    lock: RLock
    offsets: GroupOffsets
    is_replaced: bool

    def __init__(self, group_id: str, successor_of: GroupBase | None = None) -> None:
        self.group_id = group_id
        self.is_replaced = False
        if successor_of is None:
            self.lock = new_lock()
            self.offsets = GroupOffsets(group_id)
        else:
            self.lock = successor_of.lock
            self.offsets = successor_of.offsets

    @classmethod
    @abstractmethod
    def make(cls, group_id: str, clock: Clock, successor_of: GroupBase | None = None) -> Self:
        """An empty group; `successor_of` is one of the other protocol, in whose place it comes."""

    # --- life ---

    @abstractmethod
    def on_loaded_uncommitted(self) -> None:
        """It was loaded from records of which the next coordinator may be without the last."""

    @property
    @abstractmethod
    def is_dead(self) -> bool:
        """Unloaded, deleted or replaced."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """No members, and not dead."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state's name on the wire."""

    @abstractmethod
    def die(self) -> None:
        """The end of a group that nobody waits for."""

    @abstractmethod
    def record_keys(self) -> list[bytes]:
        """Keys of the group's own records in the log, which tombstones must name to delete it."""

    @property
    @abstractmethod
    def is_deleted_when_replaced(self) -> bool:
        """Whether its records go at once when one of the other protocol takes its place.

        If not, they go with the first records of the successor.
        """

    @abstractmethod
    def overview(self) -> GroupOverview:
        """What ListGroups shows."""

    # --- offsets: who may commit and fetch them, and how long they are kept ---

    @abstractmethod
    def commit_error(self, committer: Committer) -> ErrorCode:
        """What OffsetCommit is refused with, or NONE."""

    @abstractmethod
    def transactional_commit_error(self, committer: Committer) -> ErrorCode:
        """What TxnOffsetCommit is refused with, or NONE."""

    @abstractmethod
    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """What OffsetFetch is refused with, or NONE."""

    @property
    @abstractmethod
    def has_subscriptions(self) -> bool:
        """Whether the members' subscriptions are topics, so that `is_subscribed_to` can be asked."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""

    @abstractmethod
    def expired_offsets(self, now_ms: int, retention_ms: int) -> list[TopicPartition]:
        """Partitions whose offsets the retention ends (KIP-211)."""


G = TypeVar("G", bound=GroupBase)
G_contra = TypeVar("G_contra", bound=GroupBase, contravariant=True)


class GroupKeeper(Protocol[G_contra]):
    """What the coordinator of one protocol does with its groups when the partition moves or a member commits."""

    def on_loaded(self, group: G_contra) -> None:
        """The group was read from the log: its members' sessions begin anew."""

    def on_unloaded(self, group: G_contra) -> None:
        """The group is another coordinator's, or gone: nobody is left waiting."""

    def on_commit(self, group: G_contra, member_id: str) -> None:
        """A member has committed offsets; called under the group's lock."""
