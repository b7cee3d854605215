"""Which transactions a cleaning pass is inside of, as it walks a log from front to back."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from log.files.txn_index import AbortedTxn, TransactionIndex
from log.records.batch import RecordBatch
from log.records.record import ControlType, control_type_of, iter_records


@dataclass(slots=True)
class _Aborted:
    txn: AbortedTxn
    seen_data: bool = False


class CleanedTransactions:
    """Tells for each batch whether its transaction was aborted, and for each marker whether it is still needed.

    `index` receives the aborted transactions whose data still lies in the log.
    """

    def __init__(self, index: TransactionIndex | None = None) -> None:
        self.index = index
        self._committed: set[int] = set()
        self._aborted: dict[int, _Aborted] = {}
        # Aborted transactions that have not begun yet, by first offset.
        self._coming: list[tuple[int, AbortedTxn]] = []

    def add_aborted(self, txns: Iterable[AbortedTxn]) -> None:
        """Announces aborted transactions that overlap what is read next; known ones may be announced again."""
        for txn in txns:
            heapq.heappush(self._coming, (txn.first_offset, txn))

    def on_data_batch(self, batch: RecordBatch) -> bool:
        """Whether the batch belongs to an aborted transaction."""
        self._begin_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        aborted = self._aborted.get(batch.producer_id)
        if aborted is None:
            self._committed.add(batch.producer_id)
            return False
        aborted.seen_data = True
        return True

    def on_control_batch(self, batch: RecordBatch) -> bool:
        """Whether the marker has outlived the data of its transaction, or the batch is empty already."""
        self._begin_up_to(batch.last_offset)
        record = next(iter_records(batch), None)
        if record is None:
            return True
        match control_type_of(record.key):
            case ControlType.ABORT:
                aborted = self._aborted.pop(batch.producer_id, None)
                if aborted is None or not aborted.seen_data:
                    return True
                if self.index is not None:
                    self.index.append(aborted.txn)
                return False
            case ControlType.COMMIT:
                if batch.producer_id in self._committed:
                    self._committed.remove(batch.producer_id)
                    return False
                return True
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            _, txn = heapq.heappop(self._coming)
            self._aborted.setdefault(txn.producer_id, _Aborted(txn))
