"""What a streaming query shows of its progress in a consumer group, and how groups refuse it."""

from __future__ import annotations

import contextlib
import socket
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from network.client.cluster_client import ClusterClient
from spark_jobs.group_offsets import COMMIT_TIMEOUT_MS, PAUSE_MS, GroupCommits, committed_offsets
from spark_jobs.options import Partition
from tests.support import wire
from tests.support.acl_matrix import MINE
from tests.support.cluster import CLOCK, HOST, Cluster, Kind
from tests.support.secured import ADDRESSES, World
from timer.clock import ManualClock


@pytest.fixture
def client(cluster: Cluster) -> Iterator[ClusterClient]:
    with cluster.client() as made:
        yield made


@pytest.fixture
def group() -> str:
    return f"query-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"groups-{uuid.uuid4().hex[:8]}"
    wire.create_topic(cluster, name, partitions=2)
    return name


def seen_by_others(cluster: Cluster, group: str, topic: str) -> list[int]:
    """What librdkafka finds committed."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        return [each.offset for each in consumer.committed([TopicPartition(topic, p) for p in (0, 1)], 30)]
    finally:
        consumer.close()


def test_what_is_committed_is_seen_and_only_once_sent(
    cluster: Cluster, client: ClusterClient, group: str, topic: str
) -> None:
    commits = GroupCommits(client, group, ManualClock())
    commits.commit({(topic, 0): 5, (topic, 1): 7})
    commits.commit({(topic, 0): 5, (topic, 1): 7})
    commits.commit({})
    assert (commits.commits, commits.failures) == (1, 0)
    assert seen_by_others(cluster, group, topic) == [5, 7]
    assert committed_offsets(client, group, [(topic, 0), (topic, 1)]) == {(topic, 0): 5, (topic, 1): 7}
    assert committed_offsets(client, "another", [(topic, 0)]) == {}


def test_a_group_with_living_members_refuses_and_is_left_alone_for_a_while(
    cluster: Cluster, client: ClusterClient, group: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "session.timeout.ms": 6000})
    consumer.subscribe([topic])
    try:
        while not consumer.assignment():
            consumer.poll(0.2)
        clock = ManualClock()
        commits = GroupCommits(client, group, clock)
        position: dict[Partition, int] = {(topic, 0): 1, (topic, 1): 2}
        commits.commit(position)
        assert (commits.commits, commits.failures) == (0, 1)
        assert "living members: give the query a group of its own: 2 partitions" in caplog.text
        commits.commit(position)
        assert commits.failures == 1
    finally:
        consumer.close()
    clock.advance(PAUSE_MS)
    commits.commit(position)
    assert (commits.commits, commits.failures) == (1, 1)
    assert seen_by_others(cluster, group, topic) == [1, 2]


def test_a_group_that_was_deleted_is_there_again_with_all_its_partitions(
    cluster: Cluster, client: ClusterClient, group: str, topic: str
) -> None:
    commits = GroupCommits(client, group, ManualClock())
    commits.commit({(topic, 0): 5, (topic, 1): 7})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_consumer_groups([group])[group].result(30)
    commits.commit({(topic, 0): 6, (topic, 1): 7})
    assert (commits.commits, commits.failures) == (2, 0)
    assert seen_by_others(cluster, group, topic) == [6, 7]


def test_a_topic_that_is_gone_is_counted_and_the_others_are_committed(
    cluster: Cluster, client: ClusterClient, group: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    commits = GroupCommits(client, group, ManualClock())
    commits.commit({("gone", 0): 4, (topic, 0): 5, (topic, 1): 7})
    assert (commits.commits, commits.failures) == (0, 1)
    assert "UNKNOWN_TOPIC_OR_PARTITION: 1 partitions" in caplog.text
    assert seen_by_others(cluster, group, topic) == [5, 7]


def test_a_cluster_that_is_away_is_counted(group: str, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as held:
        held.bind((HOST, 0))
        address = f"{HOST}:{held.getsockname()[1]}"
        with ClusterClient(address, "away", CLOCK, request_timeout_ms=COMMIT_TIMEOUT_MS) as client:
            commits = GroupCommits(client, group, CLOCK)
            commits.commit({("t", 0): 1})
            assert commits.failures == 1
    assert "the query goes on, 1 commits failed so far" in caplog.text


@pytest.mark.parametrize("kind", ["odradek", "kafka"])
def test_a_principal_that_may_not_is_told_what_to_allow(
    secured: World, kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    broker = secured.brokers[kind]

    def from_nobody(plain: socket.socket, _: str) -> socket.socket:
        plain.close()
        made = socket.create_connection((HOST, broker.port), 30, source_address=(ADDRESSES["nothing"], 0))
        made.setblocking(False)
        return made

    with contextlib.closing(ClusterClient(f"{HOST}:{broker.port}", "nobody", CLOCK, wrap=from_nobody)) as client:
        commits = GroupCommits(client, "group", CLOCK)
        commits.commit({(MINE, 0): 1})
    assert commits.failures == 1
    assert "GROUP_AUTHORIZATION_FAILED, allow the principal READ on the group" in caplog.text
