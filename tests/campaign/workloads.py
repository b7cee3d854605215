"""What clients do all the time: queues, a group that reads them, and banks. Each writes its history down."""

from __future__ import annotations

import random
import subprocess
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from broker.dev.polling import wait_until
from network.protocol.errors import ErrorCode
from tests.campaign import java_client
from tests.campaign.asyncio_load import AsyncioLoad
from tests.campaign.checker import Acknowledged, Found, History, Outcome, Place, Position
from tests.campaign.java_client import JavaClient
from tests.clients.group_harness import MemberProcess
from tests.support.batches import iter_batches
from tests.support.cluster import CLOCK, Cluster
from tests.support.replication import QUIET, IdempotentLoad, PlainLoad, Reader, log_content, read_back

ONCE, PLAIN, ASYNCIO, JAVA = QUEUES = ("queue-once", "queue-plain", "queue-asyncio", "queue-java")
BANK, JAVA_BANK = BANKS = ("bank", "bank-java")
PARTITIONS = 4
GROUP = "readers"
ASK_AGAIN = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
"""What OffsetFetch may be refused with while a coordinator moves."""
INTERVAL_S = 0.08
"""Up to 15 records of each writer in so long."""
JAVA_TRANSFERS = 1_000_000_000
"""Numbers of the Java client's transfers begin here."""
# Of librdkafka and of kafka-python: whole clusters stand still at times, and no record is to be given up for that.
LIBRDKAFKA = {"message.timeout.ms": 400_000, "socket.timeout.ms": 10_000}
KAFKA_PYTHON = {"delivery_timeout_ms": 400_000, "max_block_ms": 200_000}


Writer = IdempotentLoad | PlainLoad | AsyncioLoad | JavaClient


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
        self.join(200)
        assert not self.is_alive(), "the bank does not come to an end"


class Workloads:
    """All of them, started; `finish` ends them and gives their history, with what a reader finds in the end."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._history = History()
        self.given_up: Counter[str] = Counter()
        """Records of which a client said that it failed; they may be there all the same."""
        at = cluster.bootstrap
        self._once = IdempotentLoad(at, ONCE, PARTITIONS, INTERVAL_S, security=LIBRDKAFKA)
        self._plain = PlainLoad(at, PLAIN, PARTITIONS, INTERVAL_S, security=KAFKA_PYTHON)
        self._asyncio = AsyncioLoad(at, ASYNCIO, PARTITIONS, INTERVAL_S)
        self._reader = Reader(at, ONCE, PARTITIONS)
        self.members = [
            MemberProcess(library, at, GROUP, *QUEUES) for library in ("confluent", "kafka-python", "aiokafka")
        ]
        self._java: JavaClient | None = None
        if not java_client.missing():
            self._java = JavaClient(at, JAVA, PARTITIONS, JAVA_BANK, GROUP, list(QUEUES), INTERVAL_S)
            self.members.append(self._java)
        self.loads: list[Writer] = [self._once, self._plain, self._asyncio, *([self._java] if self._java else [])]
        self._bank = Bank(at, self._history.transfers, seed)
        self._bank.start()

    def look(self) -> None:
        """Note what the group has committed, while all is well."""
        settings: dict[str, Any] = {"bootstrap.servers": self._cluster.bootstrap, "group.id": GROUP, **QUIET}
        wanted = [TopicPartition(topic, number) for topic in QUEUES for number in range(PARTITIONS)]
        consumer = Consumer(settings)
        noted: list[Position] = []

        def answered() -> bool:
            at = CLOCK.monotonic_ns()
            try:
                found = consumer.committed(wanted, 20)
            except KafkaException:
                return False
            # Without a commit the offset is a negative number.
            noted[:] = [Position(at, (each.topic, each.partition), max(0, each.offset)) for each in found]
            return not any(each.error for each in found)

        try:
            assert wait_until(answered, CLOCK, 90_000, 500), "nobody tells what the group has committed"
        finally:
            consumer.close()
        self._history.starts += noted

    def finish(self) -> tuple[History, dict[Place, list[Found]]]:
        """When no fault is left. Raises AssertionError for what the clients themselves complain of."""
        for load in self.loads:
            load.finish()
        self._bank.finish()
        final: dict[Place, list[Found]] = {}
        for load in self.loads:
            read = read_back(self._cluster, load.topic, PARTITIONS)
            if load is self._once:
                self._reader.finish(read)
            self._note(load, read, final)
        self._wait_delivered(final)
        self.look()
        for member in self.members:
            self._end(member)
            self._history.commits += [Position(at, (topic, p), offset) for at, topic, p, offset in member.commits]
            self._note_starts(member)
        if self._java:
            self._history.transfers |= {JAVA_TRANSFERS + n: outcome for n, outcome in self._java.transfers.items()}
        for bank, first in ((BANK, 0), (JAVA_BANK, JAVA_TRANSFERS)):
            self._history.legs += [(first + number, amount) for number, amount in committed_legs(self._cluster, bank)]
        return self._history, final

    def _note_starts(self, member: MemberProcess) -> None:
        refused: dict[tuple[int, str, int], set[int]] = defaultdict(set)
        for each in member.refusals:
            refused[each.since, each.topic, each.partition].add(each.error)
        for at, topic, p, offset in member.starts:
            errors = refused[at, topic, p]
            if offset == 0 and errors and errors <= ASK_AGAIN:
                # aiokafka takes this answer for "nothing is committed".
                self.given_up["aiokafka: began anew instead of asking again"] += 1
                self._history.anew.append(Position(at, (topic, p), 0))
            else:
                self._history.starts.append(Position(at, (topic, p), offset))
                if ErrorCode.OFFSET_OUT_OF_RANGE in errors:
                    # No excuse: told for who looks into it.
                    self.given_up["aiokafka: out of range at the first fetch"] += 1

    def _end(self, member: MemberProcess) -> None:
        """It leaves the group. A client that then does not end has told what it was given all the same."""
        try:
            member.leave()
        except subprocess.TimeoutExpired:
            member.kill()
            self.given_up[f"{member.name} did not end"] += 1
        else:
            assert member.closed, repr(member)

    def close(self) -> None:
        """End what is left of the processes of clients."""
        for member in self.members:
            if member.process.poll() is None:
                member.kill()

    def _note(
        self,
        load: Writer,
        read: dict[int, list[bytes]],
        final: dict[Place, list[Found]],
    ) -> None:
        writer, numbers = load.topic, []
        for partition, acknowledged in load.acknowledged.items():
            place = (load.topic, partition)
            final[place] = [Found(offset, writer, int(value)) for offset, value in enumerate(read[partition])]
            for offset, value in acknowledged:
                numbers.append(int(value))
                self._history.acknowledged.append(Acknowledged(place, offset, writer, int(value)))
        if isinstance(load, AsyncioLoad | JavaClient):
            self._history.sent[writer] = load.sent
            identities = len(producers_of(self._cluster, load.topic))
            once = not load.given_up and identities == 1
            if identities > 1:
                self.given_up[f"{writer}: took another identity"] += identities - 1
            self.given_up.update({f"{writer}: {error}": count for error, count in load.given_up.items()})
        else:
            # All was acknowledged, or it would have failed.
            self._history.sent[writer] = max(numbers, default=-1) + 1
            once = isinstance(load, IdempotentLoad) and load.kept_identity
        if once:
            self._history.once.add(writer)

    def _wait_delivered(self, final: dict[Place, list[Found]]) -> None:
        """The group catches up; if it does not, the checker tells what is missing."""
        delivered = self._history.delivered

        def caught_up() -> bool:
            delivered.clear()
            delivered.update({place: set() for place in final})
            for member in self.members:
                for topic, partition, offset, _ in list(member.records):
                    delivered[topic, partition].add(offset)
            return all(len(delivered[place]) >= len(found) for place, found in final.items())

        wait_until(caught_up, CLOCK, 150_000, 1_000)


def producers_of(cluster: Cluster, topic: str) -> set[tuple[int, int]]:
    """Producer id and epoch of all that is in a topic, by one replica of each partition."""
    found: set[tuple[int, int]] = set()
    for number in range(PARTITIONS):
        name = f"{topic}-{number}"
        holder = next(each for each in cluster.brokers if any((parent / name).is_dir() for parent in each.log_dirs))
        batches = iter_batches(log_content(holder, topic, number))
        found |= {(batch.producer_id, batch.producer_epoch) for batch in batches}
    return found


def committed_legs(cluster: Cluster, topic: str) -> Sequence[tuple[int, int]]:
    """The records of a bank that a reader of committed ones is given, once no transaction is open."""
    settings: dict[str, Any] = {"group.id": "check", "isolation.level": "read_committed", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "enable.partition.eof": True, **settings, **QUIET})
    places = [TopicPartition(topic, number, 0) for number in range(2)]
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

        # An empty topic has no position to wait for.
        assert not any(ends.values()) or wait_until(complete, CLOCK, 90_000, 10), (
            f"a transaction stays open: {consumer.position(places)} of {ends}"
        )
    finally:
        consumer.close()
    return legs
