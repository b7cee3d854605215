"""Fetching one range of one partition: own Fetch requests, the next in flight while the last is decoded.

The fetcher follows leader changes, out-of-range answers and preferred replicas (KIP-392), and gives raw record sets;
decoding is somebody else's.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from network.client.cluster_metadata import BrokerAddress
from network.client.connection import Connection
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from spark_jobs.cluster import ClusterMetadata
from spark_jobs.connection import socket_wrapper
from spark_jobs.options import EARLIEST, LATEST, ReadOptions
from spark_jobs.planning import Range
from timer.clock import Clock

logger = logging.getLogger(__name__)

# The last version that names topics instead of ids, so it works with and without topic ids.
FETCH_VERSION = 12
RETRY_BACKOFF_MS = 100

MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)


@dataclass(frozen=True, slots=True)
class RecordSet:
    """One answer: the offset asked for, raw batches (the first may begin before it, the last may be cut) and the
    aborted transactions that touch it."""

    offset: int
    records: memoryview
    aborted: list[tuple[int, int]]


class NextOffset(Protocol):
    """Offset after the last complete batch of a record set, or None when it holds none."""

    def __call__(self, records: memoryview) -> int | None: ...


class PartitionFetcher:
    """Iterates over the record sets of a range, in order. Memory is bounded by two answers."""

    def __init__(
        self,
        cluster: ClusterMetadata,
        options: ReadOptions,
        range_: Range,
        next_offset: NextOffset,
        clock: Clock,
        on_data_loss: Callable[[str], None],
        leader: BrokerAddress | None = None,
    ) -> None:
        """``leader`` is tried first; metadata is asked for when it is None or does not lead any more."""
        self._cluster = cluster
        self._options = options
        self._range = range_
        self._next_offset = next_offset
        self._clock = clock
        self._on_data_loss = on_data_loss
        self._idle = threading.Condition()
        self._connection: Connection | None = None
        self._preferred: int | None = None
        self._leader = leader
        self._max_bytes = options.partition_fetch_bytes

    def __iter__(self) -> Iterator[RecordSet]:
        offset = self._range.start
        deadline = self._deadline()
        in_flight = False
        try:
            while offset < self._range.end:
                try:
                    if not in_flight:
                        self._send(offset)
                    in_flight = False
                    answer = self._receive()
                except (OSError, ApiError) as error:
                    if isinstance(error, ApiError) and not error.code.retriable:
                        raise
                    self._moved(deadline, f"{error}")
                    continue
                code = ErrorCode.of(answer.error_code)
                if code in MOVED:
                    self._moved(deadline, code.name)
                    continue
                if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    offset = self._out_of_range(offset)
                    continue
                if code is not ErrorCode.NONE:
                    raise ApiError(code, f"fetch of {self._name} at offset {offset}")
                if answer.preferred_read_replica >= 0 and answer.preferred_read_replica != self._preferred:
                    self._preferred = answer.preferred_read_replica
                    self._disconnect()
                    continue
                records = _received(answer)
                following = self._next_offset(records)
                if following is None:
                    self._check_progress(offset, answer, len(records), deadline)
                    continue
                deadline = self._deadline()
                if following < self._range.end:
                    try:
                        self._send(following)
                        in_flight = True
                    except (OSError, ApiError):
                        self._disconnect()  # it is sent again after what is here already
                aborted = [(a.first_offset, a.producer_id) for a in answer.aborted_transactions or ()]
                yield RecordSet(offset, records, aborted)
                offset = max(offset, following)
        finally:
            self._disconnect()

    @property
    def _name(self) -> str:
        return f"{self._range.topic}-{self._range.partition}"

    def _deadline(self) -> int:
        return self._clock.monotonic_ms() + self._options.poll_timeout_ms

    def _send(self, offset: int) -> None:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.send_request(self._request(offset), FETCH_VERSION)

    def _connect(self) -> Connection:
        address = self._leader
        if address is None or self._preferred is not None:
            address = self._cluster.broker(self._range.topic, self._range.partition, self._preferred)
        wrap = socket_wrapper(self._options.security, self._clock)
        return Connection(address.host, address.port, self._options.client_id, self._clock, wrap=wrap)

    def _request(self, offset: int) -> FetchRequest:
        partition = FetchPartition(
            partition=self._range.partition, fetch_offset=offset, partition_max_bytes=self._max_bytes
        )
        return FetchRequest(
            max_wait_ms=self._options.fetch_max_wait_ms,
            min_bytes=self._options.fetch_min_bytes,
            max_bytes=max(self._options.fetch_max_bytes, self._max_bytes),
            isolation_level=1 if self._options.read_committed else 0,
            topics=[FetchTopic(topic=self._range.topic, partitions=[partition])],
            rack_id=self._options.client_rack,
        )

    def _receive(self) -> PartitionData:
        assert self._connection is not None
        response = self._connection.receive_response()
        assert isinstance(response, FetchResponse)
        if response.error_code != ErrorCode.NONE:
            raise ApiError(ErrorCode.of(response.error_code), f"fetch of {self._name}")
        return response.responses[0].partitions[0]

    def _moved(self, deadline: int, why: str) -> None:
        """The leader is elsewhere or unreachable: look it up again, until the poll timeout."""
        self._disconnect()
        self._preferred = None
        self._leader = None
        if self._clock.monotonic_ms() >= deadline:
            raise TimeoutError(
                f"no answer for {self._name} within kafkaConsumer.pollTimeoutMs "
                f"({self._options.poll_timeout_ms} ms); last reason: {why}"
            )
        logger.info("fetch of %s: %s; looking for its leader", self._name, why)
        with self._idle:
            self._clock.wait(self._idle, RETRY_BACKOFF_MS)
        self._cluster.refresh(self._range.topic)

    def _out_of_range(self, offset: int) -> int:
        partition = (self._range.topic, self._range.partition)
        begin = self._cluster.offsets({partition: EARLIEST})[partition]
        end = self._cluster.offsets({partition: LATEST})[partition]
        if offset < begin:
            self._on_data_loss(
                f"offsets {offset} to {min(begin, self._range.end) - 1} of {self._name} are no longer there"
            )
            return min(begin, self._range.end)
        self._on_data_loss(f"{self._name} ends at {end}, before offset {offset} that was there when the query planned")
        return self._range.end

    def _check_progress(self, offset: int, answer: PartitionData, received: int, deadline: int) -> None:
        if received:
            # The first batch is larger than what was asked for (brokers before Fetch version 3 cut it).
            self._max_bytes *= 2
        elif self._clock.monotonic_ms() >= deadline:
            raise TimeoutError(
                f"{self._name} gave no record from offset {offset} on within kafkaConsumer.pollTimeoutMs "
                f"({self._options.poll_timeout_ms} ms); its high watermark is {answer.high_watermark}"
            )

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _received(answer: PartitionData) -> memoryview:
    records = answer.records
    return records if isinstance(records, memoryview) else memoryview(b"")
