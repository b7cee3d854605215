"""An internal topic in memory, in place of the replicated one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.coordinator.coordinator_log import Batch
from log.records.batch import RecordBatch
from log.records.record import ControlType, EndTxnMarker, build_end_txn_marker, iter_records
from network.protocol.errors import ErrorCode


class MemoryTopic:
    """Appends are acknowledged at once, or by `acknowledge` after `hold()`.

    `error` is the answer of every append that follows, `errors` those of the next ones. `committed`: whether
    all of it is below the high watermarks.
    """

    def __init__(self, partitions: int = 1) -> None:
        self.batches: dict[int, list[RecordBatch]] = {partition: [] for partition in range(partitions)}
        self.error = ErrorCode.NONE
        self.errors: list[ErrorCode] = []
        self.acks: list[int] = []
        self.committed = True
        self._held: list[Callable[[ErrorCode], None]] | None = None

    def append(
        self,
        partition: int,
        batch: bytes | bytearray,
        required_acks: int,
        timeout_ms: int,
        on_done: Callable[[ErrorCode, int], None],
        transactional_id: str | None = None,
    ) -> None:
        error = self.errors.pop(0) if self.errors else self.error
        if error is not ErrorCode.NONE:
            self._settle(lambda _: on_done(error, -1))
            return
        offset = self._write(partition, batch)
        self.acks.append(required_acks)
        self._settle(lambda outcome: on_done(outcome, offset))

    def hold(self) -> None:
        self._held = []

    def acknowledge(self) -> None:
        held, self._held = self._held or [], None
        for settle in held:
            settle(ErrorCode.NONE)

    def time_out(self) -> None:
        """What was held stays in the log, and is not acknowledged in time."""
        held, self._held = self._held or [], None
        for settle in held:
            settle(ErrorCode.REQUEST_TIMED_OUT)

    def marker(self, partition: int, producer_id: int, *, commit: bool) -> None:
        control = ControlType.COMMIT if commit else ControlType.ABORT
        self._write(partition, build_end_txn_marker(producer_id, 0, EndTxnMarker(control, 0), 0))

    def read(self, partition: int, buffer_bytes: int) -> Iterable[Batch]:
        return list(self.batches[partition])

    def is_committed(self, partition: int) -> bool:
        return self.committed

    def is_local(self, partition: int) -> bool:
        return partition in self.batches

    def max_batch_bytes(self, partition: int) -> int:
        return 1_000_000

    def entries(self) -> list[tuple[bytes, bytes | None]]:
        """Key and value of every record, by partition."""
        return [
            (bytes(record.key or b""), record.value)
            for batches in self.batches.values()
            for batch in batches
            for record in iter_records(batch)
        ]

    def _write(self, partition: int, batch: bytes | bytearray) -> int:
        batches = self.batches[partition]
        offset = batches[-1].next_offset if batches else 0
        view = RecordBatch(bytearray(batch))
        view.set_base_offset(offset)
        batches.append(view)
        return offset

    def _settle(self, settle: Callable[[ErrorCode], None]) -> None:
        if self._held is None:
            settle(ErrorCode.NONE)
        else:
            self._held.append(settle)
