"""Committing, fetching and deleting the offsets of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from broker.groups.base import GroupBase
from broker.groups.metadata_manager import GroupMetadataManager
from broker.groups.offsets.commits import OffsetCommits, Offsets, Results
from broker.groups.offsets.committer import Committer, TransactionalProducer
from broker.groups.offsets.group_offsets import OffsetAndMetadata
from broker.groups.offsets.removal import OffsetRemoval
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode

_NO_OFFSET = OffsetAndMetadata(-1)


class FetchedOffset(NamedTuple):
    """An offset as OffsetFetch answers it; -1 without one."""

    value: OffsetAndMetadata
    error: ErrorCode = ErrorCode.NONE


class OffsetService:
    """The offsets' side of the coordinator. Thread-safe.

    `note_commit` is told of every member that commits, under the group's lock.
    """

    def __init__(
        self,
        owned: GroupMetadataManager,
        commits: OffsetCommits,
        removal: OffsetRemoval,
        note_commit: Callable[[GroupBase, str], None],
        serves_consumer_protocol: bool,
    ) -> None:
        self._owned = owned
        self._commits = commits
        self._removal = removal
        self._note_commit = note_commit
        self._serves_consumer_protocol = serves_consumer_protocol

    # --- committing ---

    def commit(self, committer: Committer, offsets: Offsets, callback: Callable[[Results], None]) -> None:
        """OffsetCommit; the callback runs when the offsets are stored with the required acknowledgements."""
        group, error = self._group_for_commit(committer)
        if group is None:
            callback(dict.fromkeys(offsets, error))
            return
        with group.lock:
            error = group.commit_error(committer)
            if error is ErrorCode.NONE:
                self._note_commit(group, committer.member_id)
                self._commits.commit(group, offsets, callback)
                return
        callback(dict.fromkeys(offsets, error))

    def _group_for_commit(self, committer: Committer) -> tuple[GroupBase | None, ErrorCode]:
        error = self._owned.status_error(committer.group_id, allow_empty_id=True)
        if error is not ErrorCode.NONE:
            return None, error
        group = self._owned.find(committer.group_id)
        if group is None:
            if committer.generation_id >= 0:
                speaks_newer = committer.knows_epochs and self._serves_consumer_protocol
                return None, ErrorCode.GROUP_ID_NOT_FOUND if speaks_newer else ErrorCode.ILLEGAL_GENERATION
            group = self._owned.ensure(committer.group_id)
        return group, ErrorCode.NOT_COORDINATOR

    def commit_in_transaction(
        self,
        committer: Committer,
        producer: TransactionalProducer,
        offsets: Offsets,
        callback: Callable[[Results], None],
    ) -> None:
        """TxnOffsetCommit; the offsets take effect with the transaction's commit marker."""
        error = self._owned.status_error(committer.group_id)
        group = self._owned.ensure(committer.group_id) if error is ErrorCode.NONE else None
        if group is None:
            callback(dict.fromkeys(offsets, ErrorCode.NOT_COORDINATOR if error is ErrorCode.NONE else error))
            return
        with group.lock:
            error = group.transactional_commit_error(committer)
            if error is ErrorCode.NONE:
                self._commits.commit(group, offsets, callback, producer)
                return
        callback(dict.fromkeys(offsets, error))

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
        error = self._owned.status_error(group_id, allow_empty_id=True)
        if error is not ErrorCode.NONE:
            return error, {}
        group = self._owned.find(group_id)
        if group is None:
            return self._fetch_without_group(group_id, partitions)
        with group.lock:
            if group.is_replaced:
                # It changed its protocol since; the successor has the same lock.
                group = self._owned.find(group_id)
            if group is None or group.is_dead:
                return self._fetch_without_group(group_id, partitions)
            error = group.fetch_error(member_id, member_epoch)
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

    def _fetch_without_group(
        self, group_id: str, partitions: Iterable[TopicPartition] | None
    ) -> tuple[ErrorCode, dict[TopicPartition, FetchedOffset]]:
        """No offsets, unless the group went to another coordinator since it was checked: its offsets are there.

        Kafka answers "no offset" then too, upon which a consumer begins anew.
        """
        error = self._owned.ownership_error(group_id)
        if error is not ErrorCode.NONE:
            return error, {}
        return error, dict.fromkeys(partitions or (), FetchedOffset(_NO_OFFSET))

    # --- deleting ---

    def delete(self, group_id: str, partitions: list[TopicPartition]) -> tuple[ErrorCode, Results]:
        """OffsetDelete: an empty group loses them all, a running consumer group those of topics it does not read."""
        error = self._owned.status_error(group_id)
        if error is not ErrorCode.NONE:
            return error, {}
        group = self._owned.find(group_id)
        if group is None:
            return self._missing(group_id), {}
        with group.lock:
            if group.is_dead:
                return self._missing(group_id), {}
            if not group.is_empty and not group.has_subscriptions:
                return ErrorCode.NON_EMPTY_GROUP, {}
            read = set() if group.is_empty else {tp for tp in partitions if group.is_subscribed_to(tp.topic)}
            self._removal.delete_offsets(group, [tp for tp in partitions if tp not in read])
        return ErrorCode.NONE, {
            tp: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if tp in read else ErrorCode.NONE for tp in partitions
        }

    def _missing(self, group_id: str) -> ErrorCode:
        error = self._owned.ownership_error(group_id)
        return ErrorCode.GROUP_ID_NOT_FOUND if error is ErrorCode.NONE else ErrorCode.NOT_COORDINATOR
