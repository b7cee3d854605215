"""Threads, the cleaner and limits of connections of a running broker follow its dynamic configs."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from broker.config.kafka_config import KafkaConfig
from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from broker.server import BrokerServer
from log.files.checkpoint import CLEANER_CHECKPOINT, OffsetCheckpoint
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition
from network.client.connection import Connection
from network.protocol.messages.api_versions import ApiVersionsRequest
from network.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support import wire
from tests.support.cluster import CLOCK, HOST
from tests.support.configs import change_configs

BROKER = 4
WAIT_MS = 60_000
ANSWER_MS = 500


@pytest.fixture(scope="module")
def server(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerServer]:
    """A broker in this process, so that its threads can be looked at."""
    server = started(zookeeper, tmp_path_factory.mktemp("dynamic-threads"))
    try:
        yield server
    finally:
        server.shutdown()


def started(zookeeper: str, directory: Path) -> BrokerServer:
    settings = {
        "broker.id": "0",
        "zookeeper.connect": f"{zookeeper}/{directory.name}",
        "listeners": f"PLAINTEXT://{HOST}:{free_ports(1)[0]}",
        "log.dirs": str(directory / "data"),
        "background.threads": "4",
        "controlled.shutdown.enable": "false",
    }
    server = BrokerServer(KafkaConfig(settings))
    server.startup()
    return server


@pytest.fixture
def admin(server: BrokerServer) -> Iterator[Connection]:
    """Connected before anything is limited."""
    connection = connected(server)
    yield connection
    connection.close()


def connected(server: BrokerServer) -> Connection:
    return Connection(HOST, server.bound_port("PLAINTEXT"), "test", CLOCK)


def alter(admin: Connection, name: str, value: str | None, broker: str = "0") -> None:
    change_configs(admin.call, BROKER, broker, {name: value})


def created(admin: Connection, partitions: int, configs: Mapping[str, str] | None = None) -> str:
    """A topic whose partitions have a leader."""
    topic = CreatableTopic(
        name=wire.fresh_name(),
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    (answer,) = admin.call(CreateTopicsRequest(topics=[topic], timeout_ms=WAIT_MS), 5).topics
    assert answer.error_code == 0, answer.error_message

    def led() -> bool:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic.name)], allow_auto_topic_creation=False)
        (found,) = admin.call(asked, 9).topics
        return len(found.partitions) == partitions and all(each.leader_id >= 0 for each in found.partitions)

    assert wait_until(led, CLOCK, WAIT_MS)
    return topic.name


def threads(part: str) -> int:
    return sum(part in thread.name for thread in threading.enumerate())


def answers(connection: Connection) -> bool:
    """Whether the broker answers within a while; a connection that it has closed does not."""
    try:
        connection.call(ApiVersionsRequest(), 0, ANSWER_MS)
    except (OSError, EOFError):
        return False
    return True


def lets_in(server: BrokerServer) -> bool:
    connection = connected(server)
    try:
        return answers(connection)
    finally:
        connection.close()


@pytest.mark.parametrize("broker", ["0", ""], ids=["own", "all"])
@pytest.mark.parametrize(
    ("name", "part", "steps"),
    [
        ("num.io.threads", "data-plane-kafka-request-handler", (6, 3)),
        ("num.network.threads", "kafka-network-thread", (2, 1)),
        ("log.cleaner.threads", "kafka-log-cleaner-thread", (2, 1)),
    ],
)
def test_threads_come_and_go(server: BrokerServer, name: str, part: str, steps: tuple[int, int], broker: str) -> None:
    before = threads(part)
    assert before == server.config.get_int(name)
    try:
        for count in steps:
            with contextlib.closing(connected(server)) as connection:
                alter(connection, name, str(count), broker)
            assert wait_until(lambda count=count: threads(part) == count, CLOCK, WAIT_MS)  # type: ignore[misc]
            assert lets_in(server)
    finally:
        with contextlib.closing(connected(server)) as connection:
            alter(connection, name, None, broker)
    assert wait_until(lambda: threads(part) == before, CLOCK, WAIT_MS)


def test_one_listener_has_a_number_of_its_own(server: BrokerServer, admin: Connection) -> None:
    name = "listener.name.plaintext.num.network.threads"
    alter(admin, name, "2")
    assert wait_until(lambda: threads("kafka-network-thread") == 2, CLOCK, WAIT_MS)
    assert all(lets_in(server) for _ in range(4))
    alter(admin, name, None)
    assert wait_until(lambda: threads("kafka-network-thread") == 1, CLOCK, WAIT_MS)


def test_background_tasks_run_on_as_many_threads(server: BrokerServer, admin: Connection) -> None:
    """More tasks than threads wait for each other: as many of them run as the broker has threads."""
    free, lock, running = threading.Event(), threading.Lock(), [0]

    def task() -> None:
        with lock:
            running[0] += 1
        free.wait(WAIT_MS / 1000)

    try:
        for number in range(12):
            server.scheduler.schedule_once(f"blocks-{number}", task)
        assert wait_until(lambda: running[0] == 4, CLOCK, WAIT_MS)
        alter(admin, "background.threads", "8")
        assert wait_until(lambda: running[0] == 8, CLOCK, WAIT_MS)
    finally:
        free.set()
        alter(admin, "background.threads", None)
    assert wait_until(lambda: running[0] == 12, CLOCK, WAIT_MS)


def test_the_cleaner_reads_as_much_at_once(
    server: BrokerServer, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The half of what a thread has, of segments of 100 kB; the other half is for what it writes."""
    read: list[int] = []
    plain = os.pread

    def noted(file: int, size: int, position: int) -> bytes:
        if "log-cleaner" in threading.current_thread().name:
            read.append(size)
        return plain(file, size, position)

    monkeypatch.setattr(os, "pread", noted)
    configs = {"cleanup.policy": "compact", "segment.bytes": "100000", "min.cleanable.dirty.ratio": "0.01"}
    topic = created(admin, 1, configs)
    checkpoint = OffsetCheckpoint(Path(server.log_manager.live_log_dirs[0]) / CLEANER_CHECKPOINT)

    def largest() -> int:
        """Of all that was read until a whole new segment has been cleaned; of one alone it would be chance."""
        read.clear()
        written: list[int] = []
        for _ in range(20):
            sent = wire.produce_request(topic, wire.batch([b"v" * 9_000], keys=[b"k"]))
            answer = admin.call(sent, wire.PRODUCE_VERSION).responses[0].partition_responses[0]
            assert answer.error_code == 0
            written.append(answer.base_offset)
        assert wait_until(lambda: checkpoint.read().get(TopicPartition(topic, 0), 0) > written[0], CLOCK, WAIT_MS)
        return max(read)

    alter(admin, "log.cleaner.backoff.ms", "100")
    try:
        assert largest() > 50_000
        alter(admin, "log.cleaner.io.buffer.size", "40000")
        assert wait_until(lambda: largest() <= 20_000, CLOCK, WAIT_MS)
    finally:
        alter(admin, "log.cleaner.io.buffer.size", None)
        alter(admin, "log.cleaner.backoff.ms", None)


def test_logs_are_closed_by_as_many_threads(zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for another one that is being closed at the same time."""
    server = started(zookeeper, tmp_path)
    try:
        with contextlib.closing(connected(server)) as admin:
            created(admin, 4)
            alter(admin, "num.recovery.threads.per.data.dir", "2")
            logs = server.log_manager
            assert wait_until(lambda: logs.settings.recovery_threads_per_dir == 2, CLOCK, WAIT_MS)
        two, close = threading.Barrier(2), PartitionLog.close

        def closed(log: PartitionLog) -> None:
            two.wait(WAIT_MS / 1000)
            close(log)

        monkeypatch.setattr(PartitionLog, "close", closed)
    finally:
        server.shutdown()
    assert not two.broken


@pytest.mark.parametrize("limit", ["max.connections", "listener.name.plaintext.max.connections"])
@pytest.mark.parametrize("broker", ["0", ""], ids=["own", "all"])
def test_connections_are_limited(server: BrokerServer, admin: Connection, broker: str, limit: str) -> None:
    """`admin` keeps the one that it has; who comes is let in when there is room again."""
    assert lets_in(server)
    alter(admin, limit, "1", broker)
    try:
        assert wait_until(lambda: not lets_in(server), CLOCK, WAIT_MS)
        assert answers(admin)
    finally:
        alter(admin, limit, None, broker)
    assert wait_until(lambda: lets_in(server), CLOCK, WAIT_MS)


@pytest.mark.parametrize(
    "limit", ["max.connection.creation.rate", "listener.name.plaintext.max.connection.creation.rate"]
)
def test_new_connections_are_slowed_down(server: BrokerServer, admin: Connection, limit: str) -> None:
    """At one a second, as many at once as the windows hold come in, and then somebody waits."""
    alter(admin, limit, "1")
    try:
        assert wait_until(lambda: not lets_in(server), CLOCK, WAIT_MS)
        assert answers(admin)
    finally:
        alter(admin, limit, None)
    assert wait_until(lambda: lets_in(server), CLOCK, WAIT_MS)
