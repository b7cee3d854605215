"""Committing, fetching and deleting the offsets of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from broker.groups.base import GroupBase
from broker.groups.classic.group import CONSUMER_PROTOCOL_TYPE, Group
from broker.groups.classic.states import GroupState
from broker.groups.consumer import offsets as consumer_offsets
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.offsets.group_offsets import OffsetAndMetadata
from broker.groups.store import TransactionalProducer
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.groups.coordinator import GroupCoordinator

Offsets = dict[TopicPartition, OffsetAndMetadata]
Results = dict[TopicPartition, ErrorCode]

_NO_OFFSET = OffsetAndMetadata(-1)


class Committer(NamedTuple):
    """Who commits; all unset means nobody in particular (a simple consumer or an administrator).

    `generation_id` is the member epoch where the group is one of the consumer protocol, whose members must commit in
    a version that knows epochs.
    """

    group_id: str
    member_id: str = ""
    group_instance_id: str | None = None
    generation_id: int = -1
    knows_epochs: bool = False

    @property
    def is_anonymous(self) -> bool:
        return self.generation_id < 0 and not self.member_id and self.group_instance_id is None


class FetchedOffset(NamedTuple):
    """An offset as OffsetFetch answers it; -1 without one."""

    value: OffsetAndMetadata
    error: ErrorCode = ErrorCode.NONE


class OffsetService:
    """The offsets' side of the coordinator. Thread-safe."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        self._store = coordinator.store

    # --- committing ---

    def commit(self, committer: Committer, offsets: Offsets, callback: Callable[[Results], None]) -> None:
        """OffsetCommit; the callback runs when the offsets are stored with the required acknowledgements."""
        group, error = self._group_for_commit(committer, allow_empty_id=True)
        if group is None:
            callback(dict.fromkeys(offsets, error))
            return
        with group.lock:
            error = self._commit_error(group, committer)
            if error is ErrorCode.NONE:
                if isinstance(group, Group) and group.is_in(GroupState.STABLE, GroupState.PREPARING_REBALANCE):
                    member = group.members.get(committer.member_id)
                    if member is not None:
                        self._coordinator.rebalancer.restart_session(group, member)
                self._store.commit(group, offsets, callback)
                return
        callback(dict.fromkeys(offsets, error))

    def commit_in_transaction(
        self,
        committer: Committer,
        producer: TransactionalProducer,
        offsets: Offsets,
        callback: Callable[[Results], None],
    ) -> None:
        """TxnOffsetCommit; the offsets take effect with the transaction's commit marker."""
        error = self._coordinator.status_error(committer.group_id)
        group = self._store.get_or_add_any(committer.group_id) if error is ErrorCode.NONE else None
        if group is None:
            callback(dict.fromkeys(offsets, ErrorCode.NOT_COORDINATOR if error is ErrorCode.NONE else error))
            return
        with group.lock:
            error = self._transactional_commit_error(group, committer)
            if error is ErrorCode.NONE:
                self._store.commit(group, offsets, callback, producer)
                return
        callback(dict.fromkeys(offsets, error))

    def _group_for_commit(self, committer: Committer, *, allow_empty_id: bool) -> tuple[GroupBase | None, ErrorCode]:
        error = self._coordinator.status_error(committer.group_id, allow_empty_id=allow_empty_id)
        if error is not ErrorCode.NONE:
            return None, error
        group = self._store.get_any(committer.group_id)
        if group is None:
            if committer.generation_id >= 0:
                speaks_newer = committer.knows_epochs and self._coordinator.serves_consumer_protocol
                return None, ErrorCode.GROUP_ID_NOT_FOUND if speaks_newer else ErrorCode.ILLEGAL_GENERATION
            group = self._store.get_or_add_any(committer.group_id)
        return group, ErrorCode.NOT_COORDINATOR

    def _commit_error(self, group: GroupBase, committer: Committer) -> ErrorCode:
        if isinstance(group, ConsumerGroup):
            return consumer_offsets.commit_error(
                group, committer.member_id, committer.generation_id, committer.knows_epochs
            )
        assert isinstance(group, Group)
        error = self._member_commit_error(group, committer)
        if error is not ErrorCode.NONE or group.is_in(GroupState.EMPTY):
            return error
        if committer.is_anonymous:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.is_in(GroupState.COMPLETING_REBALANCE):
            # The member has joined but not been given its partitions: it can't know what it commits.
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _transactional_commit_error(self, group: GroupBase, committer: Committer) -> ErrorCode:
        if isinstance(group, ConsumerGroup):
            if committer.is_anonymous and not group.is_dead:
                return ErrorCode.NONE
            return consumer_offsets.transactional_commit_error(group, committer.member_id, committer.generation_id)
        assert isinstance(group, Group)
        return self._member_commit_error(group, committer)

    def _member_commit_error(self, group: Group, committer: Committer) -> ErrorCode:
        if group.is_in(GroupState.DEAD):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if committer.is_anonymous or (committer.generation_id < 0 and group.is_in(GroupState.EMPTY)):
            return ErrorCode.NONE
        error = group.member_error(committer.member_id, committer.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        return ErrorCode.NONE if committer.generation_id == group.generation_id else ErrorCode.ILLEGAL_GENERATION

    # --- fetching ---

    def fetch(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None,
        require_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> tuple[ErrorCode, dict[TopicPartition, FetchedOffset]]:
        """OffsetFetch of the given partitions, or of all that have an offset (None).

        A group of the consumer protocol checks member and epoch, if there are any. With `require_stable` a partition
        with an undecided commit has UNSTABLE_OFFSET_COMMIT.
        """
        error = self._coordinator.status_error(group_id, allow_empty_id=True)
        if error is not ErrorCode.NONE:
            return error, {}
        group = self._store.get_any(group_id)
        if group is None:
            return error, dict.fromkeys(partitions or (), FetchedOffset(_NO_OFFSET))
        with group.lock:
            if group.is_dead:
                return error, dict.fromkeys(partitions or (), FetchedOffset(_NO_OFFSET))
            if isinstance(group, ConsumerGroup):
                error = consumer_offsets.fetch_error(group, member_id, member_epoch)
                if error is not ErrorCode.NONE:
                    return error, {}
            offsets = group.offsets
            wanted = list(offsets.committed) if partitions is None else partitions
            unstable = FetchedOffset(_NO_OFFSET, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            return error, {
                partition: unstable
                if require_stable and offsets.is_unstable(partition)
                else FetchedOffset(offsets.get(partition) or _NO_OFFSET)
                for partition in wanted
            }

    # --- deleting ---

    def delete(self, group_id: str, partitions: list[TopicPartition]) -> tuple[ErrorCode, Results]:
        """OffsetDelete: an empty group loses them all, a running consumer group those of topics it does not read."""
        error = self._coordinator.status_error(group_id)
        if error is not ErrorCode.NONE:
            return error, {}
        group = self._store.get_any(group_id)
        if group is None:
            return self._missing(group_id), {}
        results: Results = {}
        with group.lock:
            if group.is_dead:
                return self._missing(group_id), {}
            subscribed: Callable[[str], bool]
            if group.is_empty:
                subscribed = lambda _: False  # noqa: E731
            elif isinstance(group, ConsumerGroup) or (
                isinstance(group, Group) and group.protocol_type == CONSUMER_PROTOCOL_TYPE
            ):
                subscribed = group.is_subscribed_to
            else:
                return ErrorCode.NON_EMPTY_GROUP, {}
            for partition in partitions:
                refused = subscribed(partition.topic)
                results[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if refused else ErrorCode.NONE
            deleted = [partition for partition, result in results.items() if result is ErrorCode.NONE]
            removed = self._store.remove_offsets([group], lambda _: deleted)
        self._store.meters.offset_deletions.mark(removed)
        return ErrorCode.NONE, results

    def _missing(self, group_id: str) -> ErrorCode:
        error = self._store.ownership_error(group_id)
        return ErrorCode.GROUP_ID_NOT_FOUND if error is ErrorCode.NONE else ErrorCode.NOT_COORDINATOR
