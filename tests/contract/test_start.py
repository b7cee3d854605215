"""A broker that has just started: whom it names to clients can be used at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.dev.polling import wait_until
from network.protocol.errors import ErrorCode
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.describe_cluster import DescribeClusterRequest
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support import wire
from tests.support.cluster import CLOCK, HOST, START_TIMEOUT_MS, Broker, Cluster, Kind

STARTS = 4
OPEN = (
    "listeners: PLAINTEXT://0.0.0.0:1 is reachable from other machines without encryption or authentication (PLAINTEXT)"
)


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


@pytest.mark.parametrize(("address", "lines"), [("0.0.0.0:1", [OPEN]), ("127.0.0.1:1", [])])
def test_a_plain_listener_beyond_loopback_is_one_warning(tmp_path: Path, address: str, lines: list[str]) -> None:
    """It is said before anything is bound: there is no ZooKeeper here, which ends the start."""
    settings = {"listeners": f"PLAINTEXT://{address}", "zookeeper.connection.timeout.ms": "100"}
    broker = Broker("odradek", 0, 1, tmp_path, f"{HOST}:1", settings)
    broker.start()
    assert broker.process is not None
    try:
        assert wait_until(lambda: broker.process is not None and not broker.process.is_running, CLOCK, 60_000)
    finally:
        broker.kill()
    said = [line for line in broker.log_file.read_text().splitlines() if "reachable from other machines" in line]
    assert [line[line.index("listeners: ") :].rpartition(" (")[0] for line in said] == lines
    assert all(" WARN" in line for line in said)
