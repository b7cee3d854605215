"""Transactional Produce entries: verified with their coordinator where the partition knows no open transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.replication.results import PartitionAppendResult
from broker.transactions.verification import TransactionVerifier, producer_error
from log.batch import RecordBatch
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode

KNOWS_ABORTABLE_VERSION = 11

Results = dict[TopicPartition, PartitionAppendResult]
Guards = dict[TopicPartition, Any]
GetLog = Callable[[TopicPartition], Any]


def verify_then_append(
    verifier: TransactionVerifier,
    get_log: GetLog,
    transactional_id: str,
    version: int,
    entries: dict[TopicPartition, Any],
    transactional: list[TopicPartition],
    append: Callable[[dict[TopicPartition, Any], Guards], None],
    refuse: Callable[[Results], None],
) -> None:
    """Append what needs no verification or passes it, in one call of ``append``; ``refuse`` notes what does not.

    Raises ApiError(INVALID_PRODUCER_ID_MAPPING) when the batches have more than one producer id and epoch.
    """
    guards: Guards = {}
    producers: set[tuple[int, int]] = set()
    for tp in transactional:
        if tp not in entries:
            continue
        batch = RecordBatch(entries[tp])
        producers.add((batch.producer_id, batch.producer_epoch))
        log = get_log(tp)
        guard = log and log.maybe_start_transaction_verification(
            batch.producer_id, batch.base_sequence, batch.producer_epoch
        )
        if guard is not None:
            guards[tp] = guard
    if len(producers) > 1:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not guards:
        append(entries, guards)
        return
    ((producer_id, producer_epoch),) = producers

    def verified(errors: dict[TopicPartition, ErrorCode]) -> None:
        failed: Results = {}
        for tp, error in errors.items():
            if error is not ErrorCode.NONE:
                shown = producer_error(error, knows_abortable=version >= KNOWS_ABORTABLE_VERSION)
                text = None if shown is error else f"Unable to verify the partition has been added: {error.name}"
                failed[tp] = PartitionAppendResult(shown, error_message=text)
        refuse(failed)
        append({tp: records for tp, records in entries.items() if tp not in failed}, guards)

    verifier.verify(transactional_id, producer_id, producer_epoch, list(guards), verified)
