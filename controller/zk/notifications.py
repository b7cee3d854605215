"""ISR change and log directory notifications, producer id blocks and `/feature`."""

from __future__ import annotations

from collections.abc import Sequence

from controller.zk import paths
from controller.zk.access import ZnodeAccess
from controller.zk.ops import Code, Create, Delete, SetData
from controller.zk.payloads import (
    FeatureZnode,
    ProducerIdBlock,
    decode_feature,
    decode_log_dir_event,
    decode_partitions,
    decode_producer_id_block,
    encode_feature,
    encode_log_dir_event,
    encode_partitions,
    encode_producer_id_block,
)
from controller.zk.session import ZkError
from log.topic_partition import TopicPartition

PRODUCER_ID_BLOCK_SIZE = 1000
_MAX_PRODUCER_ID = 2**63 - 1


class ProducerIdsExhaustedError(Exception):
    """All 64-bit producer ids have been given out."""


class NotificationZnodes(ZnodeAccess):
    """Typed access to notifications, producer id blocks and features."""

    def propagate_isr_changes(self, partitions: Sequence[TopicPartition]) -> None:
        """Tell the controller which states this leader wrote (`inter.broker.protocol.version` below 2.7-IV2)."""
        self.create_sequential(f"{paths.ISR_CHANGES}/{paths.ISR_CHANGE_PREFIX}", encode_partitions(partitions))

    def isr_change_names(self) -> list[str]:
        """Names of the pending ISR change notifications. Arms the child watch if a handler is registered."""
        return sorted(self.children(paths.ISR_CHANGES))

    def isr_changes(self, names: Sequence[str]) -> list[TopicPartition]:
        """The partitions that these notifications name, each once."""
        found = self.read_all([f"{paths.ISR_CHANGES}/{name}" for name in names])
        changed: dict[TopicPartition, None] = {}
        for item in found:
            if item is not None:
                changed.update(dict.fromkeys(decode_partitions(item[0])))
        return list(changed)

    def delete_isr_changes(self, names: Sequence[str], fence: int) -> None:
        self.fenced([Delete(f"{paths.ISR_CHANGES}/{name}") for name in names], fence)

    def propagate_log_dir_failure(self, broker_id: int) -> None:
        """Tell the controller that a log directory of this broker failed."""
        self.create_sequential(f"{paths.LOG_DIR_EVENTS}/{paths.LOG_DIR_EVENT_PREFIX}", encode_log_dir_event(broker_id))

    def log_dir_event_names(self) -> list[str]:
        """Names of the pending log directory events. Arms the child watch if a handler is registered."""
        return sorted(self.children(paths.LOG_DIR_EVENTS))

    def log_dir_event_brokers(self, names: Sequence[str]) -> set[int]:
        """The brokers that these events name."""
        found = self.read_all([f"{paths.LOG_DIR_EVENTS}/{name}" for name in names])
        brokers = {decode_log_dir_event(item[0]) for item in found if item is not None}
        return {broker for broker in brokers if broker is not None}

    def delete_log_dir_events(self, names: Sequence[str], fence: int) -> None:
        self.fenced([Delete(f"{paths.LOG_DIR_EVENTS}/{name}") for name in names], fence)

    def allocate_producer_id_block(self, broker_id: int) -> ProducerIdBlock:
        """Take the next block of producer ids for `broker_id`.

        Raises `ProducerIdsExhaustedError`, and `PayloadError` if the znode cannot be read. An answer lost on the way
        skips a block, which is harmless.
        """
        while True:
            found = self.read(paths.PRODUCER_ID_BLOCK)
            if found is None:
                self.create_recursive(paths.PRODUCER_ID_BLOCK, None, fail_if_exists=False)
                continue
            current = decode_producer_id_block(found[0])
            first = 0 if current is None else current.last + 1
            if current is not None and current.last > _MAX_PRODUCER_ID - PRODUCER_ID_BLOCK_SIZE:
                raise ProducerIdsExhaustedError(f"no producer ids left after {current.last}")
            block = ProducerIdBlock(broker_id, first, first + PRODUCER_ID_BLOCK_SIZE - 1)
            response = self._one(SetData(paths.PRODUCER_ID_BLOCK, encode_producer_id_block(block), found[1].version))
            if response.ok:
                return block
            if response.code not in (Code.BAD_VERSION, Code.NO_NODE):
                raise ZkError(response.code, paths.PRODUCER_ID_BLOCK)

    def feature(self) -> tuple[FeatureZnode, int] | None:
        """`/feature` and its version (the finalized features epoch). Arms the watch; raises `PayloadError`."""
        found = self.read(paths.FEATURE)
        return None if found is None else (decode_feature(found[0]), found[1].version)

    def write_feature(self, feature: FeatureZnode) -> int:
        """Create or replace `/feature`; returns its new version."""
        data = encode_feature(feature)
        while True:
            response = self._one(SetData(paths.FEATURE, data))
            if response.code is Code.NO_NODE:
                created = self._one(Create(paths.FEATURE, data))
                if created.ok:
                    return 0
                if created.code is Code.NODE_EXISTS:
                    continue
                raise ZkError(created.code, paths.FEATURE)
            if response.ok:
                assert response.stat is not None
                return response.stat.version
            raise ZkError(response.code, paths.FEATURE)
