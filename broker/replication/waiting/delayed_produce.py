"""A produce with acks=all that waits for the in-sync replicas."""

from __future__ import annotations

from collections.abc import Callable

from broker.replication.metrics import ReplicaMetrics
from broker.replication.partitions import Partitions
from broker.replication.results import PartitionAppendResult
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode
from timer.purgatory import DelayedOperation

ProduceCallback = Callable[[dict[TopicPartition, PartitionAppendResult]], None]


class DelayedProduce(DelayedOperation):
    """Complete when every partition that was appended has its high watermark beyond the append, or has failed.

    Partitions still waiting at the timeout answer REQUEST_TIMED_OUT; their records stay.
    """

    def __init__(
        self,
        timeout_ms: int,
        results: dict[TopicPartition, PartitionAppendResult],
        partitions: Partitions,
        metrics: ReplicaMetrics,
        callback: ProduceCallback,
    ) -> None:
        super().__init__(timeout_ms)
        self._results = results
        self._partitions = partitions
        self._metrics = metrics
        self._callback = callback
        self._pending = [tp for tp, result in results.items() if result.error is ErrorCode.NONE]
        for tp in self._pending:
            results[tp].error = ErrorCode.REQUEST_TIMED_OUT

    def try_complete(self) -> bool:
        still_pending = []
        for tp in self._pending:
            result = self._results[tp]
            try:
                partition = self._partitions.get_or_raise(tp)
                done, error = partition.has_enough_replicas(result.last_offset + 1)
            except ApiError as failure:
                done, error = True, failure.code
            if done:
                result.error = error
            else:
                still_pending.append(tp)
        self._pending = still_pending
        return self.force_complete() if not still_pending else False

    def on_complete(self) -> None:
        self._callback(self._results)

    def on_expiration(self) -> None:
        self._metrics.produce_expired.mark()
        for tp in self._pending:
            self._metrics.produce_expired_for(tp).mark()
