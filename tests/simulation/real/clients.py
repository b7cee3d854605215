"""Clients by script, on the real protocol: what they were told is the history that `history.py` judges."""

from __future__ import annotations

import contextlib
from typing import Any

from log.records.record import Record, iter_records
from network.client.connection import Connection, ConnectionFailed
from network.protocol.errors import ErrorCode
from network.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.end_txn import EndTxnRequest
from network.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from network.protocol.messages.find_coordinator import FindCoordinatorRequest
from network.protocol.messages.init_producer_id import InitProducerIdRequest
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from network.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from network.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.simulation.real.brokers import PORT, Cluster
from tests.simulation.real.history import History
from tests.simulation.real.runtime import Process
from tests.support.batches import build_batch, iter_batches
from timer.clock import SystemClock

PARTITIONS = 2
CALL_MS = 4_000
AGAIN_MS = 100
TRANSACTION_MS = 8_000
GROUP, TRANSACTION = 0, 1


class Stopped(Exception):
    """The client was told to end."""


class Client:
    """Asks the broker that is responsible, again and again until it has an answer that is one."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.process = Process(name)
        self.stopping = False
        self.done = False
        self.clock = SystemClock()
        self._connections: dict[int, Connection] = {}
        self._responsible: dict[Any, int] = {}

    def start(self) -> None:
        self.cluster.spawn(self.process, self._run, self.name)

    def _run(self) -> None:
        with contextlib.suppress(Stopped):
            self.work()
        self.done = True

    def work(self) -> None:
        raise NotImplementedError

    def pause(self, ms: float = AGAIN_MS) -> None:
        self.cluster.runtime.sleep(ms)

    def ask(self, broker: int, request: Any, version: int) -> Any:
        """Raises ConnectionFailed."""
        connection = self._connections.get(broker)
        if connection is None or connection.closed:
            host = self.cluster.brokers[broker].host
            connection = Connection(host, PORT, self.name, self.clock, CALL_MS, CALL_MS)
            self._connections[broker] = connection
        return connection.call(request, version)

    def any_broker(self) -> int:
        return self.cluster.rng.choice(sorted(self.cluster.brokers))

    def leader(self, topic: str, partition: int) -> int:
        """Raises ConnectionFailed if nobody knows one now."""
        known = self._responsible.get((topic, partition))
        if known is not None:
            return known
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        answer = self.ask(self.any_broker(), request, 9)
        for each in answer.topics[0].partitions:
            if each.leader_id > 0:
                self._responsible[(topic, each.partition_index)] = each.leader_id
        if (topic, partition) not in self._responsible:
            raise ConnectionFailed("no leader")
        return self._responsible[(topic, partition)]

    def coordinator(self, key: str, kind: int) -> int:
        known = self._responsible.get((key, kind, "coordinator"))
        if known is not None:
            return known
        answer = self.ask(self.any_broker(), FindCoordinatorRequest(key=key, key_type=kind), 3)
        if answer.error_code:
            raise ConnectionFailed("no coordinator")
        self._responsible[(key, kind, "coordinator")] = int(answer.node_id)
        return int(answer.node_id)

    def forget(self) -> None:
        self._responsible.clear()

    def again(self) -> None:
        self.forget()
        self.pause(AGAIN_MS * (0.5 + self.cluster.rng.random()))

    def until(self, attempt: Any) -> Any:
        """The first answer of `attempt` that is not None. It raises ConnectionFailed for one that is not there."""
        while True:
            try:
                found = attempt()
                if found is not None:
                    return found
            except ConnectionFailed:
                pass
            if self.stopping:
                raise Stopped
            self.again()


def create_topics(client: Client, *names: str) -> None:
    """On the controller, until they are there."""
    replicas = min(3, len(client.cluster.brokers))

    def attempt() -> bool | None:
        topics = [CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=replicas) for name in names]
        answer = client.ask(client.any_broker(), CreateTopicsRequest(topics=topics, timeout_ms=3000), 4)
        codes = {each.error_code for each in answer.topics}
        return True if codes <= {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS} else None

    client.until(attempt)


class Admin(Client):
    def work(self) -> None:
        create_topics(self, "queue", "bank")


class Producer(Client):
    """Idempotent: numbers its records, sends one batch at a time, each until it is acknowledged."""

    def __init__(self, cluster: Cluster, name: str, history: History, topic: str = "queue") -> None:
        super().__init__(cluster, name)
        self.history = history
        self.topic = topic
        self.sequences: dict[int, int] = {}
        self.count = 0

    def work(self) -> None:
        self.id, self.epoch = self.until(self._init)
        while not self.stopping:
            partition = self.cluster.rng.randrange(PARTITIONS)
            self.send(partition, self.cluster.rng.randint(1, 3))
            self.pause(self.cluster.rng.randint(1, 120))

    def _init(self) -> tuple[int, int] | None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        answer = self.ask(self.any_broker(), request, 4)
        return None if answer.error_code else (answer.producer_id, answer.producer_epoch)

    def send(self, partition: int, count: int) -> None:
        first = self.count
        self.count += count
        values = [b"%s:%d" % (self.name.encode(), first + at) for at in range(count)]
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = sequence + count
        self.history.sent(self.topic, partition, values)
        offset = self.until(lambda: self.produce(partition, values, sequence))
        self.history.acknowledged(self.topic, partition, offset, values)

    def produce(
        self, partition: int, values: list[bytes], sequence: int, transactional_id: str | None = None
    ) -> int | None:
        now = self.clock.wall_ms()
        records = [Record(at, now, None, value) for at, value in enumerate(values)]
        batch = build_batch(
            records,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=transactional_id is not None,
        )
        data = [PartitionProduceData(index=partition, records=batch)]
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=2_000,
            topic_data=[TopicProduceData(name=self.topic, partition_data=data)],
        )
        answer = self.ask(self.leader(self.topic, partition), request, 9).responses[0].partition_responses[0]
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            return int(answer.base_offset)
        if transactional_id is None and code in (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode.UNKNOWN_PRODUCER_ID,
            ErrorCode.INVALID_PRODUCER_EPOCH,
        ):
            self.history.broken(f"{self.name} is told {code.name} for {values} in {self.topic}-{partition}")
        self.refused(code)
        return None

    def refused(self, code: ErrorCode) -> None: ...


class GiveUp(Exception):
    """This transaction can't go on."""


class Transactions(Producer):
    """Writes the same number into every partition in a transaction, and ends it one way or the other."""

    def __init__(self, cluster: Cluster, name: str, history: History) -> None:
        super().__init__(cluster, name, history, "bank")
        self.number = 0

    def work(self) -> None:
        while not self.stopping:
            self.id, self.epoch = self.until(self._init)
            self.sequences = {}
            try:
                while not self.stopping:
                    self.one()
                    self.pause(self.cluster.rng.randint(10, 300))
            except GiveUp:
                pass

    def _init(self) -> tuple[int, int] | None:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TRANSACTION_MS)
        answer = self.ask(self.coordinator(self.name, TRANSACTION), request, 4)
        return None if answer.error_code else (answer.producer_id, answer.producer_epoch)

    def one(self) -> None:
        self.number += 1
        value = b"%s:%d" % (self.name.encode(), self.number)
        self.history.begun(value)
        for partition in range(PARTITIONS):
            self.until(lambda at=partition: self._add(at))
            sequence = self.sequences.get(partition, 0)
            self.sequences[partition] = sequence + 1
            self.until(lambda at=partition, first=sequence: self.produce(at, [value], first, self.name))
        commit = self.cluster.rng.random() < 0.7
        self.history.ending(value, commit)
        self.until(lambda: self._end(commit))
        self.history.ended(value, commit)

    def _add(self, partition: int) -> bool | None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.topic, partitions=[partition])],
        )
        answer = self.ask(self.coordinator(self.name, TRANSACTION), request, 3)
        code = ErrorCode.of(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
        self.refused(code)
        return True if code is ErrorCode.NONE else None

    def _end(self, commit: bool) -> bool | None:
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, committed=commit
        )
        code = ErrorCode.of(self.ask(self.coordinator(self.name, TRANSACTION), request, 3).error_code)
        self.refused(code)
        return True if code is ErrorCode.NONE else None

    def refused(self, code: ErrorCode) -> None:
        if code in (
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode.UNKNOWN_PRODUCER_ID,
        ):
            raise GiveUp(code.name)


class Reader(Client):
    """Reads one partition, from its beginning to as far as it is committed, for ever; with a group it commits how far
    it is, and asks for it again."""

    def __init__(
        self, cluster: Cluster, name: str, history: History, topic: str, partition: int, isolation: int = 0
    ) -> None:
        super().__init__(cluster, name)
        self.history = history
        self.topic = topic
        self.partition = partition
        self.isolation = isolation
        self.offset = 0
        self.end = -1
        self.group: str | None = None
        self.committed = -1

    def work(self) -> None:
        while not self.stopping:
            self.until(self.read)
            if self.group is not None and self.cluster.rng.random() < 0.3:
                self.until(self._commit)
                self.until(self._committed)
            self.pause(self.cluster.rng.randint(1, 60))

    def read(self) -> bool | None:
        """Once, as far as there is something; the answer is where it ends."""
        partition = FetchPartition(
            partition=self.partition, fetch_offset=self.offset, partition_max_bytes=self.cluster.rng.choice((300, 9000))
        )
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            isolation_level=self.isolation,
            topics=[FetchTopic(topic=self.topic, partitions=[partition])],
        )
        answer = self.ask(self.leader(self.topic, self.partition), request, 11).responses[0].partitions[0]
        code = ErrorCode.of(answer.error_code)
        where = f"{self.topic}-{self.partition}"
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.history.out_of_range(where, self.offset, answer.high_watermark)
        if code is not ErrorCode.NONE:
            return None
        aborted = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
        skipped: set[int] = set()
        for batch in iter_batches(memoryview(bytes(answer.records or b""))):
            while aborted and aborted[0][0] <= batch.last_offset:
                skipped.add(aborted.pop(0)[1])
            if batch.is_control:
                skipped.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in skipped):
                for record in iter_records(batch):
                    if record.offset >= self.offset:
                        self.history.read(
                            self.topic, self.partition, record.offset, record.value or b"", self.isolation
                        )
            self.offset = max(self.offset, batch.last_offset + 1)
        self.end = answer.last_stable_offset if self.isolation else answer.high_watermark
        return True

    def _commit(self) -> bool | None:
        assert self.group is not None
        partition = OffsetCommitRequestPartition(partition_index=self.partition, committed_offset=self.offset)
        topics = [OffsetCommitRequestTopic(name=self.topic, partitions=[partition])]
        request = OffsetCommitRequest(group_id=self.group, topics=topics)
        answer = self.ask(self.coordinator(self.group, GROUP), request, 7)
        if answer.topics[0].partitions[0].error_code:
            return None
        self.committed = self.offset
        return True

    def _committed(self) -> bool | None:
        assert self.group is not None
        topics = [OffsetFetchRequestTopics(name=self.topic, partition_indexes=[self.partition])]
        groups = [OffsetFetchRequestGroup(group_id=self.group, topics=topics)]
        answer = self.ask(self.coordinator(self.group, GROUP), OffsetFetchRequest(groups=groups), 8).groups[0]
        if answer.error_code or answer.topics[0].partitions[0].error_code:
            return None
        offset = answer.topics[0].partitions[0].committed_offset
        if offset != self.committed:
            self.history.broken(f"{self.name} committed {self.committed} and is told {offset}")
        return True
