"""Load on replicated topics, what must be true of it afterwards, and replicas compared byte for byte."""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from broker.dev.polling import wait_until
from log.files.checkpoint import OffsetCheckpoint
from log.tools.verify import Severity, Verifier
from log.topic_partition import TopicPartition as LogPartition
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster

# A broker that is down is no error here.
logging.getLogger("kafka").setLevel(logging.CRITICAL)
METADATA_VERSION = 9
HIGH_WATERMARKS = "replication-offset-checkpoint"
# Chatter about brokers that are down is no news in tests that kill them.
QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 500, "topic.metadata.refresh.interval.ms": 2000}


class Load:
    """A producer with acks=all that goes on until it is finished; remembers what was acknowledged where, in order."""

    def __init__(self, topic: str, partitions: int) -> None:
        self.topic = topic
        self.acknowledged: dict[int, list[tuple[int | None, bytes]]] = {number: [] for number in range(partitions)}
        self._failed: list[object] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"load of {topic}", daemon=True)

    def _run(self) -> None:
        number = 0
        try:
            while not self._stop.is_set():
                for _ in range(15):
                    if not self._send(b"%d" % number, number % len(self.acknowledged)):
                        break
                    number += 1
                self._rest()
        except Exception as error:
            self._failed.append(error)
            raise

    def _send(self, value: bytes, partition: int) -> bool:
        """Hand a record to the client; False if its buffer is full."""
        raise NotImplementedError

    def _rest(self) -> None:
        raise NotImplementedError

    def _flush(self) -> None:
        """Wait until everything is acknowledged or has failed."""
        raise NotImplementedError

    @property
    def count(self) -> int:
        """Records acknowledged so far."""
        return sum(map(len, self.acknowledged.values()))

    def wait_progress(self, records: int = 60, timeout_ms: int = 120_000) -> None:
        """Until every partition has acknowledged so many more."""
        targets = {number: len(done) + records for number, done in self.acknowledged.items()}

        def progressed() -> bool:
            assert not self._failed, self._failed[:3]
            return all(len(self.acknowledged[number]) >= target for number, target in targets.items())

        assert wait_until(progressed, CLOCK, timeout_ms), {n: len(done) for n, done in self.acknowledged.items()}

    def finish(self) -> None:
        """Stop, and let everything that was sent be acknowledged; no record may have failed."""
        self._stop.set()
        self._thread.join(130)
        self._flush()
        assert not self._failed, self._failed[:3]

    def check(self, read: dict[int, list[bytes]], start: int = 0) -> None:
        """Every acknowledged record stands at the offset that it was acknowledged with.

        The load began at offset ``start`` of every partition.
        """
        for number, acknowledged in self.acknowledged.items():
            found = read[number]
            # A client that learns of a success only from a later one does not know the offset.
            known = [(offset, value) for offset, value in acknowledged if offset is not None]
            moved = [(offset, value) for offset, value in known if found[offset : offset + 1] != [value]]
            assert not moved, f"{self.topic}-{number}: {len(moved)} are not where they were acknowledged: {moved[:3]}"


class IdempotentLoad(Load):
    """librdkafka, several requests in flight: every record is there once and in order.

    Up to 15 records are written every ``interval_s`` seconds, in turn to all partitions.

    When a broker refuses a request because it does not know yet that it leads, and takes the next one when it does,
    that one skips sequence numbers, and librdkafka goes on with a new producer epoch. Then nobody can recognise what is
    written a second time: records on their way in any partition may be there twice, still in order.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        interval_s: float = 0.02,
        security: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(topic, partitions)
        self._interval_s = interval_s
        self._identities: set[tuple[int, int]] = set()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "max.in.flight.requests.per.connection": 5,
                "linger.ms": 5,
                "message.timeout.ms": 120_000,
                "statistics.interval.ms": 500,
                "stats_cb": self._on_statistics,
                **QUIET,
                **security,
            }
        )
        self._thread.start()

    def _send(self, value: bytes, partition: int) -> bool:
        try:
            self._producer.produce(self.topic, value=value, partition=partition, on_delivery=self._delivered)
        except BufferError:
            return False
        return True

    def _rest(self) -> None:
        self._producer.poll(0)
        self._stop.wait(self._interval_s)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failed.append(error)
        else:
            self.acknowledged[message.partition()].append((message.offset(), message.value()))

    @property
    def kept_identity(self) -> bool:
        """Whether it has been one producer of one epoch from begin to end."""
        return len(self._identities) == 1

    def _on_statistics(self, text: str) -> None:
        now = json.loads(text)["eos"]
        if now["producer_id"] >= 0:
            self._identities.add((now["producer_id"], now["producer_epoch"]))

    def _flush(self) -> None:
        assert self._producer.flush(120) == 0
        self._producer.poll(1)

    def check(self, read: dict[int, list[bytes]], start: int = 0) -> None:
        """Acknowledged is there: once, in order, where it was acknowledged."""
        super().check(read, start)
        assert self._identities, "statistics came"
        for number, acknowledged in self.acknowledged.items():
            found = read[number][start:]
            if len(self._identities) > 1:
                found = list(dict.fromkeys(found))
            assert found == [value for _, value in acknowledged], f"{self.topic}-{number}"


class PlainLoad(Load):
    """kafka-python without idempotence, at most one request with records of a partition on its way.

    A retry may write records twice; but a batch is sent only after the one before it was acknowledged, to whatever
    broker, so records stand in order where they occur first. (librdkafka promises less with one request in flight: it
    has the next one built already, and sends it while a refused one waits for its retry.)
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        interval_s: float = 0.02,
        security: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(topic, partitions)
        self._interval_s = interval_s
        self._waiting = threading.BoundedSemaphore(2_000)
        self._producer = KafkaProducer(
            **{
                "bootstrap_servers": bootstrap.split(","),
                "acks": "all",
                "enable_idempotence": False,
                "max_in_flight_requests_per_connection": 1,
                "retries": 1_000_000,
                "linger_ms": 5,
                "reconnect_backoff_max_ms": 500,
                "request_timeout_ms": 10_000,
                "metadata_max_age_ms": 2_000,
                "delivery_timeout_ms": 120_000,
                "max_block_ms": 60_000,
                **security,
            }
        )
        self._thread.start()

    def _send(self, value: bytes, partition: int) -> bool:
        if not self._waiting.acquire(blocking=False):
            return False
        future = self._producer.send(self.topic, value=value, partition=partition)
        future.add_callback(self._delivered, value)
        future.add_errback(self._refused)
        return True

    def _rest(self) -> None:
        self._stop.wait(self._interval_s)

    def _delivered(self, value: bytes, metadata: Any) -> None:
        self._waiting.release()
        self.acknowledged[metadata.partition].append((metadata.offset, value))

    def _refused(self, error: object) -> None:
        self._waiting.release()
        self._failed.append(error)

    def _flush(self) -> None:
        self._producer.flush(120)
        self._producer.close(30)

    def check(self, read: dict[int, list[bytes]], start: int = 0) -> None:
        """Acknowledged is there at least once, where it was acknowledged; records occur first in order."""
        super().check(read, start)
        for number, acknowledged in self.acknowledged.items():
            first = list(dict.fromkeys(int(value) for value in read[number][start:]))
            swapped = [pair for pair in itertools.pairwise(first) if pair[0] > pair[1]]
            assert not swapped, f"{self.topic}-{number} is out of order: {swapped[:3]}"
            assert len(first) == len(acknowledged), f"{self.topic}-{number}: all was acknowledged, and only once"


class Reader:
    """A consumer that follows a topic all the time: offsets come without gap, nothing it was given may vanish."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, security: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
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
                **security,
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
                    got = self.read[message.partition()]  # type: ignore[index]
                    if message.offset() != len(got):
                        self._problems.append(f"offset {message.offset()} after {len(got) - 1}")
                    got.append(message.value())  # type: ignore[arg-type]
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


def ask_controller(cluster: Cluster, ask: Callable[[AdminClient], Mapping[Any, Any]]) -> None:
    """What an admin client asks, until who answers is the controller: brokers may still name the one of before.

    Raises:
        KafkaException: The controller refused it.
    """

    def answered() -> bool:
        # A client each time: librdkafka goes on asking the controller that it was told of first.
        admin = AdminClient({"bootstrap.servers": ",".join(broker.address for broker in cluster.running), **QUIET})
        try:
            for future in ask(admin).values():
                future.result(60)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_CONTROLLER:
                raise
            return False
        return True

    assert wait_until(answered, CLOCK, 60_000, 200), "no broker is the controller"


def delete_topic(cluster: Cluster, topic: str) -> None:
    """Ask for the deletion, and wait until the answer comes."""
    ask_controller(cluster, lambda admin: admin.delete_topics([topic], operation_timeout=30))


def create_topic(
    cluster: Cluster,
    topic: str,
    assignment: list[list[int]],
    *,
    min_isr: int = 2,
    config: Mapping[str, str] | None = None,
) -> None:
    """A topic that acknowledges with so many replicas, known to every broker."""
    configs = {"min.insync.replicas": str(min_isr), **(config or {})}
    new = NewTopic(topic, len(assignment), replica_assignment=assignment, config=configs)
    ask_controller(cluster, lambda admin: admin.create_topics([new], operation_timeout=30))
    wait_in_sync(cluster, topic)


def partitions_of(broker: Broker, topic: str) -> dict[int, tuple[int, set[int], set[int]]]:
    """Leader, replicas and ISR of each partition as this very broker tells them: client libraries ask any.

    Raises:
        ApiError: The broker doesn't know the topic.
        OSError: The broker doesn't answer.
    """
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (found,) = wire.call(broker, request, METADATA_VERSION).topics
    if found.error_code:
        raise ApiError(ErrorCode.of(found.error_code))
    return {
        entry.partition_index: (entry.leader_id, set(entry.replica_nodes), set(entry.isr_nodes))
        for entry in found.partitions
    }


def seen_partitions(broker: Broker, topic: str) -> dict[int, tuple[int, set[int], set[int]]]:
    """`partitions_of` for those who wait: empty while the broker doesn't know the topic or doesn't answer."""
    try:
        return partitions_of(broker, topic)
    except (ApiError, OSError):
        return {}


def leader_of(cluster: Cluster, topic: str, partition: int = 0, asked: Broker | None = None) -> int:
    """The leader, as a running broker (or the one that is `asked`) tells it once there is one."""
    last: list[int] = []

    def known() -> bool:
        last[:] = [seen_partitions(asked or cluster.running[0], topic).get(partition, (-1,))[0]]
        return last[0] >= 0

    assert wait_until(known, CLOCK, 60_000, 200), f"{topic}-{partition} has no leader: {last}"
    return last[0]


def wait_in_sync(
    cluster: Cluster, topic: str, timeout_ms: int = 120_000, replicas: Collection[int] | None = None
) -> None:
    """Until every running broker sees a leader and all replicas in sync for every partition.

    With ``replicas``, until these brokers alone have one of every partition.
    """
    last: list[object] = []

    def in_sync() -> bool:
        for broker in cluster.running:
            try:
                found = partitions_of(broker, topic)
            except (ApiError, OSError) as error:
                last[:] = [broker.broker_id, error]
                return False
            last[:] = [broker.broker_id, found]
            if not found or any(leader < 0 or holders != isr for leader, holders, isr in found.values()):
                return False
            if replicas is not None and any(holders != set(replicas) for _, holders, _ in found.values()):
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
        ends = {place.partition: _end_of(consumer, place) for place in places}
        consumer.assign(places)
        limit = time.monotonic() + 60
        while time.monotonic() < limit and any(len(read[number]) < ends[number] for number in read):
            for message in consumer.consume(1000, 1):
                assert message.error() is None, message.error()
                got = read[message.partition()]  # type: ignore[index]
                assert message.offset() == len(got)
                got.append(message.value())  # type: ignore[arg-type]
    finally:
        consumer.close()
    assert {number: len(got) for number, got in read.items()} == ends
    return read


_MOVING = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)


def _end_of(consumer: Consumer, place: TopicPartition) -> int:
    """The high watermark, asked again while its leader moves."""
    limit = time.monotonic() + 30
    while True:
        try:
            return int(consumer.get_watermark_offsets(place, timeout=30)[1])
        except KafkaException as error:
            if error.args[0].code() not in _MOVING or time.monotonic() > limit:
                raise
        time.sleep(0.2)


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
