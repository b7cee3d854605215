"""A DeleteRecords that waits for every live replica to raise its log start."""

from __future__ import annotations

from collections.abc import Callable

from broker.replication.metrics import ReplicaMetrics
from broker.replication.partitions import Partitions
from broker.replication.results import DeleteRecordsResult
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode
from timer.purgatory import DelayedOperation

DeleteRecordsCallback = Callable[[dict[TopicPartition, DeleteRecordsResult]], None]


class DelayedDeleteRecords(DelayedOperation):
    """Complete when the low watermark of every partition has reached the offset asked for, or the partition failed."""

    def __init__(
        self,
        timeout_ms: int,
        results: dict[TopicPartition, DeleteRecordsResult],
        partitions: Partitions,
        metrics: ReplicaMetrics,
        callback: DeleteRecordsCallback,
    ) -> None:
        super().__init__(timeout_ms)
        self._results = results
        self._partitions = partitions
        self._metrics = metrics
        self._callback = callback
        self._pending = [
            tp
            for tp, result in results.items()
            if result.error is ErrorCode.NONE and result.low_watermark < result.requested_offset
        ]

    def try_complete(self) -> bool:
        still_pending = []
        for tp in self._pending:
            asked = self._results[tp].requested_offset
            try:
                low_watermark = self._partitions.get_or_raise(tp).low_watermark()
            except ApiError as error:
                self._results[tp] = DeleteRecordsResult(error.code, asked)
                continue
            if low_watermark >= asked:
                self._results[tp] = DeleteRecordsResult(ErrorCode.NONE, asked, low_watermark)
            else:
                still_pending.append(tp)
        self._pending = still_pending
        return self.force_complete() if not still_pending else False

    def on_complete(self) -> None:
        for tp in self._pending:
            # The low watermark is that from when the request came.
            self._results[tp] = self._results[tp]._replace(error=ErrorCode.REQUEST_TIMED_OUT)
        self._callback(self._results)

    def on_expiration(self) -> None:
        self._metrics.delete_records_expired.mark(len(self._pending))
