"""Records of `__transaction_state` (KIP-98): one key and one value a transactional id."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from broker.transactions.state import TransactionMetadata, TransactionState, Transition
from log.topic_partition import TopicPartition
from network.protocol.errors import ProtocolError
from network.protocol.messages.transaction_log_key import TransactionLogKey
from network.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue

KEY_VERSION = 0
VALUE_VERSION = 0


class UnknownKeyVersionError(Exception):
    """A key of a version that this coordinator does not know; loading skips such records."""


@dataclass(frozen=True, slots=True)
class StoredTransaction:
    """One loaded record: an id and its values, or None for a tombstone."""

    transactional_id: str
    metadata: TransactionMetadata | None


def encode_key(transactional_id: str) -> bytes:
    """Key bytes, with the leading int16 version."""
    return TransactionLogKey(transactional_id=transactional_id).encode_versioned(KEY_VERSION)


def encode_value(values: Transition) -> bytes:
    """Value bytes. The partition array is null in Empty and an empty array in Complete*, as Kafka writes it."""
    partitions = None if values.state is TransactionState.EMPTY else _by_topic(values.partitions)
    return TransactionLogValue(
        producer_id=values.producer_id,
        producer_epoch=values.producer_epoch,
        transaction_timeout_ms=values.timeout_ms,
        transaction_status=int(values.state),
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=values.last_update_timestamp,
        transaction_start_timestamp_ms=values.start_timestamp,
    ).encode_versioned(VALUE_VERSION)


def decode(key: bytes, value: bytes | None) -> StoredTransaction:
    """Read one record.

    Raises UnknownKeyVersionError for a key of a later version, ProtocolError for bytes that do not parse.
    """
    if int.from_bytes(key[:2], "big", signed=True) != KEY_VERSION:
        raise UnknownKeyVersionError(key[:2].hex())
    transactional_id = TransactionLogKey.decode_versioned(key).transactional_id
    if value is None:
        return StoredTransaction(transactional_id, None)
    stored = TransactionLogValue.decode_versioned(value)
    try:
        state = TransactionState(stored.transaction_status)
    except ValueError as error:
        raise ProtocolError(f"the transaction of {transactional_id!r}: {error}") from None
    metadata = TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=stored.producer_id,
        timeout_ms=stored.transaction_timeout_ms,
        producer_epoch=stored.producer_epoch,
        state=state,
        partitions={
            TopicPartition(entry.topic, partition)
            for entry in stored.transaction_partitions or ()
            for partition in entry.partition_ids
        },
        start_timestamp=stored.transaction_start_timestamp_ms,
        last_update_timestamp=stored.transaction_last_update_timestamp_ms,
    )
    return StoredTransaction(transactional_id, metadata)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in grouped.items()]
