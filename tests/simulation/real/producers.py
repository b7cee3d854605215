"""Producers by script, on the real protocol: what they were told is the history that `history.py` judges."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from log.producer_entry import NUM_BATCHES_TO_RETAIN
from log.records.record import Record
from network.protocol.errors import ErrorCode
from network.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from network.protocol.messages.end_txn import EndTxnRequest
from network.protocol.messages.init_producer_id import InitProducerIdRequest
from network.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.simulation.real.brokers import Cluster
from tests.simulation.real.client import PARTITIONS, TRANSACTION, Client
from tests.simulation.real.history import History
from tests.support.batches import build_batch

TRANSACTION_MS = 8_000
Pairs = list[tuple[bytes | None, bytes | None]]
"""Keys and values."""


def _without_keys(values: list[bytes]) -> Pairs:
    return [(None, value) for value in values]


class Sent(NamedTuple):
    """A batch that is acknowledged."""

    sequence: int
    values: list[bytes]
    offset: int


class Producer(Client):
    """Idempotent: numbers its records, sends one batch at a time, each until it is acknowledged.

    In the end it sends the last ones of each partition again, as if it had had so many under way and no answer.
    Whatever has been stopped, killed, truncated or elected meanwhile, they are known (logs here are far smaller than
    what is looked back over).
    """

    def __init__(self, cluster: Cluster, name: str, history: History, topic: str = "queue") -> None:
        super().__init__(cluster, name, history)
        self.topic = topic
        self.sequences: dict[int, int] = {}
        self.count = 0
        self.recent: dict[int, deque[Sent]] = {}

    def work(self) -> None:
        self.id, self.epoch = self.until(self._init)
        while self.more():
            partition = self.rng.randrange(PARTITIONS)
            self.send(partition, self.rng.randint(1, 3))
            self.pause(self.rng.randint(1, 120))
        for partition, batches in sorted(self.recent.items()):
            for sent in batches:
                self.send_again(partition, sent)

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
        offset = self.until(lambda: self.produce(partition, _without_keys(values), sequence))
        self.history.acknowledged(self.topic, partition, offset, values)
        recent = self.recent.setdefault(partition, deque(maxlen=NUM_BATCHES_TO_RETAIN))
        recent.append(Sent(sequence, values, offset))

    def send_again(self, partition: int, sent: Sent) -> None:
        offset = self.until(lambda: self.produce(partition, _without_keys(sent.values), sent.sequence))
        if offset != sent.offset:
            self.history.broken(f"{self.topic}-{partition} has {sent.values} at {sent.offset} and at {offset}")

    def produce(self, partition: int, pairs: Pairs, sequence: int, transactional_id: str | None = None) -> int | None:
        now = self.clock.wall_ms()
        records = [Record(at, now, key, value) for at, (key, value) in enumerate(pairs)]
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
            self.history.broken(f"{self.name} is told {code.name} for {pairs} in {self.topic}-{partition}")
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
        while not self.is_over():
            self.id, self.epoch = self.until(self._init)
            self.sequences = {}
            try:
                while self.more():
                    self.one()
                    self.pause(self.rng.randint(10, 300))
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
            self.until(lambda at=partition, first=sequence: self.produce(at, [(None, value)], first, self.name))
        if self.is_over():
            return  # without a word: the coordinator has to end it
        if self.rng.random() < 0.05:
            raise GiveUp("begins anew")
        commit = self.rng.random() < 0.7
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
