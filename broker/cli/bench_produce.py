"""The load of ``odradek bench produce``."""

from __future__ import annotations

import threading
from collections.abc import Callable

from broker.cli.client import describe
from broker.cli.errors import CommandError
from broker.cli.latencies import Latencies
from log.records.compression import codec_named
from log.records.record import BatchBuilder
from network.client.cluster_client import ClusterClient
from network.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from timer.clock import Clock

MB = 1024 * 1024
_ALPHABET = bytes(range(65, 91))
_RECORD_OVERHEAD = 16
_TIMEOUT_MS = 30_000


class ProduceLoad:
    """Sends batches round the partitions, one request at a time. `run` once."""

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
    ) -> None:
        self._client = client
        self._clock = clock
        self._topic = topic
        self._codec = codec_named(codec)
        self._acks = acks
        self._partitions = sorted(client.topic(topic).partitions)
        self._payload = bytes(_ALPHABET[n * 7 % 26] for n in range(record_size))
        self._in_a_batch = max(1, batch_bytes // (record_size + _RECORD_OVERHEAD))
        self._pause = threading.Condition()
        self._started_ns = self._ended_ns = 0
        self.latencies = Latencies()
        self.records = 0

    def run(self, records: int, throughput: int, interval_ms: int, max_ms: int, tell: Callable[[str], None]) -> None:
        """Send so many records, at so many a second unless it is -1, and end after `max_ms`. Raises CommandError with
        the first error of a broker."""
        self._started_ns = self._ended_ns = self._clock.monotonic_ns()
        told_ns, part, before = self._started_ns, Latencies(), 0
        turn = 0
        while self.records < records and self._ended_ns - self._started_ns < max_ms * 1_000_000:
            due = min(records, self._wait_until_due(throughput, records)) - self.records
            count = min(due, self._in_a_batch)
            begun_ns = self._clock.monotonic_ns()
            self._send(self._partitions[turn % len(self._partitions)], count)
            turn += 1
            self._ended_ns = self._clock.monotonic_ns()
            if throughput < 0:  # all were due when there was room for them
                took = [((self._ended_ns - begun_ns) // 1000, count)]
            else:
                took = [
                    ((self._ended_ns - self._due_ns(self.records + n, throughput)) // 1000, 1) for n in range(count)
                ]
            for us, times in took:
                part.add(us, times)
                self.latencies.add(us, times)
            self.records += count
            if self._ended_ns - told_ns >= interval_ms * 1_000_000:
                tell(_line(self.records - before, self._size, self._ended_ns - told_ns, part))
                told_ns, part, before = self._ended_ns, Latencies(), self.records

    @property
    def _size(self) -> int:
        return len(self._payload)

    def _due_ns(self, number: int, throughput: int) -> int:
        """When a record is due."""
        return self._started_ns + number * 1_000_000_000 // throughput

    def _wait_until_due(self, throughput: int, records: int) -> int:
        """How many records are due by now, at least one more than were sent."""
        if throughput < 0:
            return records
        while True:
            now = self._clock.monotonic_ns()
            due = (now - self._started_ns) * throughput // 1_000_000_000 + 1
            if due > self.records:
                return due
            with self._pause:
                self._clock.wait(self._pause, (self._due_ns(self.records, throughput) - now) / 1_000_000)

    def _send(self, partition: int, count: int) -> None:
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
        response = self._client.call_leader(self._topic, partition, request)
        if response is None:  # acks=0
            return
        answer = response.responses[0].partition_responses[0]
        if answer.error_code:
            text = describe(answer.error_code, answer.error_message)
            raise CommandError(f"{self._topic}-{partition}: {text}; {self.records} records were sent before")

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
