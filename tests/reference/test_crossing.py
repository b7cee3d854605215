"""One broker's directory served by Apache Kafka, by Odradek, and by Kafka again, under real clients. Two minutes.

After each change of hands committed groups, high watermarks, compacted and transactional topics are what they were, and
everybody goes on: the group from its offset, the cleaner, the transactional producer.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker.dev.polling import wait_until
from log.files.checkpoint import OffsetCheckpoint
from log.topic_partition import TopicPartition as LogPartition
from tests.reference.kafka import require
from tests.support.cluster import CLOCK, Cluster, Kind
from tests.support.until_end import until_end

SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.index.size.max.bytes": "65536",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.dedupe.buffer.size": "4000000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}
SEGMENTS = {"segment.bytes": "20000", "index.interval.bytes": "1000"}
COMPACT = {**SEGMENTS, "cleanup.policy": "compact", "delete.retention.ms": "100000000"}
TOPICS = ("plain", "table", "txn")
KEYS = 40
WAIT_MS = 60_000
QUIET = {"log_level": 0}


class Story:
    """What the clients did, and what must be there; `stage` counts the brokers that served."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.broker = cluster.brokers[0]
        self.plain: list[bytes] = []
        self.table: dict[bytes, bytes | None] = {}
        self.committed_values: list[bytes] = []
        self.group_at = 0
        self.ends: dict[str, int] = {}
        self.cleaned = 0
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        configs = {"plain": SEGMENTS, "table": COMPACT, "txn": SEGMENTS}
        for future in admin.create_topics([NewTopic(n, 1, 1, config=c) for n, c in configs.items()]).values():
            future.result(30)

    # ---- what must be there

    def check(self) -> None:
        assert [v for _, _, v in self.read("plain")] == self.plain
        assert [v for _, _, v in self.read("txn")] == self.committed_values
        found: dict[bytes, bytes | None] = {}
        records = self.read("table")
        for _, key, value in records:
            assert key is not None
            found[key] = value
        assert found == self.table
        assert {topic: self.end(topic) for topic in TOPICS} == self.ends

    def end(self, topic: str) -> int:
        """The high watermark, as the broker tells it."""
        consumer = self.consumer("watermarks")
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1])
        finally:
            consumer.close()

    def read(self, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
        consumer = self.consumer("reader")
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            return [(message.offset(), message.key(), message.value()) for message in until_end(consumer)]  # type: ignore[misc]
        finally:
            consumer.close()

    def consumer(self, group: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "check.crcs": True,
                **QUIET,
            }
        )

    # ---- what clients do

    def group_goes_on(self, leave: int) -> None:
        """A member of the group begins at the committed offset, and commits `leave` records before the end."""
        consumer = self.consumer("group")
        try:
            consumer.subscribe(["plain"])
            found = [message.offset() for message in until_end(consumer)]
            assert found == list(range(self.group_at, len(self.plain)))
            self.group_at = len(self.plain) - leave
            consumer.commit(offsets=[TopicPartition("plain", 0, self.group_at, metadata="so far")], asynchronous=False)
        finally:
            consumer.close()

    def check_group(self) -> None:
        consumer = self.consumer("group")
        try:
            (found,) = consumer.committed([TopicPartition("plain", 0)], timeout=60)
            assert (found.offset, found.metadata) == (self.group_at, "so far")
        finally:
            consumer.close()

    def write(self, stage: int) -> None:
        producer = Producer(
            {"bootstrap.servers": self.cluster.bootstrap, "enable.idempotence": True, "batch.size": 2000, **QUIET}
        )
        for number in range(200):
            value = b"%d %d " % (stage, number) * 10
            producer.produce("plain", value, key=b"k", partition=0)
            self.plain.append(value)
        for number in range(400):
            key = b"key %d" % (number % KEYS)
            # Some keys are only written in one stage, and some are deleted.
            row = None if number % KEYS == stage else b"%d %d " % (stage, number) * 60
            if number % KEYS % 4 == stage % 4 or number % KEYS == stage or number % 3 == 0:
                producer.produce("table", row, key=key, partition=0)
                self.table[key] = row
        assert producer.flush(60) == 0
        transactional = Producer(
            {"bootstrap.servers": self.cluster.bootstrap, "transactional.id": "crossing", "batch.size": 2000, **QUIET}
        )
        transactional.init_transactions(60)
        for commit in (True, False, True):
            transactional.begin_transaction()
            for number in range(30):
                value = b"%d %d %d" % (stage, commit, number)
                transactional.produce("txn", value, partition=0)
                if commit:
                    self.committed_values.append(value)
            assert transactional.flush(60) == 0
            (transactional.commit_transaction if commit else transactional.abort_transaction)(60)
        self.ends = {topic: self.end(topic) for topic in TOPICS}

    def wait_cleaned(self) -> None:
        """Until the cleaner of this broker has gone through what was written."""
        checkpoint = OffsetCheckpoint(str(self.broker.data / "cleaner-offset-checkpoint"), str(self.broker.data))

        def cleaned() -> bool:
            return checkpoint.read().get(LogPartition("table", 0), 0) > self.cleaned

        assert wait_until(cleaned, CLOCK, WAIT_MS), "nothing is cleaned"
        self.cleaned = checkpoint.read()[LogPartition("table", 0)]

    # ---- the change of hands

    def hand_over(self, kind: Kind, end: str) -> None:
        if end == "kill":
            assert wait_until(lambda: self.marks() == self.ends, CLOCK, WAIT_MS), (self.marks(), self.ends)
            self.broker.kill()
        else:
            assert self.broker.stop() in (0, 143)
        assert self.marks() == self.ends
        self.broker.kind = kind
        self.broker.start()
        self.cluster.wait_ready()

    def marks(self) -> dict[str, int]:
        """The high watermarks that are on disk."""
        path = self.broker.data / "replication-offset-checkpoint"
        found = OffsetCheckpoint(str(path), str(self.broker.data)).read()
        return {topic: found.get(LogPartition(topic, 0), -1) for topic in TOPICS}


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_everything_crosses_with_the_directory(make_cluster: Callable[..., Cluster], end: str) -> None:
    require()
    kinds: list[Kind] = ["kafka", "odradek", "kafka"]
    if end == "stop":
        kinds.append("odradek")
    story = Story(make_cluster([kinds[0]], settings=SETTINGS))
    for stage, kind in enumerate(kinds):
        if stage:
            story.hand_over(kind, end)
            story.check()
            story.check_group()
        story.write(stage)
        story.group_goes_on(leave=7 * stage + 3)
        story.wait_cleaned()
        story.check()
        story.check_group()
