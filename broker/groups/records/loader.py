"""Groups and offsets from the log of a `__consumer_offsets` partition.

One pass keeps the last value of each key, undecoded; what a transaction wrote stands aside per producer until its
marker. Only what is left at the end is decoded, so a long log of commits of few keys costs little.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from broker.coordinator.coordinator_log import Batch
from broker.groups.base import GroupBase
from broker.groups.classic.group import ClassicGroup
from broker.groups.consumer import changes
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.offsets.group_offsets import CommittedOffset, GroupOffsets
from broker.groups.records import keys, values
from log.records.batch import RecordBatch
from log.records.record import ControlType, control_type_of, iter_records
from log.topic_partition import TopicPartition
from network.protocol.errors import ProtocolError
from timer.clock import Clock

logger = logging.getLogger(__name__)

# Keys by the version in front of them.
_CLASSIC_GROUP_KEY = keys.CLASSIC_GROUP.to_bytes(2, "big")
_OFFSET_KEY = keys.OFFSET.to_bytes(2, "big")
_OFFSET_KEYS = frozenset(version.to_bytes(2, "big") for version in keys.OFFSET_VERSIONS)
_CONSUMER_KEYS = frozenset(version.to_bytes(2, "big") for version in keys.CONSUMER_VERSIONS)


@dataclass(slots=True)
class LoadedGroups:
    """What a partition holds: all its groups, and how many records were read."""

    groups: dict[str, GroupBase] = field(default_factory=dict)
    records: int = 0


# Key and last value: offset (of offset keys that of the batch) and undecoded value (None: removed).
_Values = dict[bytes, tuple[int, bytes | None]]


class _Pass:
    def __init__(self) -> None:
        self.offsets: _Values = {}
        self.groups: _Values = {}
        self.consumer: _Values = {}
        self.open: dict[int, _Values] = {}
        self.records = 0
        self._unknown: set[int] = set()

    def take(self, batch: Batch) -> None:
        if isinstance(batch, RecordBatch):
            if batch.is_control:
                self._end_transaction(batch)
                return
            offsets = self.open.setdefault(batch.producer_id, {}) if batch.is_transactional else self.offsets
        else:
            offsets = self.offsets
        base_offset = batch.base_offset
        for record in iter_records(batch):
            key = record.key
            if key is None:
                raise ProtocolError(f"the record at offset {record.offset} has no key")
            self.records += 1
            prefix = key[:2]
            if prefix in _OFFSET_KEYS:
                offsets[_OFFSET_KEY + key[2:]] = (base_offset, record.value)
            elif prefix == _CLASSIC_GROUP_KEY:
                self.groups[key] = (record.offset, record.value)
            elif prefix in _CONSUMER_KEYS:
                self.consumer[key] = (record.offset, record.value)
            else:
                self._skip(key)

    def _end_transaction(self, batch: RecordBatch) -> None:
        for record in iter_records(batch):
            written = self.open.pop(batch.producer_id, {})
            if control_type_of(record.key) is ControlType.COMMIT:
                for key, (offset, value) in written.items():
                    current = self.offsets.get(key)
                    if current is None or current[0] < offset:
                        self.offsets[key] = (offset, value)

    def _skip(self, key: bytes) -> None:
        version = keys.version_of(key)
        if version < 0:
            raise ProtocolError(f"a key has version {version}")
        if version not in self._unknown:
            self._unknown.add(version)
            logger.warning("records with keys of version %d are skipped: nothing here writes them", version)


def load(batches: Iterable[Batch], clock: Clock) -> LoadedGroups:
    """The groups at the end of `batches`.

    Groups with members are Stable, others Empty; offsets without a group make an Empty group of generation 0.
    Offsets of transactions without a marker stay pending. Raises ProtocolError for records that break the format,
    and whatever reading the batches raises.
    """
    found = _Pass()
    for batch in batches:
        found.take(batch)
    result = LoadedGroups(records=found.records)
    consumer_groups, epochs = _consumer_groups(found.consumer)
    result.groups.update(consumer_groups)
    for key, (offset, value) in found.groups.items():
        if value is not None:
            group_id = keys.decode_classic_group(key)
            # A group changed its protocol, and the tombstones of what it was did not make it into the log.
            if offset > epochs.get(group_id, -1):
                result.groups[group_id] = values.decode_group_value(group_id, value, clock)
            else:
                consumer_groups[group_id].classic_record_stands = True

    fill = _Filler(result.groups, clock)
    for offsets, partition, commit in fill.decoded(found.offsets):
        offsets.committed[partition] = commit
    for producer_id, of_producer in found.open.items():
        for offsets, partition, commit in fill.decoded(of_producer):
            offsets.pending_txn.setdefault(producer_id, {})[partition] = commit
    return result


def _consumer_groups(found: _Values) -> tuple[dict[str, ConsumerGroup], dict[str, int]]:
    """The groups of the consumer protocol, and the offsets of their epoch records.

    Records of a group without an epoch are the remains of one that was deleted.
    """
    epochs: dict[str, int] = {}
    made: dict[str, ConsumerGroup] = {}
    for key, (offset, value) in found.items():
        if value is None:
            continue
        version, group_id, second = keys.decode_consumer(key)
        changes.decode(version, second, value).apply(made.setdefault(group_id, ConsumerGroup(group_id)))
        if version == keys.EPOCH:
            epochs[group_id] = offset
    groups = {group_id: made[group_id] for group_id in epochs}
    for group in groups.values():
        group.forget_strangers()
    return groups, epochs


class _Filler:
    """Decodes what is left. Groups share topics, and keys of a group lie together, so both are decoded once."""

    def __init__(self, groups: dict[str, GroupBase], clock: Clock) -> None:
        self._groups = groups
        self._clock = clock
        self._offsets: dict[bytes, GroupOffsets] = {}
        self._partitions: dict[bytes, TopicPartition] = {}

    def decoded(self, found: _Values) -> Iterable[tuple[GroupOffsets, TopicPartition, CommittedOffset]]:
        for key, (batch_offset, value) in found.items():
            if value is None:
                continue
            encoded_group, encoded_partition = keys.split_offset(key)
            offsets = self._offsets.get(encoded_group)
            if offsets is None:
                offsets = self._offsets_of(key, encoded_group)
            partition = self._partitions.get(encoded_partition)
            if partition is None:
                partition = self._partitions[encoded_partition] = keys.decode_partition(encoded_partition)
            yield offsets, partition, CommittedOffset(batch_offset, values.decode_offset_value(value))

    def _offsets_of(self, key: bytes, encoded_group: bytes) -> GroupOffsets:
        group_id, _ = keys.decode_offset(key)
        group = self._groups.get(group_id)
        if group is None:
            simple = group = self._groups[group_id] = ClassicGroup(group_id, self._clock)
            simple.current_state_timestamp = None
        self._offsets[encoded_group] = group.offsets
        return group.offsets
