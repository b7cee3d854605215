"""Verification of transactional batches by the partition that gets them (KIP-890, part 1).

A batch of a producer that has no open transaction in the partition is appended only if the producer's coordinator says
that the partition belongs to the transaction, and then under the guard that was taken before it was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from log.partition_log import PartitionLog
from log.producer_entry import VerificationGuard
from log.records.batch import RecordBatch
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode

Guards = dict[TopicPartition, VerificationGuard]
Errors = dict[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class Question:
    """Whether partitions belong to the open transaction of a producer; `verdict` gets the answer, on any thread."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: list[TopicPartition]
    verdict: Callable[[Errors], None]

    def answer(self, error: ErrorCode) -> None:
        """The same for all partitions."""
        self.verdict(dict.fromkeys(self.partitions, error))


Ask = Callable[[Question], None]
"""Asks the coordinator of the transactional id; `TransactionVerifier.verify` does."""


def verify_batches(
    ask: Ask,
    get_log: Callable[[TopicPartition], PartitionLog | None],
    transactional_id: str,
    batches: Mapping[TopicPartition, Any],
    proceed: Callable[[Guards, Errors], None],
) -> None:
    """Ask where a partition knows of no open transaction; `proceed` gets the guards, and errors by partition.

    It runs at once where nothing needs to be asked, else possibly on another thread. Partitions without an error may
    be appended to. Raises ApiError(INVALID_PRODUCER_ID_MAPPING) when the batches have more than one producer id and
    epoch.
    """
    guards: Guards = {}
    producers: set[tuple[int, int]] = set()
    for tp, records in batches.items():
        batch = RecordBatch(records)
        producers.add((batch.producer_id, batch.producer_epoch))
        log = get_log(tp)
        if log is None:
            continue
        guard = log.maybe_start_transaction_verification(batch.producer_id, batch.base_sequence, batch.producer_epoch)
        if guard is not None:
            guards[tp] = guard
    if len(producers) > 1:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not guards:
        proceed(guards, {})
        return
    ((producer_id, producer_epoch),) = producers

    def verdict(errors: Errors) -> None:
        proceed(guards, {tp: error for tp, error in errors.items() if error is not ErrorCode.NONE})

    ask(Question(transactional_id, producer_id, producer_epoch, list(guards), verdict))
