"""An idempotent producer's batches, sent again to a broker that has stopped and started. Half a minute."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.dev.polling import wait_until
from network.protocol.errors import ErrorCode
from network.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.reference import kafka
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster

COUNT = 7
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
LAST_FIVE = [*(ErrorCode.NONE,) * 5, OUT_OF_ORDER, OUT_OF_ORDER]
"""Newest first."""
LAST = [ErrorCode.NONE, *(OUT_OF_ORDER,) * 6]


def identity(broker: Broker) -> InitProducerIdResponse:
    found: list[InitProducerIdResponse] = []

    def answered() -> bool:
        found.append(wire.call(broker, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4))
        return found[-1].error_code == 0

    assert wait_until(answered, CLOCK, 60_000, 50)
    return found[-1]


@pytest.mark.parametrize(
    ("kind", "leave", "known"),
    [
        ("odradek", Broker.stop, LAST_FIVE),
        ("odradek", Broker.kill, LAST_FIVE),
        # Its snapshots have the last batch alone, and the log is not asked: docs/differences.md.
        ("kafka", Broker.stop, LAST),
    ],
)
def test_the_last_five_are_known_after_a_start(
    make_cluster: Callable[..., Cluster], kind: str, leave: Callable[[Broker], None], known: list[ErrorCode]
) -> None:
    if kind == "kafka":
        kafka.require()
    cluster = make_cluster([kind])
    (broker,) = cluster.brokers
    topic = wire.create_topic(cluster)
    producer = identity(broker)

    def send(sequence: int) -> tuple[ErrorCode, int]:
        records = wire.batch(
            [b"v"],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
        )
        answer = wire.produce(broker, topic, records)
        return ErrorCode.of(answer.error_code), answer.base_offset

    assert [send(sequence) for sequence in range(COUNT)] == [(ErrorCode.NONE, offset) for offset in range(COUNT)]
    leave(broker)
    broker.start()
    cluster.wait_ready()
    wire.wait_for_leaders(cluster, topic, 1)
    answers = [send(sequence) for sequence in reversed(range(COUNT))]
    assert [error for error, _ in answers] == known
    assert [at for error, at in answers if error is ErrorCode.NONE] == [
        COUNT - 1 - n for n in range(known.count(ErrorCode.NONE))
    ]
    assert send(COUNT) == (ErrorCode.NONE, COUNT)
