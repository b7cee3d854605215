"""TransactionLogValue: state of a transactional id in `__transaction_state`."""

from __future__ import annotations

from network.protocol.fields import array, int8, int16, int32, int64, string
from network.protocol.message import StoredPayload, Struct


class PartitionsSchema(Struct):
    topic: str = string()
    partition_ids: list[int] = array(int32)


class TransactionLogValue(StoredPayload, versions=(0, 1), flexible=1):
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
