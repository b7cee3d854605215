"""A compacted topic by script: a writer of keys, readers from the beginning again and again, and what they may see."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from log.records.record import iter_records
from network.protocol.errors import ErrorCode
from tests.simulation.real.brokers import Cluster
from tests.simulation.real.client import Client
from tests.simulation.real.history import Broken, History
from tests.simulation.real.producers import Pairs, Producer
from tests.simulation.real.readers import fetch_request
from tests.support.batches import iter_batches

TABLE = "table"
KEYS = 4
DELETE_RETENTION_MS = 15_000
"""Longer than a replica is away: who comes back after it has an older record of a key and never sees what took it out
of the table, as with Apache Kafka."""
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "700",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(DELETE_RETENTION_MS),
}


class Write(NamedTuple):
    """`value` None takes the key out of the table."""

    number: int
    value: bytes | None


class TableHistory:
    """One writer: the newest write of a key that was acknowledged holds until a later one does."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._sent: dict[tuple[int, bytes], list[Write]] = {}
        self._acknowledged: dict[tuple[int, bytes], int] = {}
        """The number of the newest."""
        self.ends: dict[int, int] = {}
        """Behind the newest that was acknowledged. What a new leader knows to be committed may be less for a while."""
        self._seen: dict[tuple[int, int], tuple[bytes, bytes | None]] = {}

    def sent(self, partition: int, key: bytes, write: Write) -> None:
        self._sent.setdefault((partition, key), []).append(write)

    def acknowledged(self, partition: int, offset: int, key: bytes, write: Write) -> None:
        self._acknowledged[(partition, key)] = write.number
        self.ends[partition] = offset + 1
        self.history.acked += 1

    def saw(self, partition: int, offset: int, key: bytes, value: bytes | None) -> None:
        known = self._seen.setdefault((partition, offset), (key, value))
        if known != (key, value):
            self.history.broken(f"{TABLE}-{partition} gave {known} and later {(key, value)} at offset {offset}")

    def begin(self, partition: int) -> dict[bytes, int]:
        """What a reader that begins now has to come to: numbers of writes."""
        return {key: number for (at, key), number in self._acknowledged.items() if at == partition}

    def read(self, partition: int, least: dict[bytes, int], found: dict[bytes, bytes]) -> None:
        """A reader has come from the beginning to the end, and this is the table that it has."""
        for (at, key), sent in self._sent.items():
            number = least.get(key)
            if at != partition or number is None:
                continue
            allowed = [write.value for write in sent if write.number >= number]
            if found.get(key) not in allowed:
                self.history.broken(
                    f"{TABLE}-{partition} has {found.get(key)!r} for {key!r}, where {allowed[0]!r} was written"
                )


class TableWriter(Producer):
    """Writes one key after the other, each until it is acknowledged; one in five goes."""

    def __init__(self, cluster: Cluster, name: str, tables: TableHistory) -> None:
        super().__init__(cluster, name, tables.history, TABLE)
        self.tables = tables

    def send(self, partition: int, count: int) -> None:
        for _ in range(count):
            self.count += 1
            key = b"key-%d" % self.rng.randrange(KEYS)
            write = Write(self.count, None if self.rng.random() < 0.2 else b"%d" % self.count)
            sequence = self.sequences.get(partition, 0)
            self.sequences[partition] = sequence + 1
            self.tables.sent(partition, key, write)
            pairs: Pairs = [(key, write.value)]
            offset = self.until(lambda pairs=pairs, at=sequence: self.produce(partition, pairs, at))
            self.tables.acknowledged(partition, offset, key, write)


class TableReader(Client):
    """Reads one partition from its beginning to its end, again and again."""

    def __init__(self, cluster: Cluster, name: str, tables: TableHistory, partition: int) -> None:
        super().__init__(cluster, name, tables.history)
        self.tables = tables
        self.partition = partition

    def work(self) -> None:
        while self.more():
            self.round()
            self.pause(self.rng.randint(10, 300))

    def round(self) -> bool:
        """Whether it counts. Who takes longer than tombstones are kept, or is sent to another leader, whose cleaner has
        come to another place, may miss one."""
        began, least = self.cluster.runtime.now_ms(), self.tables.begin(self.partition)
        self._end = self.tables.ends.get(self.partition, 0)
        self._offset, self._table, self._told_by = 0, dict[bytes, bytes](), set[object]()
        while not self.until(self._read):
            pass
        counts = len(self._told_by) == 1 and self.cluster.runtime.now_ms() - began < DELETE_RETENTION_MS
        if counts:
            self.tables.read(self.partition, least, self._table)
        return counts

    def _read(self) -> bool | None:
        """Once; whether it has come to the end."""
        leader, epoch = self.leader_and_epoch(TABLE, self.partition)
        request = fetch_request(TABLE, self.partition, epoch, self._offset, self.rng.choice((300, 9000)))
        answer = self.ask(leader, request, 11).responses[0].partitions[0]
        if ErrorCode.of(answer.error_code) is not ErrorCode.NONE:
            return None
        self._told_by.add((self.connection(leader), epoch))
        for batch in iter_batches(memoryview(bytes(answer.records or b""))):
            for record in iter_records(batch):
                if record.offset >= self._offset:
                    assert record.key is not None
                    self.tables.saw(self.partition, record.offset, record.key, record.value)
                    _take(self._table, record)
            self._offset = max(self._offset, batch.last_offset + 1)
        return bool(self._offset >= max(answer.high_watermark, self._end))


class LastTableReader(TableReader):
    """When everything is quiet: until it has read one whole."""

    def work(self) -> None:
        while not self.round():
            self.pause()


def compare_tables(logs: Iterable[Any], where: str) -> None:
    """Replicas are cleaned each at its own time, to the same table. Raises `Broken`."""
    found = []
    for log in logs:
        table: dict[bytes, bytes] = {}
        for path in sorted(Path(log.directory).glob("*.log")):
            for batch in iter_batches(memoryview(path.read_bytes())):
                for record in iter_records(batch):
                    _take(table, record)
        found.append(table)
    if any(table != found[0] for table in found):
        raise Broken(f"the replicas of {where} differ: {found}")


def _take(table: dict[bytes, bytes], record: Any) -> None:
    if record.value is None:
        table.pop(record.key, None)
    else:
        table[record.key] = bytes(record.value)
