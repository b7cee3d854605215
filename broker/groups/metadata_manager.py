"""The groups that this broker coordinates, by the partition of `__consumer_offsets` that keeps them.

A partition is loaded when this broker becomes its leader and dropped when it stops being so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from broker.coordinator.coordinator_log import CoordinatorLog
from broker.coordinator.internal_topic_names import OFFSETS_TOPIC, partition_for
from broker.coordinator.ownership import Ownership
from broker.groups.base import G, GroupBase
from broker.groups.classic.group import ClassicGroup
from broker.groups.config import GroupConfig
from broker.groups.meters import GroupMeters
from broker.groups.records import loader
from broker.groups.records.writer import GroupWriter
from network.protocol.errors import ApiError, ErrorCode
from timer.clock import Clock

logger = logging.getLogger(__name__)

Groups = dict[str, GroupBase]


class GroupMetadataManager:
    """Thread-safe: the ownership's lock guards the maps, and may be taken under a group's lock.

    `is_active` from the coordinator's start to its shutdown.
    """

    def __init__(
        self,
        log: CoordinatorLog,
        partitions: int,
        clock: Clock,
        config: GroupConfig,
        writer: GroupWriter,
        meters: GroupMeters,
    ) -> None:
        self.partitions = partitions
        self.is_active = False
        self._log = log
        self._clock = clock
        self._config = config
        self._writer = writer
        self._meters = meters
        self._ownership: Ownership[Groups] = Ownership(reloads=False)

    # --- whether the group is ours ---

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that keeps the group."""
        return partition_for(group_id, self.partitions)

    def ownership_error(self, group_id: str) -> ErrorCode:
        """COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR or NONE."""
        return self._ownership.error(self.partition_of(group_id))

    def status_error(self, group_id: str | None, *, allow_empty_id: bool = False) -> ErrorCode:
        """What is checked before anything of a group is looked at."""
        if group_id is None or (not group_id and not allow_empty_id):
            return ErrorCode.INVALID_GROUP_ID
        if not self.is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self.ownership_error(group_id)

    def require_status(self, group_id: str) -> None:
        """Raises ApiError where `status_error` has an error."""
        error = self.status_error(group_id)
        if error is not ErrorCode.NONE:
            raise ApiError(error)

    @property
    def is_loading(self) -> bool:
        """Whether any partition is being loaded."""
        return self._ownership.is_loading

    # --- look-up ---

    def find(self, group_id: str) -> GroupBase | None:
        """The group, of whichever protocol."""
        with self._ownership.lock:
            return self._groups_beside(group_id).get(group_id)

    def find_as(self, group_id: str, kind: type[G]) -> G | None:
        """The group if it is one of this protocol."""
        group = self.find(group_id)
        return group if isinstance(group, kind) else None

    def all_groups(self) -> list[GroupBase]:
        """Every group of every partition."""
        with self._ownership.lock:
            return [group for owned in self._ownership.all() for group in owned.loaded.values()]

    def _groups_beside(self, group_id: str) -> Groups:
        owned = self._ownership.get(self.partition_of(group_id))
        return {} if owned is None else owned.loaded

    # --- making, replacing, forgetting ---

    def ensure(self, group_id: str, kind: type[GroupBase] = ClassicGroup) -> GroupBase | None:
        """The group, of whichever protocol, made if none is there; None if its partition is not owned (any more)."""
        with self._ownership.lock:
            owned = self._ownership.get(self.partition_of(group_id))
            if owned is None:
                return None
            group = owned.loaded.get(group_id)
            if group is None:
                group = owned.loaded[group_id] = kind.make(group_id, self._clock)
            return group

    def ensure_as(self, group_id: str, kind: type[G]) -> G | None:
        """The group as one of this protocol, in the place of one of the other without members if need be.

        None if its partition is not owned (any more), or if it is one of the other protocol with members.
        """
        group = self.ensure(group_id, kind)
        if group is None or isinstance(group, kind):
            return group
        with group.lock:
            if not group.is_empty:
                return None
            successor = kind.make(group_id, self._clock, group)
            return successor if self._give_way(group, successor) else None

    def replace(self, group: GroupBase, successor: GroupBase) -> bool:
        """Put a group in the place of another, unless that is not there any more; called under the group's lock."""
        with self._ownership.lock:
            groups = self._groups_beside(group.group_id)
            if groups.get(group.group_id) is not group:
                return False
            groups[group.group_id] = successor
            return True

    def _give_way(self, group: GroupBase, successor: GroupBase) -> bool:
        if not self.replace(group, successor):
            return False
        gone = group.record_keys() if group.is_deleted_when_replaced else []
        group.is_replaced = True
        group.die()
        if gone:
            self._writer.write_tombstones(group.group_id, gone)
        return True

    def forget(self, group: GroupBase) -> bool:
        """Take a dead group out; False if it is not there any more."""
        with self._ownership.lock:
            groups = self._groups_beside(group.group_id)
            if groups.get(group.group_id) is not group:
                return False
            del groups[group.group_id]
            return True

    # --- loading and unloading ---

    def load(self, partition: int, epoch: int) -> Iterable[GroupBase]:
        """Read the partition and own it, unless it is owned or a later epoch was seen; returns what was loaded.

        Requests see COORDINATOR_LOAD_IN_PROGRESS meanwhile. If the log cannot be read, that is logged and the
        partition is owned with nothing of it loaded, as Kafka does.
        """
        if not self._ownership.begin_load(partition, epoch):
            logger.debug("%s-%d is not loaded at epoch %d: owned, or an older epoch", OFFSETS_TOPIC, partition, epoch)
            return ()
        started = self._clock.monotonic_ms()
        loaded = loader.LoadedGroups()
        try:
            loaded = loader.load(self._log.read(partition, self._config.load_buffer_bytes), self._clock)
        except Exception:
            logger.exception("%s-%d could not be loaded", OFFSETS_TOPIC, partition)
        if not self._log.is_committed(partition):
            for group in loaded.groups.values():
                group.on_loaded_uncommitted()
        if not self._ownership.finish_load(partition, epoch, loaded.groups):
            return ()
        spent_ms = self._clock.monotonic_ms() - started
        self._meters.partition_load_time.update(spent_ms)
        logger.log(
            logging.INFO if loaded.records else logging.DEBUG,
            "loaded %d groups from %d records of %s-%d at epoch %d in %d ms",
            len(loaded.groups),
            loaded.records,
            OFFSETS_TOPIC,
            partition,
            epoch,
            spent_ms,
        )
        return list(loaded.groups.values())

    def unload(self, partition: int, epoch: int | None) -> Iterable[GroupBase]:
        """Drop the partition's groups and return them; None as epoch means that the replica was deleted.

        A lower epoch than was seen is ignored.
        """
        groups = self._ownership.unload(partition, epoch)
        if not groups:
            return ()
        logger.info("unloaded %d groups of %s-%d", len(groups), OFFSETS_TOPIC, partition)
        return list(groups.values())
