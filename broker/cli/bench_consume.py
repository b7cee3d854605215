"""The load of ``odradek bench consume``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

from broker.cli.client import describe
from broker.cli.consume import MAX_FETCH_VERSION
from broker.cli.errors import CommandError
from broker.cli.group_offsets import EARLIEST, LATEST, list_offsets
from broker.cli.latencies import Latencies
from log.errors import LogError
from log.records.old_formats import iter_entries
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient
from network.client.connection import Connection, ConnectionFailed
from network.client.connection_pool import choose_version
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from timer.clock import Clock

MB = 1024 * 1024
_MAX_WAIT_MS = 500


class _Slot(NamedTuple):
    """A connection with one fetch in flight, always of the same partitions."""

    connection: Connection
    version: int
    partitions: list[int]


class ConsumeLoad:
    """Fetches from the leaders, each one's partitions in at most `in_flight` requests at a time. `run` once.

    What has come is counted while the other requests are in flight. A round that brought something is followed by one
    in which nobody waits for records.
    """

    def __init__(
        self, client: ClusterClient, clock: Clock, topic: str, *, fetch_bytes: int, from_latest: bool, in_flight: int
    ) -> None:
        self._in_flight = in_flight
        self._open = contextlib.ExitStack()
        self._wait_ms = _MAX_WAIT_MS
        self._sent_ns: dict[Connection, int] = {}
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
        with self._open:
            slots: list[_Slot] = []
            while self.records < records:
                slots = slots or self._slots()
                before = self.records
                if not all(map(self._took, slots)):
                    self._open.close()
                    self._sent_ns.clear()
                    slots = []
                now = self._clock.monotonic_ns()
                self._wait_ms = 0 if self.records > before else _MAX_WAIT_MS
                if self.records > before:
                    self._ended_ns = now
                if now - self._ended_ns >= timeout_ms * 1_000_000 or now - self._started_ns >= max_ms * 1_000_000:
                    return
                if now - told_ns >= interval_ms * 1_000_000:
                    tell(_line(self.records - told_records, self.bytes - told_bytes, now - told_ns))
                    told_ns, told_records, told_bytes = now, self.records, self.bytes

    def _slots(self) -> list[_Slot]:
        """One for each part of each leader's partitions, with the first fetch sent."""
        leaders: dict[int, list[int]] = {}
        for number, partition in self._client.topic(self._topic).partitions.items():
            leaders.setdefault(partition.leader, []).append(number)
        slots = []
        for partitions in leaders.values():
            for first in range(min(self._in_flight, len(partitions))):
                part = partitions[first :: self._in_flight]
                connection, versions = self._open.enter_context(self._client.leader_connection(self._topic, part[0]))
                slots.append(_Slot(connection, choose_version(ApiKey.FETCH, versions, MAX_FETCH_VERSION), part))
                self._send(slots[-1])
        return slots

    def _send(self, slot: _Slot) -> None:
        self._sent_ns[slot.connection] = self._clock.monotonic_ns()
        slot.connection.send_request(self._request(slot.partitions), slot.version)

    def _took(self, slot: _Slot) -> bool:
        """Take the answer and send the next request; whether the partitions are where they were."""
        try:
            response: Any = slot.connection.receive_response()
            is_there = not any(
                ErrorCode.of(answer.error_code).retriable
                for topic in response.responses
                for answer in topic.partitions
                if answer.error_code
            )
        except ConnectionFailed:
            is_there = False
        if is_there:
            self.latencies.add((self._clock.monotonic_ns() - self._sent_ns[slot.connection]) // 1000)
        else:  # asked again until the leader is found
            request = self._request(slot.partitions[:1])
            response = self._client.call_leader(self._topic, slot.partitions[0], request, max_version=MAX_FETCH_VERSION)
        for topic in response.responses:
            for answer in topic.partitions:
                if answer.error_code:
                    text = describe(answer.error_code, None)
                    raise CommandError(f"{self._topic}-{answer.partition_index}: {text}")
                self.records += self._count(answer.partition_index, bytes(answer.records or b""))
        try:
            if is_there:
                self._send(slot)
        except ConnectionFailed:
            return False
        return is_there

    def _request(self, partitions: list[int]) -> FetchRequest:
        wanted = [
            FetchPartition(
                partition=number, fetch_offset=self._positions[number], partition_max_bytes=self._fetch_bytes
            )
            for number in partitions
        ]
        return FetchRequest(
            max_wait_ms=self._wait_ms,
            min_bytes=1,
            max_bytes=50 * MB,
            topics=[FetchTopic(topic=self._topic, partitions=wanted)],
        )

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
