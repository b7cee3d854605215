"""What clients do all the time: two queues, a group that reads them, and a bank. Each writes its history down."""

from __future__ import annotations

import random
import threading
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from broker.dev.polling import wait_until
from tests.campaign.checker import Acknowledged, Found, History, Outcome, Place
from tests.support.cluster import CLOCK, Cluster
from tests.support.replication import QUIET, IdempotentLoad, Load, PlainLoad, Reader, read_back

ONCE, PLAIN, BANK = "queue-once", "queue-plain", "bank"
PARTITIONS = 4
GROUP = "readers"


class Group(threading.Thread):
    """One member; what it was given is noted by partition and offset."""

    def __init__(self, bootstrap: str, delivered: dict[Place, set[int]]) -> None:
        super().__init__(name="group member", daemon=True)
        self._delivered = delivered
        self._stop_asked = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 1000,
                "session.timeout.ms": 10_000,
                **QUIET,
            }
        )
        self._consumer.subscribe([ONCE, PLAIN])

    def run(self) -> None:
        while not self._stop_asked.is_set():
            for message in self._consumer.consume(500, 0.3):
                if message.error() is None:
                    place = (str(message.topic()), int(message.partition() or 0))
                    self._delivered.setdefault(place, set()).add(int(message.offset() or 0))
        self._consumer.close()

    def finish(self) -> None:
        self._stop_asked.set()
        self.join(60)


class Bank(threading.Thread):
    """Transfers of two records in one transaction, one in ten given up on purpose."""

    def __init__(self, bootstrap: str, transfers: dict[int, Outcome], seed: int) -> None:
        super().__init__(name="bank", daemon=True)
        self._address = bootstrap
        self._transfers = transfers
        self._rng = random.Random(seed)
        self._stop_asked = threading.Event()
        self.restarts = 0

    def run(self) -> None:
        number = 0
        while not self._stop_asked.is_set():
            try:
                producer = self._enter()
                while not self._stop_asked.is_set():
                    self._transfer(producer, number)
                    number += 1
                    self._stop_asked.wait(0.02)
            except KafkaException:
                # Fenced, timed out, or fatal: the next one with this id ends what this one has left.
                self.restarts += 1
                number += 1
                self._stop_asked.wait(0.5)

    def _enter(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._address,
                "transactional.id": "bank",
                "transaction.timeout.ms": 20_000,
                "message.timeout.ms": 20_000,
                **QUIET,
            }
        )
        producer.init_transactions(60)
        return producer

    def _transfer(self, producer: Producer, number: int) -> None:
        amount = self._rng.randrange(1, 1000)
        self._transfers[number] = "unknown"
        producer.begin_transaction()
        for partition, leg in enumerate(self._rng.sample((amount, -amount), 2)):
            producer.produce(BANK, b"%d %d" % (number, leg), partition=partition)
        if self._rng.random() < 0.1:
            self._transfers[number] = "aborted"
            producer.abort_transaction(60)
            return
        while True:
            try:
                producer.commit_transaction(60)
            except KafkaException as error:
                if error.args[0].retriable():
                    continue
                if not error.args[0].txn_requires_abort():
                    raise
                producer.abort_transaction(60)
                return
            self._transfers[number] = "committed"
            return

    def finish(self) -> None:
        self._stop_asked.set()
        self.join(150)
        assert not self.is_alive(), "the bank does not come to an end"


class Workloads:
    """All of them, started; `finish` ends them and gives their history, with what a reader finds in the end."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._history = History()
        self.loads: list[Load] = [
            IdempotentLoad(cluster.bootstrap, ONCE, PARTITIONS),
            PlainLoad(cluster.bootstrap, PLAIN, PARTITIONS),
        ]
        self._reader = Reader(cluster.bootstrap, ONCE, PARTITIONS)
        self._group = [Group(cluster.bootstrap, self._history.delivered) for _ in range(2)]
        self.bank = Bank(cluster.bootstrap, self._history.transfers, seed)
        for thread in (*self._group, self.bank):
            thread.start()

    @property
    def acknowledged(self) -> int:
        """Records so far, those of the bank left out."""
        return sum(load.count for load in self.loads)

    def finish(self) -> tuple[History, dict[Place, list[Found]]]:
        """When no fault is left. Raises AssertionError for what the clients themselves complain of."""
        for load in self.loads:
            load.finish()
        self.bank.finish()
        final: dict[Place, list[Found]] = {}
        for load in self.loads:
            read = read_back(self._cluster, load.topic, PARTITIONS)
            if load.topic == ONCE:
                self._reader.finish(read)
            self._note(load, read, final)
        self._wait_delivered(final)
        for member in self._group:
            member.finish()
        self._history.legs = committed_legs(self._cluster)
        return self._history, final

    def _note(self, load: Load, read: dict[int, list[bytes]], final: dict[Place, list[Found]]) -> None:
        writer, numbers = load.topic, []
        for partition, acknowledged in load.acknowledged.items():
            place = (load.topic, partition)
            final[place] = [Found(offset, writer, int(value)) for offset, value in enumerate(read[partition])]
            for offset, value in acknowledged:
                numbers.append(int(value))
                self._history.acknowledged.append(Acknowledged(place, offset, writer, int(value)))
        self._history.sent[writer] = max(numbers, default=-1) + 1
        if isinstance(load, IdempotentLoad) and load.kept_identity:
            self._history.once.add(writer)

    def _wait_delivered(self, final: dict[Place, list[Found]]) -> None:
        """The group catches up; if it does not, the checker tells what is missing."""
        delivered = self._history.delivered

        def caught_up() -> bool:
            return all(len(delivered.get(place, ())) >= len(found) for place, found in final.items())

        wait_until(caught_up, CLOCK, 90_000, 200)
        for place in final:
            delivered.setdefault(place, set())


def committed_legs(cluster: Cluster) -> list[tuple[int, int]]:
    """The records of the bank that a reader of committed ones is given, once no transaction is open."""
    settings: dict[str, Any] = {"group.id": "check", "isolation.level": "read_committed", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "enable.partition.eof": True, **settings, **QUIET})
    places = [TopicPartition(BANK, number, 0) for number in range(2)]
    legs: list[tuple[int, int]] = []
    try:
        ends = {place.partition: consumer.get_watermark_offsets(place, timeout=30)[1] for place in places}
        consumer.assign(places)

        def complete() -> bool:
            for message in consumer.consume(1000, 0.5):
                if message.error() is None:
                    number, amount = bytes(message.value() or b"").split()
                    legs.append((int(number), int(amount)))
            return all(place.offset >= ends[place.partition] for place in consumer.position(places))

        assert wait_until(complete, CLOCK, 90_000, 10), (
            f"a transaction stays open: {consumer.position(places)} of {ends}"
        )
    finally:
        consumer.close()
    return legs
