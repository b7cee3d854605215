"""Offsets of version 0 of OffsetCommit and OffsetFetch, which live in ZooKeeper."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from broker.groups.offsets.commits import Offsets, Results
from broker.groups.offsets.group_offsets import OffsetAndMetadata
from broker.groups.offsets.service import FetchedOffset
from controller.zk import paths
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


class ConsumerOffsets(Protocol):
    def consumer_offset(self, group: str, partition: TopicPartition) -> int | None: ...

    def set_consumer_offset(self, group: str, partition: TopicPartition, offset: int) -> None: ...


def commit_to_zookeeper(zk: ConsumerOffsets, group_id: str, offsets: Offsets, metadata_limit: int) -> Results:
    """Store offsets; metadata is checked and not kept, as Kafka does."""
    results: Results = {}
    can_hold = paths.can_hold(group_id)
    for partition, value in offsets.items():
        if not _is_path_name(group_id):
            results[partition] = ErrorCode.INVALID_GROUP_ID
        elif len(value.metadata) > metadata_limit:
            results[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
        elif not can_hold:
            results[partition] = ErrorCode.UNKNOWN_SERVER_ERROR
        else:
            try:
                zk.set_consumer_offset(group_id, partition, value.offset)
                results[partition] = ErrorCode.NONE
            except Exception:
                logger.exception("the offset of %s of group %s was not stored in ZooKeeper", partition, group_id)
                results[partition] = ErrorCode.UNKNOWN_SERVER_ERROR
    return results


def fetch_from_zookeeper(
    zk: ConsumerOffsets, group_id: str, known: Mapping[TopicPartition, bool]
) -> dict[TopicPartition, FetchedOffset]:
    """Offsets of partitions; those that the metadata does not have, or that have no offset, are unknown."""
    unknown = FetchedOffset(OffsetAndMetadata(-1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    failed = FetchedOffset(OffsetAndMetadata(-1), ErrorCode.UNKNOWN_SERVER_ERROR)
    if not _is_path_name(group_id):
        return dict.fromkeys(known, unknown)
    can_hold = paths.can_hold(group_id)
    found = {}
    for partition, exists in known.items():
        if exists and not can_hold:
            found[partition] = failed
            continue
        offset = zk.consumer_offset(group_id, partition) if exists else None
        found[partition] = unknown if offset is None else FetchedOffset(OffsetAndMetadata(offset))
    return found


def _is_path_name(group_id: str) -> bool:
    return bool(group_id) and "/" not in group_id and group_id not in (".", "..")
