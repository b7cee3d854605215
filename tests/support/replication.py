"""Load on replicated topics, what must be true of it afterwards, and replicas compared byte for byte."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker.dev.waiting import wait_until
from log.checkpoint import OffsetCheckpoint
from log.topic_partition import TopicPartition as LogPartition
from log.verify import Severity, Verifier
from tests.support.cluster import CLOCK, Broker, Cluster

HIGH_WATERMARKS = "replication-offset-checkpoint"
# Chatter about brokers that are down is no news in tests that kill them.
QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 500, "topic.metadata.refresh.interval.ms": 2000}


class Load:
    """A producer with acks=all that goes on until it is finished; remembers what was acknowledged, in order."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, idempotent: bool = True) -> None:
        self.topic = topic
        self.idempotent = idempotent
        self.acknowledged: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
        self._failed: list[KafkaError] = []
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": idempotent,
                "max.in.flight.requests.per.connection": 5,
                "linger.ms": 5,
                "message.timeout.ms": 120_000,
                **QUIET,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            for _ in range(15):
                try:
                    self._producer.produce(
                        self.topic,
                        value=b"%d" % number,
                        partition=number % len(self.acknowledged),
                        on_delivery=self._delivered,
                    )
                except BufferError:
                    break
                number += 1
            self._producer.poll(0.02)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failed.append(error)
        else:
            self.acknowledged[message.partition()].append(message.value())

    @property
    def count(self) -> int:
        """Records acknowledged so far."""
        return sum(map(len, self.acknowledged.values()))

    def wait_progress(self, records: int = 60, timeout_ms: int = 60_000) -> None:
        """Until every partition has acknowledged so many more."""
        targets = {number: len(done) + records for number, done in self.acknowledged.items()}

        def progressed() -> bool:
            return all(len(self.acknowledged[number]) >= target for number, target in targets.items())

        assert wait_until(progressed, CLOCK, timeout_ms), {n: len(done) for n, done in self.acknowledged.items()}

    def finish(self) -> None:
        """Stop, and let everything that was sent be acknowledged; no record may have failed."""
        self._stop.set()
        self._thread.join(10)
        assert self._producer.flush(120) == 0
        assert not self._failed, self._failed[:3]

    def check(self, read: dict[int, list[bytes]]) -> None:
        """Acknowledged is there: once and in order; of a plain producer, which promises no order, at least once."""
        for number, acknowledged in self.acknowledged.items():
            found = read[number]
            if self.idempotent:
                assert len(found) == len(acknowledged), f"{self.topic}-{number}"
                assert found == acknowledged, f"{self.topic}-{number}"
            else:
                assert not set(acknowledged) - set(found), f"{self.topic}-{number}"


class Reader:
    """A consumer that follows a topic all the time: offsets come without gap, nothing it was given may vanish."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.read: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
        self._topic = topic
        self._problems: list[str] = []
        self._stop = threading.Event()
        # An offset out of range would mean that it was given records past the high watermark.
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"reader-{topic}",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                **QUIET,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(500, 0.2):
                error = message.error()
                if error is None:
                    got = self.read[message.partition()]
                    if message.offset() != len(got):
                        self._problems.append(f"offset {message.offset()} after {len(got) - 1}")
                    got.append(message.value())
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self._problems.append(str(error))

    def finish(self, final: dict[int, list[bytes]]) -> None:
        """Stop; what it was given is how the partitions begin."""
        self._stop.set()
        self._thread.join(10)
        self._consumer.close()
        assert not self._problems, self._problems[:3]
        for number, got in self.read.items():
            assert got == final[number][: len(got)], f"{self._topic}-{number} was read differently before"


def create_topic(cluster: Cluster, topic: str, assignment: list[list[int]]) -> None:
    """A topic that acknowledges with two replicas, known to every broker."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    new = NewTopic(topic, len(assignment), replica_assignment=assignment, config={"min.insync.replicas": "2"})
    admin.create_topics([new], operation_timeout=30)[topic].result(60)
    wait_in_sync(cluster, topic)


def partitions_of(broker: Broker, topic: str) -> dict[int, tuple[int, set[int], set[int]]]:
    """Leader, replicas and ISR of each partition as one broker tells them."""
    admin = AdminClient({"bootstrap.servers": broker.address, **QUIET})
    found = admin.list_topics(topic, timeout=15).topics[topic].partitions
    return {number: (entry.leader, set(entry.replicas), set(entry.isrs)) for number, entry in found.items()}


def leader_of(cluster: Cluster, topic: str, partition: int = 0) -> int:
    """The leader, as a running broker tells it once there is one."""
    leaders: list[int] = []

    def known() -> bool:
        leaders[:] = [partitions_of(cluster.running[0], topic)[partition][0]]
        return leaders[0] >= 0

    assert wait_until(known, CLOCK, 30_000, 200), f"{topic}-{partition} has no leader"
    return leaders[0]


def wait_in_sync(cluster: Cluster, topic: str, timeout_ms: int = 60_000) -> None:
    """Until every running broker sees a leader and all replicas in sync for every partition."""
    last: list[object] = []

    def in_sync() -> bool:
        for broker in cluster.running:
            try:
                found = partitions_of(broker, topic)
            except (KafkaException, KeyError) as error:
                last[:] = [broker.broker_id, error]
                return False
            last[:] = [broker.broker_id, found]
            if not found or any(leader < 0 or replicas != isr for leader, replicas, isr in found.values()):
                return False
        return True

    assert wait_until(in_sync, CLOCK, timeout_ms, 200), f"{topic} is not in sync: {last}"


def read_back(cluster: Cluster, topic: str, partitions: int) -> dict[int, list[bytes]]:
    """All values of a topic. Offsets must be without gap."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "check", "enable.auto.commit": False, **QUIET}
    )
    read: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
    try:
        places = [TopicPartition(topic, number, 0) for number in read]
        ends = {place.partition: consumer.get_watermark_offsets(place, timeout=30)[1] for place in places}
        consumer.assign(places)
        limit = time.monotonic() + 60
        while time.monotonic() < limit and any(len(read[number]) < ends[number] for number in read):
            for message in consumer.consume(1000, 1):
                assert message.error() is None, message.error()
                got = read[message.partition()]
                assert message.offset() == len(got)
                got.append(message.value())
    finally:
        consumer.close()
    assert {number: len(got) for number, got in read.items()} == ends
    return read


def log_content(broker: Broker, topic: str, partition: int) -> bytes:
    """The bytes of a replica's segments; where they begin and end may differ between replicas."""
    files = sorted(broker.replica(topic, partition).glob("*.log"))
    assert files, f"broker {broker.broker_id} has no {topic}-{partition}"
    return b"".join(file.read_bytes() for file in files)


def checkpointed_high_watermarks(broker: Broker) -> dict[LogPartition, int]:
    """What all checkpoint files of a broker say."""
    found: dict[LogPartition, int] = {}
    for directory in broker.log_dirs:
        found.update(OffsetCheckpoint(directory / HIGH_WATERMARKS).read())
    return found


def check_replicas(
    cluster: Cluster, topics: Mapping[str, Sequence[int]], holders: Collection[int] | None = None
) -> None:
    """Of stopped brokers, quiet before: directories are sound, replicas identical and committed to their end.

    Every broker has a replica, or only the ``holders``.
    """
    having = [broker for broker in cluster.brokers if holders is None or broker.broker_id in holders]
    assert not cluster.running
    for broker in cluster.brokers:
        for directory in broker.log_dirs:
            findings = [f"{f.path}: {f.message}" for f in Verifier().verify(directory) if f.severity is Severity.ERROR]
            assert not findings, findings[:5]
    checkpoints = [checkpointed_high_watermarks(broker) for broker in having]
    for topic, ends in topics.items():
        for partition, end in enumerate(ends):
            copies = [log_content(broker, topic, partition) for broker in having]
            sizes = [len(copy) for copy in copies]
            assert len(set(copies)) == 1, f"{topic}-{partition}: replicas of {sizes} bytes differ"
            high_watermarks = [checkpoint.get(LogPartition(topic, partition), 0) for checkpoint in checkpoints]
            assert max(high_watermarks) == end, f"{topic}-{partition}: {high_watermarks}"
