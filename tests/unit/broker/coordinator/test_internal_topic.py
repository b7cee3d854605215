"""An internal topic on a real replica manager: what is appended is read, and transactions are verified before."""

from pathlib import Path
from typing import Any

import pytest

from broker.coordinator.batch_verification import Question, verify_batches
from broker.coordinator.internal_topic import InternalTopic
from log.records.batch import RecordBatch
from log.records.record import BatchBuilder, iter_records
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError
from network.protocol.errors import ErrorCode as E
from tests.unit.broker.harness import TP, LeadingBroker


class Topic:
    """Topic `t` of a broker that leads its partition 0."""

    def __init__(self, directory: Path) -> None:
        self.broker = LeadingBroker(directory)
        self.broker.lead([1])
        self.asked: list[Question] = []
        self.topic = InternalTopic("t", self.broker.manager, self.asked.append)
        self.answers: list[tuple[E, int]] = []

    def append(self, value: bytes, acks: int = 1, producer_id: int = -1) -> None:
        transactional = producer_id >= 0
        builder = BatchBuilder(
            producer_id=producer_id, producer_epoch=0 if transactional else -1, transactional=transactional
        )
        builder.base_sequence = 0 if transactional else -1
        builder.append(0, b"k", value)
        self.topic.append(
            0,
            builder.build(),
            acks,
            1000,
            lambda error, offset: self.answers.append((error, offset)),
            "tx" if transactional else None,
        )

    def values(self) -> list[bytes | None]:
        return [record.value for batch in self.topic.read(0, 1) for record in iter_records(batch)]


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    return Topic(tmp_path)


def test_what_is_appended_is_read_batch_by_batch(topic: Topic) -> None:
    for value in (b"1", b"2", b"3"):
        topic.append(value)
    assert topic.answers == [(E.NONE, 0), (E.NONE, 1), (E.NONE, 2)]
    assert topic.values() == [b"1", b"2", b"3"]
    assert topic.topic.max_batch_bytes(0) == 1_048_588


def test_a_partition_that_is_not_here(topic: Topic) -> None:
    assert topic.topic.is_local(0)
    assert not topic.topic.is_local(7)
    with pytest.raises(LookupError):
        list(topic.topic.read(7, 100))


def test_all_is_committed_when_the_isr_has_it(topic: Topic) -> None:
    topic.broker.lead([1, 2], epoch=2)
    topic.append(b"1")
    assert not topic.topic.is_committed(0)
    topic.broker.fetch(1)
    assert topic.topic.is_committed(0)
    assert topic.topic.is_committed(7)


def test_a_transactional_batch_waits_for_the_verdict(topic: Topic) -> None:
    topic.append(b"1", producer_id=9)
    (question,) = topic.asked
    assert (question.transactional_id, question.producer_id, question.producer_epoch) == ("tx", 9, 0)
    assert question.partitions == [TP]
    assert topic.values() == []
    topic.asked[0].verdict({TP: E.NONE})
    assert topic.answers == [(E.NONE, 0)]
    assert topic.values() == [b"1"]


def test_a_batch_that_is_not_of_the_transaction_is_refused(topic: Topic) -> None:
    topic.append(b"1", producer_id=9)
    topic.asked[0].verdict({TP: E.TRANSACTION_ABORTABLE})
    assert topic.answers == [(E.TRANSACTION_ABORTABLE, -1)]
    assert topic.values() == []


def test_nobody_is_asked_while_the_transaction_is_open_here(topic: Topic) -> None:
    topic.append(b"1", producer_id=9)
    topic.asked[0].verdict({TP: E.NONE})
    batch = BatchBuilder(producer_id=9, producer_epoch=0, base_sequence=1, transactional=True)
    batch.append(0, b"k", b"2")
    proceeded: list[Any] = []
    verify_batches(
        topic.asked.append,
        topic.broker.manager.partitions.get_log,
        "tx",
        {TP: batch.build()},
        lambda *_: proceeded.append(_),
    )
    assert proceeded == [({}, {})]
    assert len(topic.asked) == 1


def test_batches_of_several_producers_are_refused(topic: Topic) -> None:
    batches = {}
    for producer_id in (1, 2):
        builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
        builder.append(0, b"k", b"v")
        batches[TopicPartition("t", producer_id)] = builder.build()
    with pytest.raises(ApiError) as refused:
        verify_batches(topic.asked.append, topic.broker.manager.partitions.get_log, "tx", batches, lambda *_: None)
    assert refused.value.code is E.INVALID_PRODUCER_ID_MAPPING
    assert [RecordBatch(batch).producer_id for batch in batches.values()] == [1, 2]
