"""What a partition knows about one producer, and the checks that a producer's batch must pass."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from log.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from log.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RecordBatch,
    decrement_sequence,
    increment_sequence,
)
from log.records.record import ControlType, EndTxnMarker, iter_records, parse_end_txn_marker
from log.records.validation import AppendOrigin
from log.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

NUM_BATCHES_TO_RETAIN = 5
"""How many of a producer's last batches are remembered, so that a retry is known as such."""


class BatchMetadata(NamedTuple):
    """One data batch of a producer: where it ends, how long it is, and its largest timestamp."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTxn(NamedTuple):
    """A transaction that a marker has ended; `last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


@dataclass(slots=True)
class ProducerStateEntry:
    """The state of one producer id. `batches` holds the last data batches of the current epoch, oldest first."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = NO_TIMESTAMP
    current_txn_first_offset: int | None = None
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=NUM_BATCHES_TO_RETAIN))
    is_cut: bool = field(default=False, compare=False)
    """Whether the log may have earlier batches of the epoch than `batches`, and was not asked for them."""

    @property
    def is_empty(self) -> bool:
        """Whether no data batch of the current epoch is known."""
        return not self.batches

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def first_sequence(self) -> int:
        return self.batches[0].first_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def find_duplicate(self, batch: RecordBatch) -> BatchMetadata | None:
        """The remembered batch with the same epoch and sequence numbers, if there is one."""
        if batch.producer_epoch != self.producer_epoch:
            return None
        last_sequence = batch.last_sequence
        for known in reversed(self.batches):
            if known.last_sequence == last_sequence and known.first_sequence == batch.base_sequence:
                return known
        return None

    def is_out_of_order(self, batch: RecordBatch) -> bool:
        """Whether a batch of the same epoch is not the next one."""
        next_sequence = increment_sequence(self.last_sequence, 1)
        return batch.producer_epoch == self.producer_epoch and batch.base_sequence != next_sequence

    def set_epoch(self, epoch: int) -> None:
        """Takes a new epoch; batches of the old one are forgotten."""
        if epoch != self.producer_epoch:
            self.batches.clear()
            self.is_cut = False
            self.producer_epoch = epoch

    def update(self, later: ProducerStateEntry) -> None:
        """Takes over what a later append has changed."""
        self.set_epoch(later.producer_epoch)
        self.batches.extend(later.batches)
        self.coordinator_epoch = later.coordinator_epoch
        self.current_txn_first_offset = later.current_txn_first_offset
        self.last_timestamp = later.last_timestamp


class VerificationGuard:
    """A token for one verification of a transaction with its coordinator; compared by identity."""

    __slots__ = ()


@dataclass(slots=True)
class VerificationState:
    """A verification under way: its guard, and the lowest first sequence seen for its epoch."""

    producer_id: int
    guard: VerificationGuard
    timestamp: int
    lowest_sequence: int
    epoch: int

    def update(self, sequence: int, epoch: int) -> None:
        """Notes another batch that waits for the same verification."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence


class ProducerAppendInfo:
    """Collects what one append changes for one producer, with the checks that its origin asks for.

    The entry in force is not touched; `ProducerStateManager.update` takes the result over when the bytes are written.
    """

    __slots__ = (
        "_current_epoch",
        "_current_last_sequence",
        "origin",
        "started",
        "topic_partition",
        "updated",
        "verification",
        "wrote_transactional",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        producer_id: int,
        current: ProducerStateEntry | None,
        origin: AppendOrigin,
        verification: VerificationState | None,
    ) -> None:
        self.topic_partition = topic_partition
        self.origin = origin
        self.verification = verification
        self.started: list[int] = []
        """First offsets of the transactions that this append opens."""
        self.wrote_transactional = False
        if current is None:
            current = ProducerStateEntry(producer_id)
        self._current_epoch = current.producer_epoch
        self._current_last_sequence = current.last_sequence
        self.updated = ProducerStateEntry(
            producer_id,
            current.producer_epoch,
            current.coordinator_epoch,
            current.last_timestamp,
            current.current_txn_first_offset,
        )

    @property
    def producer_id(self) -> int:
        return self.updated.producer_id

    def append(self, batch: RecordBatch) -> CompletedTxn | None:
        """Checks a batch and notes it; returns the transaction that it ends, if it is a marker that ends one.

        Raises InvalidProducerEpochError, OutOfOrderSequenceError, InvalidTxnStateError,
        TransactionCoordinatorFencedError, and InvalidRecordError for a control record that does not parse.
        """
        if batch.is_transactional:
            self.wrote_transactional = True
        if not batch.is_control:
            self._append_data(batch)
            return None
        record = next(iter_records(batch), None)
        # Compaction leaves empty control batches, which mean nothing.
        marker = None if record is None else parse_end_txn_marker(record)
        if record is None or marker is None:
            return None
        return self._append_marker(marker, batch.producer_epoch, batch.base_offset, record.timestamp)

    def _append_data(self, batch: RecordBatch) -> None:
        updated = self.updated
        epoch, sequence, first_offset = batch.producer_epoch, batch.base_sequence, batch.base_offset
        self._check_epoch(epoch, first_offset)
        if self.origin is AppendOrigin.CLIENT:
            self._check_sequence(epoch, sequence, first_offset)
        updated.set_epoch(epoch)
        updated.batches.append(
            BatchMetadata(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp)
        )
        updated.last_timestamp = batch.max_timestamp
        if updated.current_txn_first_offset is not None:
            if not batch.is_transactional:
                raise InvalidTxnStateError(
                    f"{self.topic_partition}: producer {self.producer_id} wrote a non-transactional batch inside its "
                    f"transaction from offset {updated.current_txn_first_offset}"
                )
        elif batch.is_transactional:
            updated.current_txn_first_offset = first_offset
            self.started.append(first_offset)

    def _check_epoch(self, epoch: int, offset: int) -> None:
        known = self.updated.producer_epoch
        if epoch >= known:
            return
        message = (
            f"{self.topic_partition}: producer {self.producer_id} wrote at offset {offset} with epoch {epoch}, "
            f"but its epoch is {known}"
        )
        if self.origin is not AppendOrigin.REPLICATION:
            raise InvalidProducerEpochError(message)
        # The leader has accepted it, so a follower must.
        logger.warning("%s", message)

    def _check_sequence(self, epoch: int, sequence: int, offset: int) -> None:
        updated, verification = self.updated, self.verification
        if verification is not None and sequence > verification.lowest_sequence:
            raise self._out_of_order(sequence, offset, f"{verification.lowest_sequence} is still to come")
        if epoch != updated.producer_epoch:
            if sequence != 0 and updated.producer_epoch != NO_PRODUCER_EPOCH:
                raise self._out_of_order(sequence, offset, f"epoch {epoch} must begin with 0")
            return
        if updated.batches:
            last = updated.last_sequence
        elif epoch == self._current_epoch:
            last = self._current_last_sequence
        else:
            last = NO_SEQUENCE
        if sequence != increment_sequence(last, 1) and self._current_epoch != NO_PRODUCER_EPOCH:
            raise self._out_of_order(sequence, offset, f"the last one is {last}")

    def _out_of_order(self, sequence: int, offset: int, why: str) -> OutOfOrderSequenceError:
        return OutOfOrderSequenceError(
            f"{self.topic_partition}: sequence {sequence} of producer {self.producer_id} at offset {offset} is out of "
            f"order: {why}"
        )

    def _append_marker(self, marker: EndTxnMarker, epoch: int, offset: int, timestamp: int) -> CompletedTxn | None:
        updated = self.updated
        self._check_epoch(epoch, offset)
        if updated.coordinator_epoch > marker.coordinator_epoch:
            message = (
                f"{self.topic_partition}: a marker of producer {self.producer_id} at offset {offset} has coordinator "
                f"epoch {marker.coordinator_epoch}, but {updated.coordinator_epoch} is known"
            )
            if self.origin is not AppendOrigin.REPLICATION:
                raise TransactionCoordinatorFencedError(message)
            logger.warning("%s", message)
        first_offset = updated.current_txn_first_offset
        updated.set_epoch(epoch)
        updated.current_txn_first_offset = None
        updated.coordinator_epoch = marker.coordinator_epoch
        updated.last_timestamp = timestamp
        if first_offset is None:
            return None
        aborted = marker.control_type is ControlType.ABORT
        return CompletedTxn(self.producer_id, first_offset, offset, aborted)
