"""The load of ``odradek bench produce``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from broker.cli.client import describe
from broker.cli.errors import CommandError
from broker.cli.latencies import Latencies
from broker.cli.pipeline import Pipeline
from log.records.compression import codec_named
from log.records.record import BatchBuilder
from network.client.cluster_client import ClusterClient
from network.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from timer.clock import Clock

MB = 1024 * 1024
_ALPHABET = bytes(range(65, 91))
_RECORD_OVERHEAD = 16
_TIMEOUT_MS = 30_000


class _Batch(NamedTuple):
    partition: int
    first: int
    records: int
    begun_ns: int


class ProduceLoad:
    """Sends batches round the partitions, at most `in_flight` requests at a time. `run` once.

    A batch goes when it is full or when its first record has been due for `linger_ms`.
    """

    def __init__(
        self,
        client: ClusterClient,
        clock: Clock,
        topic: str,
        *,
        record_size: int,
        batch_bytes: int,
        codec: str,
        acks: int,
        in_flight: int,
        linger_ms: int,
    ) -> None:
        self._clock = clock
        self._topic = topic
        self._codec = codec_named(codec)
        self._acks = acks
        self._linger_ns = linger_ms * 1_000_000
        self._partitions = sorted(client.topic(topic).partitions)
        self._payload = bytes(_ALPHABET[n * 7 % 26] for n in range(record_size))
        self._in_a_batch = max(1, batch_bytes // (record_size + _RECORD_OVERHEAD))
        self._pause = threading.Condition()
        self._pipeline = Pipeline(client, topic, in_flight, self._acknowledged)
        self._batches: dict[int, _Batch] = {}
        self._throughput = -1
        self._sent = 0
        self._part = Latencies()
        self._started_ns = self._ended_ns = 0
        self.latencies = Latencies()
        self.records = 0
        """Acknowledged ones; with acks=0 those that were sent."""

    def run(self, records: int, throughput: int, interval_ms: int, max_ms: int, tell: Callable[[str], None]) -> None:
        """Send so many records, at so many a second unless it is -1, and end after `max_ms`. Raises CommandError with
        the first error of a broker."""
        self._throughput = throughput
        self._started_ns = self._ended_ns = told_ns = self._clock.monotonic_ns()
        before = turn = 0
        try:
            while self._sent < records and self._clock.monotonic_ns() - self._started_ns < max_ms * 1_000_000:
                count = self._wait_for_batch(records - self._sent)
                self._send(turn, self._partitions[turn % len(self._partitions)], count)
                turn += 1
                if self._ended_ns - told_ns >= interval_ms * 1_000_000:
                    tell(_line(self.records - before, self._size, self._ended_ns - told_ns, self._part))
                    told_ns, self._part, before = self._ended_ns, Latencies(), self.records
            self._pipeline.flush()
        finally:
            self._pipeline.close()

    @property
    def _size(self) -> int:
        return len(self._payload)

    def _due_ns(self, number: int) -> int:
        """When a record is due."""
        return self._started_ns + number * 1_000_000_000 // self._throughput

    def _wait_for_batch(self, left: int) -> int:
        """How many of the records that are left go now, at least one."""
        most = min(left, self._in_a_batch)
        if self._throughput < 0:
            return most
        goes_ns = min(self._due_ns(self._sent + most - 1), self._due_ns(self._sent) + self._linger_ns)
        while (now := self._clock.monotonic_ns()) < goes_ns:
            with self._pause:
                self._clock.wait(self._pause, (goes_ns - now) / 1_000_000)
        due = (now - self._started_ns) * self._throughput // 1_000_000_000 + 1
        return max(1, min(most, due - self._sent))

    def _send(self, number: int, partition: int, count: int) -> None:
        builder = BatchBuilder(base_offset=0, codec=self._codec)
        now = self._clock.wall_ms()
        for _ in range(count):
            builder.append(now, None, self._payload)
        data = PartitionProduceData(index=partition, records=builder.build())
        request = ProduceRequest(
            acks=self._acks,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
        )
        self._batches[number] = _Batch(partition, self._sent, count, self._clock.monotonic_ns())
        self._sent += count
        self._pipeline.send(number, partition, request)

    def _acknowledged(self, number: int, response: Any) -> None:
        batch = self._batches.pop(number)
        self._ended_ns = self._clock.monotonic_ns()
        if response is not None:  # there is none with acks=0
            answer = response.responses[0].partition_responses[0]
            if answer.error_code:
                text = describe(answer.error_code, answer.error_message)
                raise CommandError(f"{self._topic}-{batch.partition}: {text}; {self.records} records were sent before")
        if self._throughput < 0:  # all were due when there was room for them
            took = [((self._ended_ns - batch.begun_ns) // 1000, batch.records)]
        else:
            took = [((self._ended_ns - self._due_ns(batch.first + n)) // 1000, 1) for n in range(batch.records)]
        for us, times in took:
            self._part.add(us, times)
            self.latencies.add(us, times)
        self.records += batch.records

    def facts(self) -> dict[str, object]:
        """For programs; latencies in milliseconds."""
        seconds = max(1, self._ended_ns - self._started_ns) / 1e9
        return {
            "topic": self._topic,
            "records": self.records,
            "seconds": round(seconds, 3),
            "records_per_second": round(self.records / seconds, 1),
            "mb_per_second": round(self.records * self._size / MB / seconds, 3),
            "latency_ms": self.latencies.facts(),
        }

    def text(self) -> str:
        """The last line, in the words of Kafka's tool."""
        line = _line(self.records, self._size, self._ended_ns - self._started_ns, self.latencies)
        shares = ((50, "50th"), (95, "95th"), (99, "99th"), (99.9, "99.9th"))
        percentiles = ", ".join(f"{self.latencies.percentile_ms(each):.2f} ms {name}" for each, name in shares)
        return f"{line.removesuffix('.')}, {percentiles}."


def _line(records: int, size: int, duration_ns: int, latencies: Latencies) -> str:
    seconds = max(1, duration_ns) / 1e9
    return (
        f"{records} records sent, {records / seconds:.1f} records/sec ({records * size / MB / seconds:.2f} MB/sec), "
        f"{latencies.mean_ms:.2f} ms avg latency, {latencies.max_ms:.2f} ms max latency."
    )
