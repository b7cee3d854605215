"""Commits on their way into the log, and those that wait for their transaction to end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from broker.coordinator.append_errors import Caller, told
from broker.groups.base import GroupBase
from broker.groups.config import GroupConfig
from broker.groups.metadata_manager import GroupMetadataManager
from broker.groups.meters import GroupMeters
from broker.groups.offsets.committer import TransactionalProducer
from broker.groups.offsets.group_offsets import CommittedOffset, OffsetAndMetadata
from broker.groups.records.writer import GroupWriter
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

Offsets = dict[TopicPartition, OffsetAndMetadata]
Results = dict[TopicPartition, ErrorCode]


class OffsetCommits:
    """Thread-safe. `_lock` guards the list of open transactions and may be taken under a group's lock."""

    def __init__(
        self, owned: GroupMetadataManager, writer: GroupWriter, config: GroupConfig, meters: GroupMeters
    ) -> None:
        self._owned = owned
        self._writer = writer
        self._config = config
        self._meters = meters
        self._lock = threading.Lock()
        # Ids of groups with offsets of an open transaction, by producer.
        self._open: dict[int, set[str]] = {}

    # --- groups come and go ---

    def on_loaded(self, groups: Iterable[GroupBase]) -> None:
        """Offsets of open transactions were loaded with the groups."""
        with self._lock:
            for group in groups:
                for producer_id in group.offsets.pending_txn:
                    self._open.setdefault(producer_id, set()).add(group.group_id)

    def on_unloaded(self, groups: Iterable[GroupBase]) -> None:
        """The groups are another coordinator's."""
        gone = {group.group_id for group in groups}
        with self._lock:
            for open_groups in self._open.values():
                open_groups.difference_update(gone)

    # --- committing ---

    def commit(
        self,
        group: GroupBase,
        offsets: Offsets,
        on_done: Callable[[Results], None],
        producer: TransactionalProducer | None = None,
    ) -> None:
        """Append offsets of one request as one batch; called under the group's lock.

        They are visible once acknowledged, those of a transaction once its marker is written. Partitions whose
        metadata is too long are refused and the others go on.
        """
        limit = self._config.offset_metadata_max_chars
        results: Results = {}
        accepted: Offsets = {}
        for partition, value in offsets.items():
            if len(value.metadata) > limit // 2 and _utf16_units(value.metadata) > limit:
                results[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                accepted[partition] = value
        if not accepted:
            on_done(results)
            return

        def done(error: ErrorCode, batch_offset: int) -> None:
            with group.lock:
                if not group.is_dead or group.is_replaced:
                    self._acknowledge(group, accepted, error, batch_offset, producer)
            if error is not ErrorCode.NONE:
                logger.debug("offsets of group %s were not stored: %s", group.group_id, error.name)
            else:
                self._meters.offset_commits.mark(len(accepted))
            results.update(dict.fromkeys(accepted, told(Caller.OFFSET_COMMIT, error)))
            on_done(results)

        if producer is None:
            group.offsets.prepare(accepted)
        else:
            with self._lock:
                self._open.setdefault(producer.producer_id, set()).add(group.group_id)
            group.offsets.prepare_txn(producer.producer_id, accepted)
        self._writer.write_offsets(group.group_id, accepted, producer, done)

    def _acknowledge(
        self,
        group: GroupBase,
        offsets: Offsets,
        error: ErrorCode,
        batch_offset: int,
        producer: TransactionalProducer | None,
    ) -> None:
        state = group.offsets
        for partition, value in offsets.items():
            commit = CommittedOffset(batch_offset, value)
            if producer is None:
                if error is ErrorCode.NONE:
                    state.appended(partition, commit)
                else:
                    state.failed(partition, value)
            elif error is ErrorCode.NONE:
                state.appended_txn(producer.producer_id, partition, commit)
            else:
                state.failed_txn(producer.producer_id, partition, value)
        if producer is not None and producer.producer_id not in state.pending_txn:
            self._close(producer.producer_id, group.group_id)

    # --- the end of a transaction ---

    def complete_transaction(self, producer_id: int, partitions: set[int], commit: bool) -> None:
        """Markers of the producer were written to these partitions: its offsets there take effect or are dropped."""
        with self._lock:
            open_groups = list(self._open.get(producer_id, ()))
        for group_id in open_groups:
            if self._owned.partition_of(group_id) not in partitions:
                continue
            group = self._owned.find(group_id)
            if group is not None:
                with group.lock:
                    if not group.is_dead or group.is_replaced:
                        group.offsets.complete_txn(producer_id, commit)
            self._close(producer_id, group_id)

    def _close(self, producer_id: int, group_id: str) -> None:
        with self._lock:
            group_ids = self._open.get(producer_id)
            if group_ids is not None:
                group_ids.discard(group_id)
                if not group_ids:
                    del self._open[producer_id]


def _utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
