"""What a coordinator needs of its internal topic. `internal_topic` satisfies it with the replica manager."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from log.records.batch import RecordBatch
from log.records.old_formats import LegacyBatch
from network.protocol.errors import ErrorCode

Batch = RecordBatch | LegacyBatch
ALL_REPLICAS = -1


class CoordinatorLog(Protocol):
    """The partitions of one internal topic."""

    def append(
        self,
        partition: int,
        batch: bytes | bytearray,
        required_acks: int,
        timeout_ms: int,
        on_done: Callable[[ErrorCode, int], None],
        transactional_id: str | None = None,
    ) -> None:
        """Append one batch; `on_done` gets the error and the batch's offset, possibly on another thread.

        With a transactional id the leader first verifies that the partition belongs to its transaction (KIP-890).
        """

    def read(self, partition: int, buffer_bytes: int) -> Iterable[Batch]:
        """All batches from the log start offset to the log end offset. Raises LookupError without a local log."""

    def is_committed(self, partition: int) -> bool:
        """Whether all of the partition is below its high watermark, so that later leaders have it, too.

        True where the partition is not here.
        """

    def is_local(self, partition: int) -> bool:
        """Whether this broker has the partition's log."""

    def max_batch_bytes(self, partition: int) -> int:
        """The topic's `max.message.bytes`."""
