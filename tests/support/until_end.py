"""Reading what there is."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, Message

PATIENCE_S = 60.0


def until_end(consumer: Consumer, partitions: int = 1) -> list[Message]:
    """What comes until so many partitions have ended; the consumer has `enable.partition.eof`.

    Only an end is an end: any other error, or a long silence, fails the test.
    """
    found: list[Message] = []
    ended: set[int | None] = set()
    while len(ended) < partitions:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"nothing comes; {len(found)} records so far, partitions {ended} have ended"
        error = message.error()
        if error is None:
            found.append(message)
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition())
    return found
