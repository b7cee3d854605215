"""Answers to topic administration that wait until this broker's metadata shows the change. Keys are topic names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from broker.cluster.metadata_cache import MetadataCache
from network.protocol.errors import ErrorCode
from timer.purgatory import DelayedOperation


class HasError(Protocol):
    error_code: int


ResultT = TypeVar("ResultT", bound=HasError)


class DelayedCreatePartitions(DelayedOperation):
    """Complete when every partition of every topic that was created or grown without error has a leader.

    Topics still waiting at the timeout answer REQUEST_TIMED_OUT although their creation goes on.
    """

    def __init__(
        self,
        timeout_ms: int,
        results: Mapping[str, ResultT],
        partitions: Mapping[str, int],
        metadata_cache: MetadataCache,
        callback: Callable[[], None],
    ) -> None:
        """`partitions` is how many partitions each topic has to have; topics with an error are not waited for."""
        super().__init__(timeout_ms)
        self._results = results
        self._partitions = partitions
        self._metadata_cache = metadata_cache
        self._callback = callback

    def _waiting(self) -> list[str]:
        snapshot = self._metadata_cache.snapshot
        waiting = []
        for topic, result in self._results.items():
            if result.error_code == ErrorCode.NONE:
                known = snapshot.topics.get(topic, {})
                states = (known.get(index) for index in range(self._partitions[topic]))
                if any(state is None or state.leader == -1 for state in states):
                    waiting.append(topic)
        return waiting

    def try_complete(self) -> bool:
        return False if self._waiting() else self.force_complete()

    def on_complete(self) -> None:
        for topic in self._waiting():
            self._results[topic].error_code = ErrorCode.REQUEST_TIMED_OUT
        self._callback()

    def on_expiration(self) -> None:
        """The answer has been given on completion."""


class DelayedDeleteTopics(DelayedOperation):
    """Complete when no topic that was deleted without error is in the metadata any more."""

    def __init__(
        self,
        timeout_ms: int,
        results: dict[str, ErrorCode],
        metadata_cache: MetadataCache,
        callback: Callable[[], None],
    ) -> None:
        super().__init__(timeout_ms)
        self._results = results
        self._metadata_cache = metadata_cache
        self._callback = callback

    def _waiting(self) -> list[str]:
        known = self._metadata_cache.snapshot.topics
        return [topic for topic, error in self._results.items() if error is ErrorCode.NONE and topic in known]

    def try_complete(self) -> bool:
        return False if self._waiting() else self.force_complete()

    def on_complete(self) -> None:
        for topic in self._waiting():
            self._results[topic] = ErrorCode.REQUEST_TIMED_OUT
        self._callback()

    def on_expiration(self) -> None:
        """The answer has been given on completion."""
