"""A broker that has just started: whom it names to clients can be used at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from network.protocol.errors import ErrorCode
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.describe_cluster import DescribeClusterRequest
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support import wire
from tests.support.cluster import CLOCK, START_TIMEOUT_MS, Cluster, Kind

STARTS = 4


@pytest.mark.parametrize("kind", ["odradek", "kafka"])
def test_a_broker_that_is_named_takes_topics(kind: Kind, zookeeper: str, tmp_path: Path) -> None:
    cluster = Cluster([kind], tmp_path, f"{zookeeper}/start-{kind}")
    (broker,) = cluster.brokers
    try:
        for start in range(STARTS):
            broker.start()
            broker.wait_listening()
            with wire.connected(broker) as connection:
                deadline = CLOCK.monotonic_ms() + START_TIMEOUT_MS
                named = connection.call(MetadataRequest(topics=[]), 12)
                if kind == "odradek":
                    # Apache Kafka names nobody for a moment, which makes librdkafka drop every address it has.
                    assert [node.node_id for node in named.brokers] == [0]
                while not named.brokers:
                    assert CLOCK.monotonic_ms() < deadline, "the broker names nobody"
                    named = connection.call(MetadataRequest(topics=[]), 12)
                assert named.controller_id == 0
                described = connection.call(DescribeClusterRequest(), 1)
                assert [node.broker_id for node in described.brokers] == [0]
                topics = [CreatableTopic(name=f"named-{start}", num_partitions=2, replication_factor=1)]
                (made,) = connection.call(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7).topics
                assert ErrorCode.of(made.error_code) is ErrorCode.NONE, made.error_message
                auto = MetadataRequest(topics=[MetadataRequestTopic(name=f"auto-{start}")])
                (wanted,) = connection.call(auto, 12).topics
                assert ErrorCode.of(wanted.error_code) in (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE)
            assert broker.stop() in (0, 143)
    finally:
        cluster.stop()
