"""A producer of ready record batches: idempotent, in order by partition, one request in flight to each broker.

Batches wait in a queue by partition; while brokers work on what was sent, the caller makes the next batches. A batch
keeps its producer id and sequence over all its tries, so a broker that already has it says so instead of writing it
twice (KIP-98). With a transaction, what is sent is part of it, and the producer id is the transaction's.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from network.client.cluster_client import ClusterClient
from network.client.connection import Connection
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.init_producer_id import InitProducerIdRequest
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from network.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from spark_jobs.connection import socket_wrapper
from spark_jobs.encode.encoder import Batch
from spark_jobs.options import Partition
from spark_jobs.transaction import Transaction
from spark_jobs.write_options import WriteOptions
from timer.clock import Clock

logger = logging.getLogger(__name__)

RETRY_BACKOFF_MS = 100
MAX_SEQUENCE = 2**31 - 1

_WRITTEN = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
# The broker has lost what it knew of the producer: go on under a new id.
_FORGOTTEN = frozenset(
    {ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_CURES = {
    ErrorCode.MESSAGE_TOO_LARGE: "a single record is larger than the topic's max.message.bytes: make that larger",
    ErrorCode.RECORD_LIST_TOO_LARGE: "a single record is larger than the topic's segment.bytes: make that larger",
    ErrorCode.INVALID_RECORD: "a compacted topic takes no record without key",
}


class ProduceError(Exception):
    """A batch was refused, or not acknowledged within delivery.timeout.ms."""


@dataclass(slots=True)
class _Waiting:
    batch: Batch
    deadline_ms: int
    stamped: bool = False


@dataclass(slots=True)
class _InFlight:
    connection: Connection
    batches: dict[Partition, _Waiting] = field(default_factory=dict)


class Producer:
    """Sends batches and waits for them; ``close`` drops what is not acknowledged. Not thread-safe."""

    def __init__(
        self, options: WriteOptions, client: ClusterClient, clock: Clock, transaction: Transaction | None = None
    ) -> None:
        self._options = options
        self._client = client
        self._clock = clock
        self._pause = threading.Condition()
        self._queues: dict[Partition, deque[_Waiting]] = {}
        self._in_flight: dict[int, _InFlight] = {}
        self._connections: dict[int, Connection] = {}
        self._versions: dict[int, int] = {}
        self._buffered = 0
        self._transaction = transaction
        self._producer_id, self._producer_epoch = -1, -1
        if transaction is not None:
            self._producer_id, self._producer_epoch = transaction.producer_id, transaction.producer_epoch
        self._sequences: dict[Partition, int] = {}
        self.sent_records = 0
        self.sent_bytes = 0

    def partition_count(self, topic: str) -> int:
        """Partitions of a topic, which the broker may create now if it is set so (auto.create.topics.enable).

        Raises ProduceError when it is not there within max.block.ms.
        """
        deadline = self._clock.monotonic_ms() + self._options.max_block_ms
        while True:
            try:
                return len(self._client.topic(topic).partitions)
            except ApiError as error:
                if error.code is ErrorCode.INVALID_TOPIC_EXCEPTION:
                    raise ProduceError(f"{topic!r} is no topic name") from None
                if self._clock.monotonic_ms() >= deadline:
                    raise ProduceError(f"topic {topic} is not there ({error.code.name}): create it first") from None
            wanted = [MetadataRequestTopic(name=topic)]
            answer = self._client.call_any(MetadataRequest(topics=wanted, allow_auto_topic_creation=True))
            if answer.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise ProduceError(f"not allowed to write to topic {topic}")
            self._wait()

    def send(self, partition: Partition, batches: Iterable[Batch]) -> None:
        """Queue batches of a partition; waits for answers while too much is buffered. Raises ProduceError."""
        queue = self._queues.setdefault(partition, deque())
        for batch in batches:
            queue.append(_Waiting(batch, self._clock.monotonic_ms() + self._options.delivery_timeout_ms))
            self._buffered += len(batch.data)
            self._pump()
            while self._buffered > self._options.buffer_bytes:
                self._step()

    @property
    def topics(self) -> list[str]:
        """The topics that something was sent to, sorted."""
        return sorted({topic for topic, _ in self._queues})

    def flush(self) -> None:
        """Until everything is acknowledged. Raises ProduceError."""
        while self._buffered:
            self._step()

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._in_flight.clear()

    def _step(self) -> None:
        self._pump()
        if not self._in_flight:
            # No leader could be reached: look again.
            self._check_deadlines()
            self._wait()
            self._refresh()
            return
        for broker in list(self._in_flight):
            self._receive(broker)

    def _pump(self) -> None:
        """Give every idle broker that leads partitions with waiting batches one request."""
        busy = {partition for each in self._in_flight.values() for partition in each.batches}
        by_leader: dict[int, dict[Partition, _Waiting]] = {}
        sizes: dict[int, int] = {}
        for partition, queue in self._queues.items():
            if not queue or partition in busy:
                continue
            leader = self._leader(partition)
            if leader is None or leader in self._in_flight:
                continue
            size = sizes.get(leader, 0) + len(queue[0].batch.data)
            if leader in by_leader and size > self._options.request_bytes:
                continue
            sizes[leader] = size
            by_leader.setdefault(leader, {})[partition] = queue[0]
        for leader, batches in by_leader.items():
            self._send(leader, batches)

    def _leader(self, partition: Partition) -> int | None:
        try:
            found = self._client.topic(partition[0]).partitions.get(partition[1])
        except (OSError, ApiError):
            return None
        return found.leader if found is not None and found.leader >= 0 else None

    def _send(self, leader: int, batches: dict[Partition, _Waiting]) -> None:
        if self._transaction is not None:
            self._transaction.enlist(batches)
        topics: dict[str, list[PartitionProduceData]] = {}
        for (topic, partition), waiting in batches.items():
            self._stamp((topic, partition), waiting)
            topics.setdefault(topic, []).append(PartitionProduceData(index=partition, records=waiting.batch.data))
        request = ProduceRequest(
            transactional_id=None if self._transaction is None else self._transaction.transactional_id,
            acks=self._options.acks,
            timeout_ms=self._options.request_timeout_ms,
            topic_data=[TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
        )
        try:
            connection = self._connect(leader)
            connection.send_request(request, self._versions[leader])
        except (OSError, ApiError) as error:
            self._lost(leader, error)
            return
        self._in_flight[leader] = _InFlight(connection, batches)

    def _connect(self, leader: int) -> Connection:
        found = self._connections.get(leader)
        if found is None or found.closed:
            address = self._client.brokers().get(leader)
            if address is None:
                raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {leader}")
            self._versions[leader] = min(ProduceRequest.MAX_VERSION, self._client.versions(leader)[0][1])
            found = Connection(
                address.host,
                address.port,
                self._options.client_id,
                self._clock,
                socket_timeout_ms=self._options.request_timeout_ms,
                wrap=socket_wrapper(self._options.security, self._clock),
            )
            self._connections[leader] = found
        return found

    def _stamp(self, partition: Partition, waiting: _Waiting) -> None:
        if waiting.stamped:
            return
        sequence = -1
        if self._options.idempotent:
            if self._producer_id < 0:
                self._new_producer_id()
            sequence = self._sequences.get(partition, 0)
            self._sequences[partition] = (sequence + waiting.batch.count) & MAX_SEQUENCE
        waiting.batch.stamp(
            self._producer_id, self._producer_epoch, sequence, transactional=self._transaction is not None
        )
        waiting.stamped = True

    def _new_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        deadline = self._clock.monotonic_ms() + self._options.max_block_ms
        while True:
            answer = self._client.call_any(request)
            code = ErrorCode.of(answer.error_code)
            if code is ErrorCode.NONE:
                break
            if not code.retriable or self._clock.monotonic_ms() >= deadline:
                raise ProduceError(f"no producer id: {code.name}; set kafka.enable.idempotence to false to go without")
            self._wait()
        self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()

    def _receive(self, broker: int) -> None:
        request = self._in_flight[broker]
        try:
            response = request.connection.receive_response(self._options.request_timeout_ms)
        except OSError as error:
            del self._in_flight[broker]
            self._lost(broker, error)
            return
        del self._in_flight[broker]
        assert isinstance(response, ProduceResponse)
        again = False
        for topic in response.responses:
            for each in topic.partition_responses:
                partition = (topic.name, each.index)
                code = ErrorCode.of(each.error_code)
                if code in _WRITTEN:
                    self._written(partition)
                elif code in _FORGOTTEN and self._options.idempotent and self._transaction is None:
                    self._restamp(partition, code)
                elif code in _TOO_LARGE and self._queues[partition][0].batch.count > 1:
                    self._split(partition, code)
                elif code.retriable:
                    logger.info("produce to %s-%d: %s, trying again", topic.name, each.index, code.name)
                    again = True
                else:
                    cure = f"; {_CURES[code]}" if code in _CURES else ""
                    why = each.error_message or code.message
                    raise ProduceError(f"{topic.name}-{each.index} refused records: {code.name}, {why}{cure}")
        if again:
            self._check_deadlines()
            self._wait()
            self._refresh()

    def _written(self, partition: Partition) -> None:
        done = self._queues[partition].popleft()
        self._buffered -= len(done.batch.data)
        self.sent_records += done.batch.count
        self.sent_bytes += len(done.batch.data)

    def _split(self, partition: Partition, code: ErrorCode) -> None:
        """The first batch of a partition goes on as two, as the topic takes only smaller ones (KIP-126). They have the
        sequences that it had, so those behind it keep theirs."""
        queue = self._queues[partition]
        whole = queue.popleft()
        logger.info("%s-%d refused a batch of %d bytes (%s): split", *partition, len(whole.batch.data), code.name)
        for part in reversed(whole.batch.split()):
            self._buffered += len(part.data)
            queue.appendleft(_Waiting(part, whole.deadline_ms, stamped=True))
        self._buffered -= len(whole.batch.data)

    def _restamp(self, partition: Partition, code: ErrorCode) -> None:
        """The partition's batches go under a new producer id; those of others keep theirs over their tries."""
        logger.warning("%s-%d has no state of this producer (%s): a new producer id", *partition, code.name)
        self._check_deadlines()
        self._new_producer_id()
        for waiting in self._queues[partition]:
            waiting.stamped = False

    def _lost(self, broker: int, error: Exception) -> None:
        logger.info("produce to broker %d: %s, trying again", broker, error)
        gone = self._connections.pop(broker, None)
        if gone is not None:
            gone.close()
        self._check_deadlines()
        self._wait()
        self._refresh()

    def _check_deadlines(self) -> None:
        now = self._clock.monotonic_ms()
        for (topic, partition), queue in self._queues.items():
            if queue and queue[0].deadline_ms <= now:
                raise ProduceError(
                    f"records for {topic}-{partition} were not acknowledged within kafka.delivery.timeout.ms "
                    f"({self._options.delivery_timeout_ms} ms)"
                )

    def _refresh(self) -> None:
        topics = sorted({topic for (topic, _), queue in self._queues.items() if queue})
        try:
            self._client.metadata(topics)
        except (OSError, ApiError) as error:
            logger.info("metadata of %s: %s", ", ".join(topics), error)

    def _wait(self) -> None:
        with self._pause:
            self._clock.wait(self._pause, RETRY_BACKOFF_MS)
