"""One data directory, served by Apache Kafka and opened by our storage engine in turn.

Real clients write through Kafka (all codecs, transactions, a compacted and a deleted topic); the broker is killed or
stopped; our log manager opens its directory, finds every record, appends and stops; Kafka starts on what we left, and a
client reads everything.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from log.appends import append_as_leader
from log.config import LogConfig
from log.fetch_data import FetchIsolation
from log.files.meta_properties import read_meta_properties
from log.management.manager import LogManager
from log.partition_log import PartitionLog
from log.records.record import Record, iter_records
from log.records.validation import check_for_follower
from log.topic_partition import TopicPartition
from tests.reference.kafka import require, run_tool
from tests.support.batches import build_batch
from tests.support.cluster import Broker, Cluster
from tests.support.until_end import until_end
from timer.chance import SystemChance
from timer.clock import SystemClock
from timer.scheduler import BackgroundScheduler

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {"log.index.size.max.bytes": "65536", "zookeeper.session.timeout.ms": "6000"}
SEGMENTS = {"segment.bytes": "20000", "index.interval.bytes": "1000"}
PLAIN, TXN = TopicPartition("plain", 0), TopicPartition("txn", 0)


def create_topics(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topics = [
        NewTopic("plain", 1, 1, config=SEGMENTS),
        NewTopic("txn", 1, 1, config=SEGMENTS),
        NewTopic("doomed", 1, 1, config={"file.delete.delay.ms": "600000"}),
    ]
    for future in admin.create_topics(topics).values():
        future.result(30)


def delete_topic(cluster: Cluster, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.delete_topics([name]).values():
        future.result(30)


def write(cluster: Cluster, start: int, count: int) -> None:
    """`count` records per codec to `plain`, a committed and an aborted transaction to `txn`; all acknowledged."""
    number = start
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 5,
            }
        )
        for _ in range(count):
            producer.produce("plain", value(number), key=b"key", partition=0, headers=[("h", b"1")])
            number += 1
        assert producer.flush(30) == 0
    for commit in (True, False):
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": f"t-{commit}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for i in range(count):
            producer.produce("txn", b"%d %d" % (commit, start + i), partition=0)
        assert producer.flush(30) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(30)


def value(number: int) -> bytes:
    return b"value %d " % number * 8


def consume(cluster: Cluster, tp: TopicPartition, *, committed: bool = True) -> list[tuple[int, bytes]]:
    """(offset, value) of all records that a consumer gets."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    try:
        consumer.assign([ClientPartition(tp.topic, tp.partition, 0)])
        return [(message.offset(), message.value()) for message in until_end(consumer)]  # type: ignore[misc]
    finally:
        consumer.close()


class Engine:
    """Our log manager over a broker's directory."""

    def __init__(self, broker: Broker) -> None:
        properties = read_meta_properties(broker.data)
        assert properties is not None
        self.scheduler = BackgroundScheduler(2, SystemClock())
        self.scheduler.startup()
        self.failures: list[str] = []
        self.manager = LogManager(
            [str(broker.data)],
            default_config=LogConfig(),
            topic_configs=lambda topic: SEGMENTS if topic in ("plain", "txn") else {},
            broker_id=broker.broker_id,
            cluster_id=properties.cluster_id,
            clock=SystemClock(),
            scheduler=self.scheduler,
            chance=SystemChance(),
            on_dir_failure=self.failures.append,
        )
        self.manager.startup()

    def log(self, tp: TopicPartition) -> PartitionLog:
        log = self.manager.get_log(tp)
        assert log is not None
        log.update_high_watermark(log.log_end_offset)
        return log

    def stop(self) -> None:
        self.manager.shutdown()
        self.scheduler.shutdown()
        assert not self.failures


def records(log: PartitionLog) -> list[tuple[int, bytes]]:
    """What a read_committed consumer would make of the log."""
    found: list[tuple[int, bytes]] = []
    offset = log.log_start_offset
    while offset < log.last_stable_offset:
        info = log.read(offset, 1 << 20, FetchIsolation.TXN_COMMITTED, True)
        batches = check_for_follower(info.records.read()).batches
        info.records.release()
        aborted = info.aborted_transactions
        assert aborted is not None
        for batch in batches:
            skip = batch.is_control or (
                batch.is_transactional
                and any(
                    t.producer_id == batch.producer_id and t.first_offset <= batch.base_offset <= t.last_offset
                    for t in aborted
                )
            )
            if not skip:
                found.extend((record.offset, record.value or b"") for record in iter_records(batch))
        offset = batches[-1].last_offset + 1
    return found


def append(log: PartitionLog, start: int, count: int) -> None:
    for i in range(start, start + count):
        epoch = log.latest_epoch
        assert epoch is not None
        append_as_leader(log, build_batch([Record(0, SystemClock().wall_ms(), b"key", value(i))], codec=i % 5), epoch)
    log.update_high_watermark(log.log_end_offset)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_directory_of_kafka_opens_here_and_in_kafka_again(make_cluster: Callable[..., Cluster], end: str) -> None:
    require()
    cluster = make_cluster(["kafka"], settings=SETTINGS)
    broker = cluster.brokers[0]
    create_topics(cluster)
    write(cluster, 0, 60)
    delete_topic(cluster, "doomed")
    expected = {tp: consume(cluster, tp) for tp in (PLAIN, TXN)}
    assert [v for _, v in expected[PLAIN]] == [value(i) for i in range(300)]
    assert [v for _, v in expected[TXN]] == [b"1 %d" % i for i in range(60)]
    broker.stop() if end == "stop" else broker.kill()

    engine = Engine(broker)
    for tp, wanted in expected.items():
        assert records(engine.log(tp)) == wanted
    producers = {p.producer_id: p.producer_epoch for p in engine.log(TXN).active_producers()}
    assert len(producers) == 2
    append(engine.log(PLAIN), 300, 200)
    assert engine.log(PLAIN).number_of_segments > 1
    ends = {tp: engine.log(tp).log_end_offset for tp in expected}
    engine.stop()
    content_with_dump_tool(broker.data / "plain-0")

    broker.start()
    cluster.wait_ready()
    assert [v for _, v in consume(cluster, PLAIN)] == [value(i) for i in range(500)]
    assert consume(cluster, TXN) == expected[TXN]
    write(cluster, 500, 10)
    plain = consume(cluster, PLAIN)
    assert [v for _, v in plain] == [value(i) for i in range(550)]
    broker.stop()

    engine = Engine(broker)
    assert records(engine.log(PLAIN)) == plain
    assert engine.log(TXN).log_end_offset > ends[TXN]
    after = {p.producer_id: p.producer_epoch for p in engine.log(TXN).active_producers()}
    # The transactional producers went on with the same id and a higher epoch: their state survived both crossings.
    assert set(after) == set(producers)
    assert all(after[pid] > producers[pid] for pid in after)
    engine.stop()


def content_with_dump_tool(directory: Path) -> None:
    for kind in ("log", "index", "timeindex", "snapshot"):
        files = sorted(directory.glob(f"*.{kind}"))
        assert files
        flags = ["--deep-iteration"] if kind == "log" else ["--index-sanity-check"] if "index" in kind else []
        done = run_tool("kafka.tools.DumpLogSegments", *flags, "--files", ",".join(map(str, files)))
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        for complaint in ("Found timestamp mismatch", "Index offset", "Mismatches", "Exception", "isvalid: false"):
            assert complaint not in done.stdout, done.stdout[-2000:]


def test_kafka_recovers_what_we_leave_in_a_crash(make_cluster: Callable[..., Cluster]) -> None:
    """Our engine ends without a stop, with a torn batch; Kafka recovers the directory."""
    require()
    cluster = make_cluster(["kafka"], settings=SETTINGS)
    broker = cluster.brokers[0]
    create_topics(cluster)
    write(cluster, 0, 20)
    broker.stop()
    engine = Engine(broker)
    append(engine.log(PLAIN), 100, 150)
    active = Path(engine.log(PLAIN).active_segment.path)
    for log in engine.manager.all_logs():
        log.close_handles()
    engine.scheduler.shutdown()
    for log_dir in engine.manager._live.values():
        log_dir.unlock(remove=False)
    with active.open("r+b") as file:
        file.truncate(active.stat().st_size - 7)

    broker.start()
    cluster.wait_ready()
    assert [v for _, v in consume(cluster, PLAIN)] == [value(i) for i in range(249)]
    broker.stop()
