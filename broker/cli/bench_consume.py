"""The load of ``odradek bench consume``."""

from __future__ import annotations

from collections.abc import Callable

from broker.cli.client import describe
from broker.cli.consume import MAX_FETCH_VERSION
from broker.cli.errors import CommandError
from broker.cli.group_offsets import EARLIEST, LATEST, list_offsets
from broker.cli.latencies import Latencies
from log.errors import LogError
from log.records.old_formats import iter_entries
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient
from network.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from timer.clock import Clock

MB = 1024 * 1024
_MAX_WAIT_MS = 500


class ConsumeLoad:
    """Fetches from the leaders in turn, all partitions of one in a request. `run` once."""

    def __init__(self, client: ClusterClient, clock: Clock, topic: str, *, fetch_bytes: int, from_latest: bool) -> None:
        self._client = client
        self._clock = clock
        self._topic = topic
        self._fetch_bytes = fetch_bytes
        partitions = [TopicPartition(topic, number) for number in client.topic(topic).partitions]
        found = list_offsets(client, partitions, LATEST if from_latest else EARLIEST)
        self._positions = {tp.partition: offset for tp, offset in found.items()}
        self._started_ns = self._ended_ns = 0
        self.latencies = Latencies()
        self.records = 0
        self.bytes = 0

    def run(self, records: int, timeout_ms: int, interval_ms: int, max_ms: int, tell: Callable[[str], None]) -> None:
        """Until so many records came or more, none for `timeout_ms`, or `max_ms` are over. Raises CommandError."""
        self._started_ns = self._ended_ns = told_ns = self._clock.monotonic_ns()
        told_records = told_bytes = 0
        while self.records < records:
            came = 0
            for partitions in self._by_leader():
                came += self._fetch(partitions)
            now = self._clock.monotonic_ns()
            if came:
                self._ended_ns = now
            if now - self._ended_ns >= timeout_ms * 1_000_000 or now - self._started_ns >= max_ms * 1_000_000:
                return
            if now - told_ns >= interval_ms * 1_000_000:
                tell(_line(self.records - told_records, self.bytes - told_bytes, now - told_ns))
                told_ns, told_records, told_bytes = now, self.records, self.bytes

    def _by_leader(self) -> list[list[int]]:
        leaders: dict[int, list[int]] = {}
        for number, partition in self._client.topic(self._topic).partitions.items():
            leaders.setdefault(partition.leader, []).append(number)
        return list(leaders.values())

    def _fetch(self, partitions: list[int]) -> int:
        wanted = [
            FetchPartition(
                partition=number, fetch_offset=self._positions[number], partition_max_bytes=self._fetch_bytes
            )
            for number in partitions
        ]
        request = FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=50 * MB,
            topics=[FetchTopic(topic=self._topic, partitions=wanted)],
        )
        before = self._clock.monotonic_ns()
        response = self._client.call_leader(self._topic, partitions[0], request, max_version=MAX_FETCH_VERSION)
        self.latencies.add((self._clock.monotonic_ns() - before) // 1000)
        came = 0
        for topic in response.responses:
            for answer in topic.partitions:
                if answer.error_code:
                    text = describe(answer.error_code, None)
                    raise CommandError(f"{self._topic}-{answer.partition_index}: {text}")
                came += self._count(answer.partition_index, bytes(answer.records or b""))
        self.records += came
        return came

    def _count(self, partition: int, data: bytes) -> int:
        position, count = self._positions[partition], 0
        try:
            for batch in iter_entries(data):
                # The first batch may begin before what was asked for.
                count += batch.last_offset + 1 - max(position, batch.base_offset)
                position = batch.last_offset + 1
        except LogError as error:
            raise CommandError(f"{self._topic}-{partition}, offset {position}: {error}") from error
        self._positions[partition] = position
        self.bytes += len(data)
        return count

    def facts(self) -> dict[str, object]:
        """For programs; latencies in milliseconds."""
        seconds = max(1, self._ended_ns - self._started_ns) / 1e9
        return {
            "topic": self._topic,
            "records": self.records,
            "mb": round(self.bytes / MB, 3),
            "seconds": round(seconds, 3),
            "records_per_second": round(self.records / seconds, 1),
            "mb_per_second": round(self.bytes / MB / seconds, 3),
            "fetch_latency_ms": self.latencies.facts(),
        }

    def text(self) -> str:
        """The last line."""
        found = self.latencies
        shares = ((50, "50th"), (95, "95th"), (99, "99th"))
        percentiles = ", ".join(f"{found.percentile_ms(each):.2f} ms {name}" for each, name in shares)
        return f"{_line(self.records, self.bytes, self._ended_ns - self._started_ns)}; fetches {percentiles}."


def _line(records: int, size: int, duration_ns: int) -> str:
    seconds = max(1, duration_ns) / 1e9
    return (
        f"{records} records received, {records / seconds:.1f} records/sec, {size / MB:.2f} MB "
        f"({size / MB / seconds:.2f} MB/sec)"
    )
