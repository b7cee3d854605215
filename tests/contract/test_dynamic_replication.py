"""Broker configs of replication that are changed while brokers run, each by what it does: two brokers, of which one is
stopped half way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from broker.dev.polling import wait_until
from network.protocol.errors import ErrorCode
from network.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponsePartition
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster, running_cluster
from tests.support.configs import change_configs

TOPIC, BROKER = 2, 4
WAIT_MS = 60_000
SETTINGS = {
    "replica.lag.time.max.ms": "1500",
    "zookeeper.session.timeout.ms": "60000",
    "controlled.shutdown.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
}
UNCLEAN = "unclean.leader.election.enable"


@pytest.fixture(scope="module", params=["odradek", "kafka"])
def cluster(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    name = f"dynamic-replication-{request.param}"
    directory = tmp_path_factory.mktemp(name)
    with running_cluster([request.param] * 2, directory, f"{zookeeper}/{name}", SETTINGS) as cluster:
        yield cluster


def alter(broker: Broker, name: str, value: str | None, resource: str, kind: int = BROKER) -> None:
    change_configs(partial(wire.call, broker), kind, resource, {name: value})


def created(cluster: Cluster, replicas: list[int], partitions: int = 1) -> str:
    """A topic whose partitions are all led by the first of them."""
    name = wire.fresh_name()
    assignments = [CreatableReplicaAssignment(partition_index=each, broker_ids=replicas) for each in range(partitions)]
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    with cluster.client() as client:
        (result,) = client.call_controller(CreateTopicsRequest(topics=[topic], timeout_ms=WAIT_MS)).topics
    assert result.error_code == 0, result.error_message
    cluster.wait_topic(name, partitions)
    return name


def told(broker: Broker, topic: str) -> MetadataResponsePartition:
    """What one broker knows of the first partition."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    partition: MetadataResponsePartition = wire.call(broker, asked, 12).topics[0].partitions[0]
    return partition


def connections(follower: Broker, leader: Broker) -> int:
    """How many `follower` has to the port of `leader`."""
    assert follower.process is not None
    sockets = set()
    for path in Path(f"/proc/{follower.process.pid}/fd").iterdir():
        try:
            sockets.add(os.readlink(path))
        except FileNotFoundError:
            continue
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    port = f":{leader.port:04X}"
    return sum(row[2].endswith(port) and f"socket:[{row[9]}]" in sockets for row in rows)


@pytest.mark.parametrize("level", ["own", "all"])
def test_how_many_fetch_from_a_leader(cluster: Cluster, level: str) -> None:
    """Each has a connection of its own, and a partition of sixteen finds its way to every one of two."""
    leader, follower = cluster.brokers
    topic = created(cluster, [0, 1], 16)
    assert wire.produce(leader, topic, wire.batch([b"x"]), acks=1).error_code == 0
    # A controller has a connection, too; that there is a fetcher's shows in what it has brought.
    copies = [directory / f"{topic}-0" / f"{0:020}.log" for directory in follower.log_dirs]
    assert wait_until(lambda: any(file.exists() and file.stat().st_size > 0 for file in copies), CLOCK, WAIT_MS)
    before = connections(follower, leader)
    resource = "1" if level == "own" else ""
    alter(follower, "num.replica.fetchers", "2", resource)
    assert wait_until(lambda: connections(follower, leader) == before + 1, CLOCK, WAIT_MS)
    alter(follower, "num.replica.fetchers", None, resource)
    assert wait_until(lambda: connections(follower, leader) == before, CLOCK, WAIT_MS)


def test_a_leader_alone_and_a_broker_that_was_not_in_sync(cluster: Cluster) -> None:
    """The controller leads, the other is paused until it has left the ISR: what is asked of an ISR of one is changed.
    Then the leader ends, and whether the other may lead is changed. The last test of a cluster: one broker is gone."""
    with cluster.client() as client:
        goes = cluster.brokers[client.metadata([]).controller_id]
    stays = cluster.brokers[1 - goes.broker_id]
    topic, later = (created(cluster, [goes.broker_id, stays.broker_id]) for _ in range(2))
    stays.pause()
    for each in (topic, later):  # which it has not
        assert wire.produce(goes, each, wire.batch([b"x"]), acks=1).error_code == 0

    def outcome() -> int:
        return int(wire.produce(goes, topic, wire.batch([b"x"]), acks=-1).error_code)

    assert wait_until(lambda: all(len(told(goes, each).isr_nodes) == 1 for each in (topic, later)), CLOCK, WAIT_MS)
    assert outcome() == 0
    for resource in (str(goes.broker_id), ""):
        alter(goes, "min.insync.replicas", "2", resource)
        assert wait_until(lambda: outcome() == ErrorCode.NOT_ENOUGH_REPLICAS, CLOCK, WAIT_MS)
        alter(goes, "min.insync.replicas", None, resource)
        assert wait_until(lambda: outcome() == 0, CLOCK, WAIT_MS)
    alter(goes, UNCLEAN, "false", later, TOPIC)
    goes.stop()
    stays.resume()

    def leader(name: str) -> int | None:
        """None while a broker that was just resumed does not answer."""
        try:
            return told(stays, name).leader_id
        except OSError:
            return None

    assert wait_until(lambda: leader(topic) == leader(later) == -1, CLOCK, WAIT_MS)
    alter(stays, UNCLEAN, "true", str(stays.broker_id))
    assert wait_until(lambda: leader(topic) == stays.broker_id, CLOCK, WAIT_MS)
    assert leader(later) == -1
    alter(stays, UNCLEAN, None, str(stays.broker_id))
    alter(stays, UNCLEAN, None, later, TOPIC)
    alter(stays, UNCLEAN, "true", "")
    assert wait_until(lambda: leader(later) == stays.broker_id, CLOCK, WAIT_MS)
