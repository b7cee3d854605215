"""An internal topic through the replica manager: appending, with the verification of transactions, and reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from broker.coordinator.batch_verification import Ask, Errors, Guards, verify_batches
from broker.coordinator.coordinator_log import Batch
from log.partition_log import PartitionLog
from log.records.old_formats import iter_entries
from log.records.validation import AppendOrigin
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.replication.replica_manager import ReplicaManager

_DEFAULT_MAX_BATCH_BYTES = 1_048_588


class InternalTopic:
    """A `CoordinatorLog`. Thread-safe.

    What an append puts off (checks of purgatories) is run by whoever holds no lock any more: the dispatcher after a
    handler, a worker after a step.
    """

    def __init__(self, name: str, replica_manager: ReplicaManager, ask: Ask) -> None:
        """`ask` asks the coordinators of transactional batches."""
        self.name = name
        self._replica_manager = replica_manager
        self._ask = ask

    def append(
        self,
        partition: int,
        batch: bytes | bytearray,
        required_acks: int,
        timeout_ms: int,
        on_done: Callable[[ErrorCode, int], None],
        transactional_id: str | None = None,
    ) -> None:
        """Append one batch; `on_done` gets the error and the batch's offset, possibly on another thread."""
        tp = TopicPartition(self.name, partition)

        def append(guards: Guards, errors: Errors) -> None:
            if errors:
                on_done(errors[tp], -1)
                return
            self._replica_manager.append_records(
                timeout_ms,
                required_acks,
                {tp: batch},
                AppendOrigin.COORDINATOR,
                lambda results: on_done(results[tp].error, results[tp].base_offset),
                internal_topics_allowed=True,
                guards=guards,
            )

        if transactional_id is None:
            append({}, {})
        else:
            verify_batches(self._ask, self._replica_manager.partitions.get_log, transactional_id, {tp: batch}, append)

    def read(self, partition: int, buffer_bytes: int) -> Iterator[Batch]:
        """All batches of the partition, `buffer_bytes` at a time. Raises LookupError without a local log."""
        log = self._log(partition)
        if log is None:
            raise LookupError(f"{self.name}-{partition} has no local log")
        yield from read_batches(log, buffer_bytes)

    def is_committed(self, partition: int) -> bool:
        log = self._log(partition)
        return log is None or log.high_watermark >= log.log_end_offset

    def is_local(self, partition: int) -> bool:
        """Whether this broker has the partition's log."""
        return self._log(partition) is not None

    def max_batch_bytes(self, partition: int) -> int:
        """The topic's `max.message.bytes` (the default's without a local log)."""
        log = self._log(partition)
        return _DEFAULT_MAX_BATCH_BYTES if log is None else int(log.config.max_message_bytes)

    def _log(self, partition: int) -> PartitionLog | None:
        return self._replica_manager.partitions.get_log(TopicPartition(self.name, partition))


def read_batches(log: PartitionLog, chunk_bytes: int) -> Iterator[Batch]:
    """All batches between log start and log end offset, read `chunk_bytes` at a time.

    Raises EOFError when the log gives nothing before its end: the load is not complete then.
    """
    position, end = log.log_start_offset, log.log_end_offset
    while position < end:
        found = log.read(position, chunk_bytes, min_one_message=True)
        try:
            data = found.records.read()
        finally:
            found.records.release()
        following = position
        for batch in iter_entries(data):
            yield batch
            following = batch.last_offset + 1
        if following <= position:
            raise EOFError(f"{log.topic_partition} ends at {position}, before its log end offset {end}")
        position = following
