"""The groups that this broker coordinates, and their records in `__consumer_offsets`.

A partition of the topic is loaded when this broker becomes its leader and dropped when it stops being so.
Everything that changes a group or an offset is a record of the partition that the group's hash names, so the next
coordinator finds it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from broker.coordinator.append_errors import Caller, told
from broker.coordinator.topic_log import TopicLog
from broker.coordinator.topics import partition_for
from broker.groups.base import GroupBase
from broker.groups.classic.group import Group
from broker.groups.config import GroupConfig
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.meters import GroupMeters
from broker.groups.offsets.expiry import expired_offsets
from broker.groups.offsets.group_offsets import CommittedOffset, OffsetAndMetadata
from broker.groups.records import keys, loader, values
from log.record import BatchBuilder
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from timer.clock import Clock

logger = logging.getLogger(__name__)


class TransactionalProducer:
    """Who commits offsets in a transaction."""

    __slots__ = ("epoch", "producer_id", "transactional_id")

    def __init__(self, producer_id: int, epoch: int, transactional_id: str) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.transactional_id = transactional_id


class GroupStore:
    """Cache and log of the groups. Thread-safe: `_lock` guards the maps and may be taken under a group's lock."""

    def __init__(
        self,
        log: TopicLog,
        partitions: int,
        clock: Clock,
        config: GroupConfig,
        meters: GroupMeters | None = None,
    ) -> None:
        self._log = log
        self.partitions = partitions
        self._clock = clock
        self._config = config
        self.meters = meters or GroupMeters()
        self._lock = threading.Lock()
        self._owned: dict[int, dict[str, GroupBase]] = {}
        self._loading: set[int] = set()
        self._epochs: dict[int, int] = {}
        # Groups with offsets of an open transaction, by producer.
        self._open: dict[int, set[str]] = {}

    # --- look-up ---

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that keeps the group."""
        return partition_for(group_id, self.partitions)

    def ownership_error(self, group_id: str) -> ErrorCode:
        """COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR or NONE."""
        partition = self.partition_of(group_id)
        with self._lock:
            if partition in self._loading:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return ErrorCode.NONE if partition in self._owned else ErrorCode.NOT_COORDINATOR

    def get_any(self, group_id: str) -> GroupBase | None:
        """The group, of whichever protocol."""
        with self._lock:
            return self._owned.get(self.partition_of(group_id), {}).get(group_id)

    def get(self, group_id: str) -> Group | None:
        """The group if it is a classic one."""
        group = self.get_any(group_id)
        return group if isinstance(group, Group) else None

    def get_consumer(self, group_id: str) -> ConsumerGroup | None:
        """The group if it is one of the consumer protocol."""
        group = self.get_any(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def get_or_add_any(self, group_id: str) -> GroupBase | None:
        """The group, of whichever protocol; a classic one is made if none is there. None as for `get_or_add`."""
        with self._lock:
            groups = self._owned.get(self.partition_of(group_id))
            if groups is None:
                return None
            group = groups.get(group_id)
            if group is None:
                group = groups[group_id] = Group(group_id, self._clock)
            return group

    def get_or_add(self, group_id: str) -> Group | None:
        """The classic group, made if it is not there, in the place of a consumer group without members if need be.

        None if its partition is not owned (any more), or if it is a consumer group with members.
        """
        group = self.get_or_add_any(group_id)
        if not isinstance(group, ConsumerGroup):
            return group  # type: ignore[return-value]
        with group.lock:
            if not group.is_empty:
                return None
            successor = Group(group_id, self._clock, successor_of=group)
            return successor if self._replace(group, successor) else None

    def get_or_add_consumer(self, group_id: str) -> ConsumerGroup | None:
        """The consumer group, made if it is not there, in the place of a classic group without members if need be.

        None if its partition is not owned (any more), or if it is a classic group with members.
        """
        with self._lock:
            groups = self._owned.get(self.partition_of(group_id))
            if groups is None:
                return None
            group = groups.setdefault(group_id, ConsumerGroup(group_id))
        if isinstance(group, ConsumerGroup):
            return group
        with group.lock:
            if not group.is_empty:
                return None
            successor = ConsumerGroup(group_id, successor_of=group)
            successor.classic_record_stands = bool(group.record_keys())
            return successor if self._replace(group, successor) else None

    def replace(self, group: GroupBase, successor: GroupBase) -> bool:
        """Put a group in the place of another, unless that is not there any more; called under the group's lock."""
        with self._lock:
            groups = self._owned.get(self.partition_of(group.group_id))
            if groups is None or groups.get(group.group_id) is not group:
                return False
            groups[group.group_id] = successor
            return True

    def _replace(self, group: GroupBase, successor: GroupBase) -> bool:
        """Put a group of the other protocol in the place of one without members; called under the group's lock.

        A consumer group's records get their tombstones now, a classic group's with the first records of its successor.
        """
        if not self.replace(group, successor):
            return False
        keys = group.record_keys() if isinstance(group, ConsumerGroup) else []
        group.is_replaced = True
        group.die()
        if keys:
            self._append_tombstones(group.group_id, keys)
        return True

    def all_groups(self) -> list[GroupBase]:
        with self._lock:
            return [group for groups in self._owned.values() for group in groups.values()]

    @property
    def is_loading(self) -> bool:
        """Whether any partition is being loaded."""
        with self._lock:
            return bool(self._loading)

    # --- loading and unloading ---

    def load(self, partition: int, epoch: int, on_loaded: Callable[[GroupBase], None]) -> None:
        """Read the partition and own it, unless it is owned or a later epoch was seen.

        Requests see COORDINATOR_LOAD_IN_PROGRESS meanwhile. If the log cannot be read, that is logged and the
        partition is owned with nothing of it loaded, as Kafka does.
        """
        with self._lock:
            if epoch < self._epochs.get(partition, -1):
                logger.info("load of __consumer_offsets-%d at the older epoch %d is ignored", partition, epoch)
                return
            self._epochs[partition] = epoch
            if partition in self._owned or partition in self._loading:
                return
            self._loading.add(partition)
        started = self._clock.monotonic_ms()
        loaded = loader.LoadedGroups()
        try:
            loaded = loader.load(self._log.read(partition, self._config.load_buffer_bytes), self._clock)
        except Exception:
            logger.exception("__consumer_offsets-%d could not be loaded", partition)
        with self._lock:
            self._loading.discard(partition)
            if self._epochs.get(partition) != epoch:
                return
            self._owned[partition] = loaded.groups
            for group in loaded.groups.values():
                for producer_id in group.offsets.pending_txn:
                    self._open.setdefault(producer_id, set()).add(group.group_id)
        for group in loaded.groups.values():
            on_loaded(group)
        spent_ms = self._clock.monotonic_ms() - started
        self.meters.partition_load_time.update(spent_ms)
        logger.log(
            logging.INFO if loaded.records else logging.DEBUG,
            "loaded %d groups from %d records of __consumer_offsets-%d at epoch %d in %d ms",
            len(loaded.groups),
            loaded.records,
            partition,
            epoch,
            spent_ms,
        )

    def unload(self, partition: int, epoch: int | None, on_unloaded: Callable[[GroupBase], None]) -> None:
        """Drop the partition's groups; None as epoch means that the replica was deleted. A lower epoch is ignored."""
        with self._lock:
            if epoch is not None:
                if epoch < self._epochs.get(partition, -1):
                    logger.info("unload of __consumer_offsets-%d at the older epoch %d is ignored", partition, epoch)
                    return
                self._epochs[partition] = epoch
            else:
                self._epochs.pop(partition, None)
            groups = self._owned.pop(partition, {})
            for open_groups in self._open.values():
                open_groups.difference_update(groups)
        for group in groups.values():
            on_unloaded(group)
        if groups:
            logger.info("unloaded %d groups of __consumer_offsets-%d", len(groups), partition)

    # --- writing ---

    def store_group(self, group: Group, assignment: dict[str, bytes], on_done: Callable[[ErrorCode], None]) -> None:
        """Write the group's record; `on_done` gets NONE or what the members are told."""
        builder = self._builder()
        value = values.group_value(group, assignment, self._config.versions.group)
        builder.append(self._clock.wall_ms(), keys.classic_group(group.group_id), value)

        def done(error: ErrorCode, _: int) -> None:
            if error is not ErrorCode.NONE:
                logger.warning("the record of group %s was not stored: %s", group.group_id, error.name)
            on_done(told(Caller.CLASSIC_GROUP, error))

        self._append(self.partition_of(group.group_id), builder.build(), done)

    def write_records(
        self, group_id: str, entries: Iterable[tuple[bytes, bytes | None]], on_done: Callable[[ErrorCode], None]
    ) -> None:
        """Write records of a consumer group as one batch; `on_done` gets NONE or what the member is told."""
        builder = self._builder()
        now = self._clock.wall_ms()
        for key, value in entries:
            builder.append(now, key, value)
        self._append(
            self.partition_of(group_id),
            builder.build(),
            lambda error, _: on_done(told(Caller.CONSUMER_GROUP, error)),
        )

    def commit(
        self,
        group: GroupBase,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        on_done: Callable[[dict[TopicPartition, ErrorCode]], None],
        producer: TransactionalProducer | None = None,
    ) -> None:
        """Append offsets of one request as one batch; called under the group's lock.

        They are visible once acknowledged, those of a transaction once its marker is written. Partitions whose
        metadata is too long are refused and the others go on.
        """
        limit = self._config.offset_metadata_max_chars
        results: dict[TopicPartition, ErrorCode] = {}
        accepted: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, value in offsets.items():
            if len(value.metadata) > limit // 2 and _utf16_units(value.metadata) > limit:
                results[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                accepted[partition] = value
        if not accepted:
            on_done(results)
            return
        builder = self._builder() if producer is None else self._builder(producer)
        # The values of Kafka's own coordinator, which sets a sequence in batches of offsets only.
        builder.base_sequence = 0
        now, group_id = self._clock.wall_ms(), group.group_id
        version = self._config.versions.offset
        for partition, value in accepted.items():
            builder.append(now, keys.offset(group_id, partition), values.offset_value(value, version))

        def done(error: ErrorCode, batch_offset: int) -> None:
            with group.lock:
                if not group.is_dead or group.is_replaced:
                    self._acknowledge(group, accepted, error, batch_offset, producer)
            answer = told(Caller.OFFSET_COMMIT, error)
            if error is not ErrorCode.NONE:
                logger.debug("offsets of group %s were not stored: %s", group_id, error.name)
            else:
                self.meters.offset_commits.mark(len(accepted))
            results.update(dict.fromkeys(accepted, answer))
            on_done(results)

        if producer is None:
            group.offsets.prepare(accepted)
        else:
            with self._lock:
                self._open.setdefault(producer.producer_id, set()).add(group_id)
            group.offsets.prepare_txn(producer.producer_id, accepted)
        transactional_id = None if producer is None else producer.transactional_id
        self._append(self.partition_of(group_id), builder.build(), done, transactional_id)

    def _acknowledge(
        self,
        group: GroupBase,
        offsets: dict[TopicPartition, OffsetAndMetadata],
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

    def complete_transaction(self, producer_id: int, partitions: set[int], commit: bool) -> None:
        """Markers of the producer were written to these partitions: its offsets there take effect or are dropped."""
        with self._lock:
            group_ids = [
                group_id for group_id in self._open.get(producer_id, ()) if self.partition_of(group_id) in partitions
            ]
        for group_id in group_ids:
            group = self.get_any(group_id)
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

    # --- removal ---

    def remove_offsets(
        self, groups: Iterable[GroupBase], select: Callable[[GroupBase], Iterable[TopicPartition]]
    ) -> int:
        """Drop the selected offsets, forget groups that are empty of everything, and write tombstones for both.

        A group whose last offset goes while it is Empty becomes Dead and leaves the cache. Returns how many offsets
        went.
        """
        removed = 0
        for group in groups:
            tombstones: list[bytes] = []
            with group.lock:
                if group.is_replaced:
                    continue  # its offsets are the successor's
                gone = group.offsets.remove(list(select(group)))
                tombstones += [keys.offset(group.group_id, partition) for partition in gone]
                removed += len(gone)
                if group.is_empty and group.offsets.is_empty:
                    group.die()
                if group.is_dead and self._forget(group):
                    tombstones += group.record_keys()
                if tombstones:
                    self._append_tombstones(group.group_id, tombstones)
        return removed

    def expire_offsets(self) -> int:
        """One round of the retention; returns how many offsets went."""
        now, retention = self._clock.wall_ms(), self._config.offsets_retention_ms
        removed = self.remove_offsets(self.all_groups(), lambda group: expired_offsets(group, now, retention))
        if removed:
            self.meters.offset_expirations.mark(removed)
            logger.info("removed %d expired offsets", removed)
        return removed

    def _forget(self, group: GroupBase) -> bool:
        with self._lock:
            groups = self._owned.get(self.partition_of(group.group_id))
            if groups is None or groups.get(group.group_id) is not group:
                return False
            del groups[group.group_id]
            return True

    def _append_tombstones(self, group_id: str, keys: list[bytes]) -> None:
        builder = self._builder()
        now = self._clock.wall_ms()
        for key in keys:
            builder.append(now, key, None)

        def done(error: ErrorCode, _: int) -> None:
            if error is not ErrorCode.NONE:
                logger.warning("%d tombstones of group %s were not stored: %s", len(keys), group_id, error.name)

        self._append(self.partition_of(group_id), builder.build(), done, required_acks=0)

    def _builder(self, producer: TransactionalProducer | None = None) -> BatchBuilder:
        codec = self._config.compression_codec
        if producer is None:
            return BatchBuilder(codec=codec)
        return BatchBuilder(
            codec=codec, producer_id=producer.producer_id, producer_epoch=producer.epoch, transactional=True
        )

    def _append(
        self,
        partition: int,
        batch: bytearray,
        on_done: Callable[[ErrorCode, int], None],
        transactional_id: str | None = None,
        required_acks: int | None = None,
    ) -> None:
        if not self._log.is_local(partition):
            on_done(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            return
        acks = self._config.commit_required_acks if required_acks is None else required_acks
        self._log.append(partition, batch, acks, self._config.commit_timeout_ms, on_done, transactional_id)


def _utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
