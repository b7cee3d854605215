"""Configs of groups outlive the broker."""

from __future__ import annotations

from pathlib import Path

from network.client.connection import Connection
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.cluster import CLOCK, HOST, Cluster
from tests.support.configs import GROUP, alter_config
from tests.support.consumer_member import RawMember, wait_until
from tests.support.consumer_protocol import running_consumer_cluster


def interval(cluster: Cluster) -> int:
    """What a member is told as soon as the coordinator lets it in."""
    with cluster.client() as client:
        client.coordinator("g")
    with Connection(HOST, cluster.brokers[0].port, "test", CLOCK) as connection:
        member = RawMember(connection, "g", ["t"])
        wait_until(lambda: member.full(0).error_code == 0, "the coordinator is loaded")
        found = member.beat().heartbeat_interval_ms
        member.leave()
    return found


def test_a_broker_that_starts_knows_them(zookeeper: str, tmp_path: Path) -> None:
    with running_consumer_cluster("odradek", tmp_path, f"{zookeeper}/group-configs-restart") as cluster:
        with cluster.client() as client:
            wanted = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            client.call_controller(CreateTopicsRequest(topics=[wanted], timeout_ms=15_000))
        (broker,) = cluster.brokers
        alter_config(broker, GROUP, "g", consumer_heartbeat_interval_ms="700")
        broker.stop()
        broker.start()
        cluster.wait_ready()
        assert interval(cluster) == 700
