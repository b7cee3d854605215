"""Consume, transform, produce in transactions, as a process: `python -m tests.cluster.eos_worker --id ...`.

Every transaction copies what was read to the same partition of the target, moves one coin between two accounts, and
commits the offsets. A copied value is `transaction|records in it|source offset|value`. Prints one JSON object a line:
`{"committed": id}`, `{"aborted": id, "error": ...}`, `{"fatal": ...}`. Ends with code 3 when it has been fenced.

librdkafka (2.16) may wait for ever, whatever timeout it was given, for a group coordinator that it knew and whose
broker left the metadata meanwhile. As a supervised service would, a worker that comes to nothing for so long ends, with
code 4, and whoever started it starts another one with its transactional id.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

FENCED = 3
STUCK = 4
STUCK_AFTER_S = 15
LOOK_EVERY_S = 0.5
stopping = threading.Event()


def tell(**event: Any) -> None:
    print(json.dumps(event), flush=True)


class Watchdog:
    """Ends the process when nothing has been told for too long."""

    def __init__(self) -> None:
        self._fed = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def feed(self) -> None:
        self._fed.set()

    def _run(self) -> None:
        hungry = 0.0
        while hungry < STUCK_AFTER_S:
            # While the process stands still (SIGSTOP), no matter how long, this is one look at most.
            time.sleep(LOOK_EVERY_S)
            hungry = 0.0 if self._fed.is_set() else hungry + LOOK_EVERY_S
            self._fed.clear()
        tell(stuck=True)
        os._exit(STUCK)


class Worker:
    """One transactional id, one member of the group."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._rebalanced = False
        common = {"bootstrap.servers": options.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 500}
        self._producer = Producer(
            {
                **common,
                "transactional.id": options.id,
                "transaction.timeout.ms": 60_000,
                "linger.ms": 1,
                "topic.metadata.refresh.interval.ms": 2000,
            }
        )
        self._consumer = Consumer(
            {
                **common,
                "group.id": options.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 8_000,
                "heartbeat.interval.ms": 500,
                "topic.metadata.refresh.interval.ms": 2000,
            }
        )

    def run(self) -> None:
        """Until told to stop. Raises KafkaException when fenced."""
        persist(lambda: self._producer.init_transactions(30))

        def noted(*_: object) -> None:
            self._rebalanced = True

        self._consumer.subscribe([self._options.source], on_assign=noted, on_revoke=noted, on_lost=noted)
        watchdog = Watchdog()
        while not stopping.is_set():
            watchdog.feed()
            messages = [m for m in self._consumer.consume(self._options.batch, 0.2) if m.error() is None]
            if self._rebalanced:
                # What came in the same call may belong to another member now.
                self._rebalanced = False
                self._rewind()
            elif messages:
                self._transact(messages)
        self._consumer.close()

    def _transact(self, messages: list[Message]) -> None:
        transaction = uuid.uuid4().hex[:12]
        offsets = {m.partition(): m.offset() + 1 for m in messages}  # type: ignore[operator]
        try:
            self._producer.begin_transaction()
            for message in messages:
                value = f"{transaction}|{len(messages)}|{message.offset()}|{message.value().decode()}"  # type: ignore[union-attr]
                self._producer.produce(self._options.target, value, partition=message.partition())  # type: ignore[arg-type]
            payer, payee = random.sample(range(self._options.accounts), 2)
            self._producer.produce(self._options.bank, f"{transaction}|-1", partition=payer)
            self._producer.produce(self._options.bank, f"{transaction}|1", partition=payee)
            places = [TopicPartition(self._options.source, number, offset) for number, offset in offsets.items()]  # type: ignore[arg-type]
            persist(
                lambda: self._producer.send_offsets_to_transaction(places, self._consumer.consumer_group_metadata(), 30)
            )
            persist(lambda: self._producer.commit_transaction(30))
        except KafkaException as raised:
            error = raised.args[0]
            if error.fatal() or not error.txn_requires_abort():
                raise
            persist(lambda: self._producer.abort_transaction(30))
            tell(aborted=transaction, error=str(error))
            self._rewind()
        else:
            tell(committed=transaction)

    def _rewind(self) -> None:
        """Read on from the committed offsets."""
        assigned = self._consumer.assignment()
        if not assigned:
            return
        for place in persist(lambda: self._consumer.committed(assigned, 30)):
            place.offset = max(place.offset, 0)
            self._consumer.seek(place)


def persist(action: Callable[[], Any]) -> Any:
    """Do it again as long as it fails for reasons that pass."""
    while True:
        try:
            return action()
        except KafkaException as raised:
            error = raised.args[0]
            passes = error.retriable() or error.name() in ("_TIMED_OUT", "_WAIT_COORD", "_TRANSPORT")
            if error.fatal() or error.txn_requires_abort() or not passes:
                raise


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "id", "group", "source", "target", "bank"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--accounts", type=int, required=True)
    parser.add_argument("--batch", type=int, default=100)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    try:
        Worker(options).run()
    except KafkaException as raised:
        tell(fatal=str(raised.args[0]))
        return FENCED if raised.args[0].fatal() else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
