"""What driver and executors ask the cluster, over one client."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType

from network.client.cluster_client import ClusterClient
from network.client.cluster_metadata import BrokerAddress, TopicMetadata
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from spark_jobs.connection import socket_wrapper
from spark_jobs.group_offsets import COMMIT_TIMEOUT_MS, GroupCommits, committed_offsets
from spark_jobs.options import EARLIEST, LATEST, Partition, ReadOptions
from timer.clock import Clock, SystemClock

# How long a topic that brokers do not know is asked for again: it may have been made a moment ago, and a broker that
# has just started knows nothing for a moment.
TOPIC_PATIENCE_MS = 5_000
# How long offsets are asked for while partitions change their leader.
OFFSETS_TIMEOUT_MS = 60_000
_MOVE_BACKOFF_MS = 100
_CALL_TIMEOUT_MS = 3_000  # of the first try of a request; a broker that has just died answers nothing
_NOT_YET = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE})
_INTERNAL_BY_PATTERN = frozenset({"__consumer_offsets", "__transaction_state"})


class SubscriptionError(Exception):
    """A subscribed topic or assigned partition does not exist."""


class DataLossError(Exception):
    """Records that the query should read are gone and failOnDataLoss is true."""


def open_client(options: ReadOptions, request_timeout_ms: int = 30_000) -> ClusterClient:
    """A client for the query's cluster; close it or use it as a context manager."""
    clock = SystemClock()
    return ClusterClient(
        options.bootstrap_servers,
        options.client_id,
        clock,
        request_timeout_ms=request_timeout_ms,
        topic_patience_ms=TOPIC_PATIENCE_MS,
        wrap=socket_wrapper(options.security, clock),
    )


class ClusterMetadata:
    """Partitions and offsets for planning. Retries ``fetchOffset.numRetries`` times beyond the client's own."""

    def __init__(self, options: ReadOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = SystemClock() if clock is None else clock
        self._client = open_client(options)
        self._for_group: ClusterClient | None = None
        self._pause = threading.Condition()

    def __enter__(self) -> ClusterMetadata:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        if self._for_group is not None:
            self._for_group.close()

    def partitions(self, options: ReadOptions, *, tolerate_missing: bool = False) -> list[Partition]:
        """Partitions of the subscription, sorted.

        Raises SubscriptionError for a named topic or assigned partition that does not exist, unless
        ``tolerate_missing`` says that it is left out; a pattern that matches nothing is an empty list.
        """
        subscription = options.subscription
        if subscription.pattern is not None:
            known = self._client.metadata().topics
            names = [n for n in known if subscription.matches(n) and n not in _INTERNAL_BY_PATTERN]
        else:
            names = list(subscription.topics or subscription.assignment)
            known = self._named(names, tolerate_missing)
            missing = [n for n in names if n not in known or known[n].error is not ErrorCode.NONE]
            if missing and not tolerate_missing:
                raise SubscriptionError(
                    ", ".join(f"{n}: {known[n].error.name if n in known else 'unknown'}" for n in missing)
                )
            names = [n for n in names if n not in missing]
        found: list[Partition] = []
        for name in names:
            existing = known[name].partitions
            wanted = subscription.assignment.get(name)
            for partition in existing if wanted is None else wanted:
                if partition not in existing:
                    if tolerate_missing:
                        continue
                    raise SubscriptionError(f"{name} has no partition {partition}; it has {len(existing)}")
                found.append((name, partition))
        return sorted(found)

    def _named(self, names: list[str], tolerate_missing: bool) -> dict[str, TopicMetadata]:
        """Topics as brokers know them, asked for again while some are not there yet (unless that is tolerated)."""
        deadline = self._clock.monotonic_ms() + TOPIC_PATIENCE_MS
        while True:
            known = self._client.metadata(names).topics
            waiting = any(name not in known or known[name].error in _NOT_YET for name in names)
            if not waiting or tolerate_missing or self._clock.monotonic_ms() >= deadline:
                return known
            self._wait(_MOVE_BACKOFF_MS)

    def broker(self, topic: str, partition: int, preferred: int | None) -> BrokerAddress:
        """Where to fetch a partition: the preferred replica if it is live, else the leader.

        Raises ApiError or OSError when there is no leader at the moment.
        """
        brokers = self._client.brokers()
        if preferred is not None and preferred in brokers:
            return brokers[preferred]
        return brokers[self._leader(topic, partition)]

    def leader(self, topic: str, partition: int) -> BrokerAddress | None:
        """The leader as last heard of, None where there is none or it can't be told: a hint for tasks."""
        with contextlib.suppress(OSError, ApiError):
            return self.broker(topic, partition, None)
        return None

    def refresh(self, topic: str) -> None:
        """Ask again who leads a topic's partitions; a failure is left for the next attempt."""
        with contextlib.suppress(OSError, ApiError):
            self._client.topic(topic, refresh=True)

    def offsets(self, wanted: Mapping[Partition, int]) -> dict[Partition, int]:
        """Offsets for -2 (earliest) and -1 (latest; the last stable offset when reading committed)."""
        assert all(mark in (EARLIEST, LATEST) for mark in wanted.values())
        return {partition: answer.offset for partition, answer in self._list_offsets(wanted).items()}

    def offsets_by_timestamp(self, wanted: Mapping[Partition, int]) -> dict[Partition, int | None]:
        """First offset at or after a timestamp (ms), None when there is none."""
        answers = self._list_offsets(wanted)
        return {partition: None if a.offset < 0 else a.offset for partition, a in answers.items()}

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Offsets of the query's group. Waits while a transaction is about to change them; raises ApiError, OSError."""
        assert self._options.group_id is not None
        started = self._clock.monotonic_ms()
        wanted = list(partitions)
        while True:
            try:
                return committed_offsets(self._client, self._options.group_id, wanted)
            except ApiError as error:
                if not error.code.retriable or self._clock.monotonic_ms() - started >= OFFSETS_TIMEOUT_MS:
                    raise
            self._wait(_MOVE_BACKOFF_MS)

    def group_commits(self) -> GroupCommits | None:
        """Who commits to the query's group, if it has one. With connections of its own, which give up soon."""
        group = self._options.group_id
        if group is None:
            return None
        self._for_group = open_client(self._options, COMMIT_TIMEOUT_MS)
        return GroupCommits(self._for_group, group, self._clock)

    def _list_offsets(self, wanted: Mapping[Partition, int]) -> dict[Partition, ListOffsetsPartitionResponse]:
        """Answers for all; what fails is asked for again at the leader of then.

        Errors that pass have a minute, a partition that nobody knows a few seconds, and any failure
        ``fetchOffset.numRetries`` more tries. Raises ApiError or OSError, the last one.
        """
        started = self._clock.monotonic_ms()
        found: dict[Partition, ListOffsetsPartitionResponse] = {}
        attempt = 0
        while True:
            left = {partition: mark for partition, mark in wanted.items() if partition not in found}
            failure = self._list_offsets_once(left, found, min(_CALL_TIMEOUT_MS << attempt, OFFSETS_TIMEOUT_MS))
            if failure is None:
                return found
            passed = self._clock.monotonic_ms() - started
            if attempt >= self._options.fetch_retries and passed >= _patience(failure):
                raise failure
            attempt += 1
            self._wait(max(self._options.fetch_retry_interval_ms, _MOVE_BACKOFF_MS))
            with contextlib.suppress(OSError, ApiError):
                self._client.metadata(sorted({topic for topic, _ in left}))

    def _list_offsets_once(
        self, wanted: Mapping[Partition, int], found: dict[Partition, ListOffsetsPartitionResponse], timeout_ms: int
    ) -> Exception | None:
        """Ask every leader once and add what it knows; gives one of the failures."""
        failure: Exception | None = None
        by_leader: dict[int, list[Partition]] = {}
        for topic, partition in wanted:
            try:
                by_leader.setdefault(self._leader(topic, partition), []).append((topic, partition))
            except (OSError, ApiError) as error:
                failure = error
        for leader, partitions in by_leader.items():
            topics: dict[str, list[ListOffsetsPartition]] = {}
            for topic, partition in partitions:
                topics.setdefault(topic, []).append(
                    ListOffsetsPartition(partition_index=partition, timestamp=wanted[topic, partition])
                )
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=1 if self._options.read_committed else 0,
                topics=[ListOffsetsTopic(name=name, partitions=entries) for name, entries in topics.items()],
            )
            try:
                response = self._client.call_broker(leader, request, timeout_ms)
            except (OSError, ApiError) as error:
                failure = error
                continue
            for answer in response.topics:
                for entry in answer.partitions:
                    if entry.error_code:
                        name = f"offsets of {answer.name}-{entry.partition_index}"
                        failure = ApiError(ErrorCode.of(entry.error_code), name)
                    else:
                        found[answer.name, entry.partition_index] = entry
        return failure

    def _leader(self, topic: str, partition: int) -> int:
        """Raises ApiError when there is no such partition, or no leader of it at the moment."""
        known = self._client.topic(topic).partitions.get(partition)
        if known is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")
        if known.leader not in self._client.brokers():
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader at the moment")
        return known.leader

    def _wait(self, duration_ms: int) -> None:
        with self._pause:
            self._clock.wait(self._pause, duration_ms)


def _patience(failure: Exception) -> int:
    """How long a failure is borne, in ms."""
    if isinstance(failure, ApiError):
        if failure.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return TOPIC_PATIENCE_MS
        return OFFSETS_TIMEOUT_MS if failure.code.retriable else 0
    return OFFSETS_TIMEOUT_MS


def data_loss_reporter(options: ReadOptions, warn: Callable[[str], None]) -> Callable[[str], None]:
    """What to do when records are gone: fail or warn, as failOnDataLoss says."""

    def report(what: str) -> None:
        if options.fail_on_data_loss:
            raise DataLossError(f"{what}; set failOnDataLoss to false to read on without them")
        warn(f"{what}; reading on because failOnDataLoss is false")

    return report
