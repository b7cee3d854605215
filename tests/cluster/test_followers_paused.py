"""Followers that stand still: the low watermark, min.insync.replicas, the high watermark, and reads from the nearest
replica. On Odradek and on Apache Kafka."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker.dev.polling import wait_until
from network.protocol.errors import ErrorCode
from network.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from network.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from network.protocol.messages.produce import PartitionProduceResponse
from tests.reference import kafka
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster, running_cluster
from tests.support.paused import PATIENT, controller_first, paused, wait_isr
from tests.support.replication import QUIET, Reader, check_replicas, read_back, wait_in_sync

RACKS = {number: {"broker.rack": f"rack-{number}"} for number in range(3)}
SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
LATEST = -1
# What is held back until a broker goes on is given this long by its client.
PATIENCE_MS = 120_000

Topics = dict[str, int]


@pytest.fixture(scope="module", params=["odradek", "kafka"])
def shared(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, Topics]]:
    """Three brokers of a kind for all tests; at the end the replicas of all their topics are compared."""
    if request.param == "kafka":
        kafka.require()
    name = f"paused-{request.param}"
    topics: Topics = {}
    directory = tmp_path_factory.mktemp(name)
    settings = {**PATIENT, **SELECTOR}
    with running_cluster([request.param] * 3, directory, f"{zookeeper}/{name}", settings, RACKS) as cluster:
        yield cluster, topics
        cluster.stop()
        check_replicas(cluster, {topic: [end] for topic, end in topics.items()})


@pytest.fixture
def cluster(shared: tuple[Cluster, Topics]) -> Cluster:
    return shared[0]


@pytest.fixture
def topic(shared: tuple[Cluster, Topics]) -> Iterator[Callable[..., str]]:
    """Makes topics of one partition, led by the controller; afterwards they get in sync again."""
    cluster, topics = shared
    made = []

    def make(**configs: str) -> str:
        name = wire.fresh_name("paused")
        replicas = [broker.broker_id for broker in controller_first(cluster)]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
        new = NewTopic(name, 1, replica_assignment=[replicas], config=configs)
        admin.create_topics([new], operation_timeout=30)[name].result(60)
        wait_in_sync(cluster, name)
        made.append(name)
        return name

    yield make
    for name in made:
        wait_in_sync(cluster, name)
        topics[name] = end_offset(controller_first(cluster)[0], name)


def end_offset(broker: Broker, topic: str) -> int:
    answer = wire.list_offset(broker, topic, LATEST)
    assert answer.error_code == 0
    return answer.offset


def delete_records(broker: Broker, topic: str, offset: int, timeout_ms: int = 30_000) -> DeleteRecordsPartitionResult:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=timeout_ms
    )
    answer = wire.call(broker, request, 2, PATIENCE_MS).topics[0].partitions[0]
    assert isinstance(answer, DeleteRecordsPartitionResult)
    return answer


def log_starts(cluster: Cluster, topic: str, offset: int) -> list[int]:
    """What each broker tells a consumer that reads at `offset`."""
    return [wire.fetch(broker, topic, offset).log_start_offset for broker in cluster.brokers]


def values(*names: str) -> Any:
    return wire.batch([name.encode() for name in names])


def produce_patiently(broker: Broker, topic: str, records: Any) -> PartitionProduceResponse:
    """With acks=all, however long replicas take."""
    request = wire.produce_request(topic, records)
    request.timeout_ms = PATIENCE_MS
    answer = wire.call(broker, request, wire.PRODUCE_VERSION, PATIENCE_MS).responses[0].partition_responses[0]
    assert isinstance(answer, PartitionProduceResponse)
    return answer


def append(broker: Broker, topic: str, records: Any, acks: int = -1) -> int:
    """The offset of the first record."""
    answer = wire.produce(broker, topic, records, acks=acks) if acks >= 0 else produce_patiently(broker, topic, records)
    assert ErrorCode.of(answer.error_code) is ErrorCode.NONE
    return answer.base_offset


class InBackground:
    """A call on a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._results: list[Any] = []
        self._thread = threading.Thread(target=lambda: self._results.append(call()), daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return bool(self._results)

    def result(self) -> Any:
        self._thread.join(PATIENCE_MS / 1000)
        assert self._results, "no answer"
        return self._results[0]


def test_delete_records_waits_for_all_replicas(cluster: Cluster, topic: Callable[..., str]) -> None:
    name = topic()
    leader, follower, slow = controller_first(cluster)
    append(leader, name, values(*(f"r{number}" for number in range(20))))

    answer = delete_records(leader, name, 5)
    assert (answer.error_code, answer.low_watermark) == (0, 5)
    assert log_starts(cluster, name, 6) == [5, 5, 5]

    with paused(slow):
        # The leader has done it, and so does the other follower; the one that stands still holds the answer back.
        answer = delete_records(leader, name, 10, timeout_ms=1_500)
        assert ErrorCode.of(answer.error_code) is ErrorCode.REQUEST_TIMED_OUT
        assert answer.low_watermark == 5
        assert wire.fetch(leader, name, 12).log_start_offset == 10
        # A follower hears of it with its next fetch.
        assert wait_until(lambda: wire.fetch(follower, name, 12).log_start_offset == 10, CLOCK, 30_000)
        waiting = InBackground(lambda: delete_records(leader, name, 12, PATIENCE_MS))
        assert not wait_until(lambda: waiting.is_done, CLOCK, 1_000)
    answer = waiting.result()
    assert (answer.error_code, answer.low_watermark) == (0, 12)
    assert log_starts(cluster, name, 12) == [12, 12, 12]

    # Below the log start nothing can be read, on no replica; asking for less changes nothing.
    for broker in cluster.brokers:
        assert ErrorCode.of(wire.fetch(broker, name, 11).error_code) is ErrorCode.OFFSET_OUT_OF_RANGE
    answer = delete_records(leader, name, 3)
    assert (answer.error_code, answer.low_watermark) == (0, 12)
    answer = delete_records(leader, name, 21)
    assert (ErrorCode.of(answer.error_code), answer.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    answer = delete_records(follower, name, 15)
    assert (ErrorCode.of(answer.error_code), answer.low_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)

    # -1 is the high watermark: everything goes, and offsets go on.
    answer = delete_records(leader, name, -1)
    assert (answer.error_code, answer.low_watermark) == (0, 20)
    assert log_starts(cluster, name, 20) == [20, 20, 20]
    assert append(leader, name, values("after")) == 20


def test_min_insync_replicas(cluster: Cluster, topic: Callable[..., str]) -> None:
    name = topic(**{"min.insync.replicas": "2"})
    leader, one, two = controller_first(cluster)
    append(leader, name, values(*(f"r{number}" for number in range(10))))
    reader = Reader(cluster.bootstrap, name, 1)
    with paused(one):
        with paused(two):
            # Appended while the ISR was large enough; then the followers lag too long and are taken out.
            waiting = InBackground(lambda: produce_patiently(leader, name, values("kept")))
            assert wait_until(lambda: append_position(leader, name) == 11, CLOCK, 30_000, 10)
            check_end(leader, name, 10)
            hasty = wire.produce_request(name, values("kept too"))
            hasty.timeout_ms = 500
            answer = wire.call(leader, hasty, wire.PRODUCE_VERSION).responses[0].partition_responses[0]
            assert ErrorCode.of(answer.error_code) is ErrorCode.REQUEST_TIMED_OUT
            assert answer.base_offset == 11
            wait_isr(leader, name, {leader.broker_id})

            # Under the minimum: acks=all is refused before anything is written; acks=1 is written, and not shown.
            answer = wire.produce(leader, name, values("refused"))
            assert ErrorCode.of(answer.error_code) is ErrorCode.NOT_ENOUGH_REPLICAS
            assert answer.base_offset == -1
            assert append(leader, name, values("leader only"), acks=1) == 12
            check_end(leader, name, 10)
            # Nor is anybody told NOT_ENOUGH_REPLICAS_AFTER_APPEND: that takes a high watermark that has passed.
            assert not waiting.is_done
        # With one follower back it goes on, and everything that was appended is committed.
        answer = waiting.result()
        assert (ErrorCode.of(answer.error_code), answer.base_offset) == (ErrorCode.NONE, 10)
        wait_isr(leader, name, {leader.broker_id, two.broker_id})
        assert append(leader, name, values("enough again")) == 13
        check_end(leader, name, 14)
    wait_in_sync(cluster, name)
    read = read_back(cluster, name, 1)
    assert read[0][10:] == [b"kept", b"kept too", b"leader only", b"enough again"]
    reader.finish(read)


def append_position(leader: Broker, topic: str) -> int:
    """The log end of a replica, which ListOffsets tells a debugging replica (-2)."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(replica_id=-2, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
    answer = wire.call(leader, request, 7).topics[0].partitions[0]
    assert answer.error_code == 0
    return int(answer.offset)


def check_end(leader: Broker, topic: str, end: int) -> None:
    """Consumers get nothing from `end` on, and no error either: the records are there."""
    answer = wire.fetch(leader, topic, end)
    assert (answer.error_code, answer.high_watermark, wire.records_of(answer)) == (0, end, [])
    assert end_offset(leader, topic) == end


def test_consumers_stay_below_the_high_watermark(cluster: Cluster, topic: Callable[..., str]) -> None:
    name = topic()
    leader, follower, slow = controller_first(cluster)
    append(leader, name, values("a", "b", "c"))
    reader = Reader(cluster.bootstrap, name, 1)
    with paused(slow):
        assert append(leader, name, values("d"), acks=1) == 3
        waiting = InBackground(lambda: append(leader, name, values("e", "f")))
        # Both followers count as long as they are in the ISR.
        answer = wire.fetch(leader, name, 3, max_wait_ms=500)
        assert (answer.error_code, answer.high_watermark, wire.records_of(answer)) == (0, 3, [])
        wait_high_watermark(follower, name, 3)
        wait_isr(leader, name, {leader.broker_id, follower.broker_id})
        assert waiting.result() == 4
        check_end(leader, name, 6)
    wait_in_sync(cluster, name)
    read = read_back(cluster, name, 1)
    assert read[0] == [b"a", b"b", b"c", b"d", b"e", b"f"]
    reader.finish(read)


class NearConsumer:
    """A consumer in a rack; knows which broker it fetches from."""

    def __init__(self, cluster: Cluster, topic: str, rack: int, reset: str = "error") -> None:
        self.read: list[bytes] = []
        self.offsets: list[int] = []
        self.errors: list[KafkaError] = []
        self.broker = -1
        self.next_offset = -1
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": f"near-{topic}",
                "client.rack": f"rack-{rack}",
                "enable.auto.commit": False,
                "auto.offset.reset": reset,
                "socket.timeout.ms": 4_000,
                "fetch.wait.max.ms": 200,
                "statistics.interval.ms": 200,
                "stats_cb": self._on_statistics,
                **QUIET,
            }
        )

    def start(self, offset: int) -> None:
        self._consumer.assign([TopicPartition(self._topic, 0, offset)])

    def _on_statistics(self, text: str) -> None:
        topics = json.loads(text)["topics"]
        if self._topic in topics and "0" in topics[self._topic]["partitions"]:
            partition = topics[self._topic]["partitions"]["0"]
            self.broker, self.next_offset = partition["broker"], partition["next_offset"]

    def until(self, condition: Callable[[], bool], what: str, timeout_ms: int = 60_000) -> None:
        """Consume until it holds."""

        def step() -> bool:
            for message in self._consumer.consume(100, 0.1):
                error = message.error()
                if error is None:
                    self.read.append(message.value() or b"")
                    self.offsets.append(message.offset() or 0)
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.errors.append(error)
            return condition()

        assert wait_until(step, CLOCK, timeout_ms, 0), f"{what}: at {self.offsets[-1:]} of broker {self.broker}"

    def close(self) -> None:
        self._consumer.close()


def test_consumers_read_from_the_replica_in_their_rack(cluster: Cluster, topic: Callable[..., str]) -> None:
    name = topic()
    leader, near, other = controller_first(cluster)
    append(leader, name, values(*(f"r{number}" for number in range(10))))

    # The leader names the replica and gives no records; a rack without a replica, and its own, it serves itself.
    wait_high_watermark(near, name, 10)
    answer = wire.fetch(leader, name, 0, rack_id=f"rack-{near.broker_id}")
    assert (answer.error_code, answer.preferred_read_replica) == (0, near.broker_id)
    assert not wire.records_of(answer)
    for rack in ("elsewhere", "", f"rack-{leader.broker_id}"):
        answer = wire.fetch(leader, name, 0, rack_id=rack)
        assert answer.preferred_read_replica == -1
        assert len(wire.records_of(answer)) == 10
    # A replica answers with what it has, as far as it knows it committed; beyond its log there is nothing.
    assert len(wire.records_of(wire.fetch(near, name, 0, rack_id=f"rack-{near.broker_id}"))) == 10
    assert wire.fetch(near, name, 10).error_code == 0
    for broker in cluster.brokers:
        assert ErrorCode.of(wire.fetch(broker, name, 11).error_code) is ErrorCode.OFFSET_OUT_OF_RANGE

    consumer = NearConsumer(cluster, name, near.broker_id)
    try:
        consumer.start(0)
        consumer.until(lambda: len(consumer.read) == 10 and consumer.broker == near.broker_id, "nearest replica")
        append(leader, name, values("more"))
        consumer.until(lambda: len(consumer.read) == 11, "records that came later")
        assert consumer.broker == near.broker_id

        # The nearest replica stands still: it leaves the ISR and is no candidate any more; the leader serves.
        with paused(near):
            append(leader, name, values("without it"))
            consumer.until(
                lambda: consumer.read[-1] == b"without it" and consumer.broker == leader.broker_id,
                "records of the leader",
            )
            behind = wire.fetch(leader, name, 11, rack_id=f"rack-{near.broker_id}")
            assert behind.preferred_read_replica == -1
        wait_in_sync(cluster, name)
        append(leader, name, values("with it"))
        consumer.until(lambda: consumer.read[-1] == b"with it", "records after its return")
        assert consumer.offsets == list(range(13))
        assert not consumer.errors
    finally:
        consumer.close()

    # Records that were deleted while a consumer wanted them from a follower: it starts again as it was told to.
    assert delete_records(leader, name, 8).low_watermark == 8
    for reset, first in (("earliest", 8), ("latest", 13)):
        late = NearConsumer(cluster, name, other.broker_id, reset)
        try:
            late.start(2)
            late.until(lambda late=late: late.broker == other.broker_id, "nearest replica")  # type: ignore[misc]
            late.until(lambda late=late: late.next_offset >= 8, "a new start")  # type: ignore[misc]
            end = end_offset(leader, name)
            append(leader, name, values(reset))
            late.until(lambda late=late, end=end: late.offsets[-1:] == [end], reset)  # type: ignore[misc]
            assert late.offsets == list(range(first if reset == "earliest" else late.offsets[0], end + 1))
            assert late.offsets[0] >= first
        finally:
            late.close()


def wait_high_watermark(broker: Broker, topic: str, offset: int) -> None:
    """A follower hears of it with its next fetch."""
    assert wait_until(lambda: wire.fetch(broker, topic, 0).high_watermark == offset, CLOCK, 30_000)
