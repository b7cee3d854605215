"""Removing offsets, and groups that are empty of everything: by retention (KIP-211), with their topics, by request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable

from broker.groups.base import GroupBase
from broker.groups.config import GroupConfig
from broker.groups.metadata_manager import GroupMetadataManager
from broker.groups.meters import GroupMeters
from broker.groups.records import keys
from broker.groups.records.writer import GroupWriter
from log.topic_partition import TopicPartition
from timer.clock import Clock

logger = logging.getLogger(__name__)


class OffsetRemoval:
    """Thread-safe."""

    def __init__(
        self, owned: GroupMetadataManager, writer: GroupWriter, clock: Clock, config: GroupConfig, meters: GroupMeters
    ) -> None:
        self._owned = owned
        self._writer = writer
        self._clock = clock
        self._config = config
        self._meters = meters

    def remove(self, groups: Iterable[GroupBase], select: Callable[[GroupBase], Iterable[TopicPartition]]) -> int:
        """Drop the selected offsets, forget groups that are empty of everything, and write tombstones for both.

        A group whose last offset goes while it is Empty becomes Dead and leaves the cache. Returns how many offsets
        went.
        """
        removed = 0
        for group in groups:
            with group.lock:
                if group.is_replaced:
                    continue  # its offsets are the successor's
                gone = group.offsets.remove(list(select(group)))
                tombstones = [keys.offset(group.group_id, partition) for partition in gone]
                removed += len(gone)
                if group.is_empty and group.offsets.is_empty:
                    group.die()
                if group.is_dead and self._owned.forget(group):
                    tombstones += group.record_keys()
                if tombstones:
                    self._writer.write_tombstones(group.group_id, tombstones)
        return removed

    def delete_group(self, group: GroupBase) -> None:
        """The group goes with all its offsets; called under its lock, when it has no members."""
        group.die()
        self.remove([group], lambda gone: list(gone.offsets.committed))

    def delete_offsets(self, group: GroupBase, partitions: Collection[TopicPartition]) -> None:
        """An administrator's request; called under the group's lock."""
        self._meters.offset_deletions.mark(self.remove([group], lambda _: partitions))

    def remove_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions were deleted: their offsets go from every group."""
        removed = self.remove(self._owned.all_groups(), lambda _: partitions)
        logger.info("removed %d offsets of %d deleted partitions", removed, len(partitions))

    def expire(self) -> None:
        """One round of the retention."""
        now, retention = self._clock.wall_ms(), self._config.offsets_retention_ms
        removed = self.remove(self._owned.all_groups(), lambda group: group.expired_offsets(now, retention))
        if removed:
            self._meters.offset_expirations.mark(removed)
            logger.info("removed %d expired offsets", removed)
