"""The offsets of one group: committed, on their way into the log, and waiting for a transaction to end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from log.topic_partition import TopicPartition


class OffsetAndMetadata(NamedTuple):
    """What a member commits for a partition. Timestamps are wall time in ms; `expire_timestamp` only when asked for."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = -1
    expire_timestamp: int | None = None


class CommittedOffset(NamedTuple):
    """A commit and the offset of the batch in `__consumer_offsets` that holds it; the later in the log wins."""

    batch_offset: int
    value: OffsetAndMetadata


def commit_timestamp(commit: CommittedOffset) -> int:
    """The time from which an offset ages where nothing else is known."""
    return commit.value.commit_timestamp


class GroupOffsets:
    """Guarded by the group's lock.

    A commit is pending from its append until the acknowledgement. A commit of a transaction stays pending for its
    producer, first without a batch offset, until the marker.
    """

    __slots__ = ("_group_id", "committed", "pending", "pending_txn")

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self.committed: dict[TopicPartition, CommittedOffset] = {}
        self.pending: dict[TopicPartition, OffsetAndMetadata] = {}
        self.pending_txn: dict[int, dict[TopicPartition, CommittedOffset]] = {}

    def __len__(self) -> int:
        return len(self.committed)

    @property
    def is_empty(self) -> bool:
        """No offsets and none on their way."""
        return not (self.committed or self.pending or self.pending_txn)

    def get(self, partition: TopicPartition) -> OffsetAndMetadata | None:
        found = self.committed.get(partition)
        return None if found is None else found.value

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Whether a commit of the partition has not been decided yet."""
        if partition in self.pending:
            return True
        return any(partition in of_producer for of_producer in self.pending_txn.values())

    # --- plain commits ---

    def prepare(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self.pending.update(offsets)

    def appended(self, partition: TopicPartition, commit: CommittedOffset) -> None:
        """The commit is in the log and acknowledged."""
        staged = self.pending.get(partition)
        if staged is None:
            return  # removed meanwhile, because the topic was deleted
        self._take(partition, commit)
        if staged is commit.value:
            del self.pending[partition]

    def failed(self, partition: TopicPartition, value: OffsetAndMetadata) -> None:
        if self.pending.get(partition) is value:
            del self.pending[partition]

    # --- commits of a transaction ---

    def prepare_txn(self, producer_id: int, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        of_producer = self.pending_txn.setdefault(producer_id, {})
        for partition, value in offsets.items():
            of_producer[partition] = CommittedOffset(-1, value)

    def appended_txn(self, producer_id: int, partition: TopicPartition, commit: CommittedOffset) -> None:
        of_producer = self.pending_txn.get(producer_id)
        if of_producer is not None and partition in of_producer and of_producer[partition].value is commit.value:
            of_producer[partition] = commit

    def failed_txn(self, producer_id: int, partition: TopicPartition, value: OffsetAndMetadata) -> None:
        of_producer = self.pending_txn.get(producer_id)
        if of_producer is None:
            return
        staged = of_producer.get(partition)
        if staged is not None and staged.value is value:
            del of_producer[partition]
        if not of_producer:
            del self.pending_txn[producer_id]

    def complete_txn(self, producer_id: int, commit: bool) -> None:
        """The marker has come. Raises ValueError for an offset that was never appended."""
        for partition, staged in self.pending_txn.pop(producer_id, {}).items():
            if not commit:
                continue
            if staged.batch_offset < 0:
                raise ValueError(f"group {self._group_id}: {partition} of producer {producer_id} was not appended")
            self._take(partition, staged)

    # --- removal ---

    def remove(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Drop partitions, pending commits included; returns what was committed."""
        removed = {}
        for partition in partitions:
            self.pending.pop(partition, None)
            for producer_id in list(self.pending_txn):
                of_producer = self.pending_txn[producer_id]
                of_producer.pop(partition, None)
                if not of_producer:
                    del self.pending_txn[producer_id]
            gone = self.committed.pop(partition, None)
            if gone is not None:
                removed[partition] = gone.value
        return removed

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        base_timestamp: Callable[[CommittedOffset], int],
        subscribed: Callable[[str], bool] | None = None,
    ) -> list[TopicPartition]:
        """Partitions whose offset is too old: by its own expire timestamp, else by the retention since its base time.

        Partitions of topics for which `subscribed` holds, and those with a pending commit, are kept.
        """
        found = []
        for partition, commit in self.committed.items():
            if partition in self.pending or (subscribed is not None and subscribed(partition.topic)):
                continue
            expire = commit.value.expire_timestamp
            due = base_timestamp(commit) + retention_ms if expire is None else expire
            if now_ms >= due:
                found.append(partition)
        return found

    def _take(self, partition: TopicPartition, commit: CommittedOffset) -> None:
        current = self.committed.get(partition)
        if current is None or current.batch_offset < commit.batch_offset:
            self.committed[partition] = commit
