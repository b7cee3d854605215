"""An election whose outcome has to reach this broker's metadata before it is reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.cluster.metadata_cache import MetadataCache
from controller.election_requests import ElectionResult
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from timer.purgatory import DelayedOperation

Results = dict[TopicPartition, ElectionResult]


class DelayedElectLeader(DelayedOperation):
    """Complete when the metadata shows every expected leader; the rest answers REQUEST_TIMED_OUT at the timeout."""

    def __init__(
        self,
        timeout_ms: int,
        results: Results,
        expected: Mapping[TopicPartition, int],
        metadata_cache: MetadataCache,
        callback: Callable[[Results], None],
    ) -> None:
        super().__init__(timeout_ms)
        self._results = results
        self._expected = expected
        self._metadata_cache = metadata_cache
        self._callback = callback

    def _waiting(self) -> list[TopicPartition]:
        snapshot = self._metadata_cache.snapshot
        waiting = []
        for tp, leader in self._expected.items():
            state = snapshot.partition(tp.topic, tp.partition)
            if state is None or state.leader != leader:
                waiting.append(tp)
        return waiting

    def try_complete(self) -> bool:
        return False if self._waiting() else self.force_complete()

    def on_complete(self) -> None:
        for tp in self._waiting():
            self._results[tp] = ElectionResult(
                ErrorCode.REQUEST_TIMED_OUT, "Timed out waiting for the metadata to show the election"
            )
        self._callback(self._results)

    def on_expiration(self) -> None:
        """The answer has been given on completion."""
