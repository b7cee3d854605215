"""Writing to `__consumer_offsets`: what a group, its offsets or its tombstones become is one batch each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from broker.coordinator.append_errors import Caller, told
from broker.coordinator.coordinator_log import CoordinatorLog
from broker.coordinator.internal_topic_names import partition_for
from broker.groups.classic.group import ClassicGroup
from broker.groups.config import GroupConfig
from broker.groups.offsets.committer import TransactionalProducer
from broker.groups.offsets.group_offsets import OffsetAndMetadata
from broker.groups.records import keys, values
from log.records.record import BatchBuilder
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from timer.clock import Clock

logger = logging.getLogger(__name__)

Entry = tuple[bytes, bytes | None]


class GroupWriter:
    """Thread-safe. Callbacks may run at once or on another thread."""

    def __init__(self, log: CoordinatorLog, partitions: int, clock: Clock, config: GroupConfig) -> None:
        self._log = log
        self._partitions = partitions
        self._clock = clock
        self._config = config

    def store_group(
        self, group: ClassicGroup, assignment: Mapping[str, bytes], on_done: Callable[[ErrorCode], None]
    ) -> None:
        """Write a classic group's record; `on_done` gets NONE or what the members are told."""

        def done(error: ErrorCode, _: int) -> None:
            if error is not ErrorCode.NONE:
                logger.warning("the record of group %s was not stored: %s", group.group_id, error.name)
            on_done(told(Caller.CLASSIC_GROUP, error))

        self._append(group.group_id, BatchBuilder(codec=self._codec), [self.group_entry(group, assignment)], done)

    def group_entry(self, group: ClassicGroup, assignment: Mapping[str, bytes]) -> Entry:
        """Key and value of a classic group."""
        value = values.group_value(group, assignment, self._config.versions.group)
        return keys.classic_group(group.group_id), value

    def write_records(self, group_id: str, entries: Iterable[Entry], on_done: Callable[[ErrorCode], None]) -> None:
        """Write records of a consumer group; `on_done` gets NONE or what the member is told."""
        self._append(
            group_id,
            BatchBuilder(codec=self._codec),
            entries,
            lambda error, _: on_done(told(Caller.CONSUMER_GROUP, error)),
        )

    def write_tombstones(self, group_id: str, gone: list[bytes]) -> None:
        """Delete records by their keys; nobody waits for it."""

        def done(error: ErrorCode, _: int) -> None:
            if error is not ErrorCode.NONE:
                logger.warning("%d tombstones of group %s were not stored: %s", len(gone), group_id, error.name)

        self._append(group_id, BatchBuilder(codec=self._codec), ((key, None) for key in gone), done, required_acks=0)

    def write_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        producer: TransactionalProducer | None,
        on_done: Callable[[ErrorCode, int], None],
    ) -> None:
        """Write offsets; `on_done` gets the append error and the offset of the batch."""
        builder = BatchBuilder(codec=self._codec)
        if producer is not None:
            builder = BatchBuilder(
                codec=self._codec,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                transactional=True,
            )
        # The values of Kafka's own coordinator, which sets a sequence in batches of offsets only.
        builder.base_sequence = 0
        version = self._config.versions.offset
        entries: Iterable[Entry] = (
            (keys.offset(group_id, partition), values.offset_value(value, version))
            for partition, value in offsets.items()
        )
        transactional_id = None if producer is None else producer.transactional_id
        self._append(group_id, builder, entries, on_done, transactional_id)

    @property
    def _codec(self) -> int:
        return self._config.compression_codec

    def _append(
        self,
        group_id: str,
        builder: BatchBuilder,
        entries: Iterable[Entry],
        on_done: Callable[[ErrorCode, int], None],
        transactional_id: str | None = None,
        required_acks: int | None = None,
    ) -> None:
        now, partition = self._clock.wall_ms(), partition_for(group_id, self._partitions)
        for key, value in entries:
            builder.append(now, key, value)
        batch = builder.build()
        if not self._log.is_local(partition):
            on_done(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            return
        acks = self._config.commit_required_acks if required_acks is None else required_acks
        self._log.append(partition, batch, acks, self._config.commit_timeout_ms, on_done, transactional_id)
