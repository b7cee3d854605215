"""ApiVersions, Metadata, DescribeCluster and DescribeConfigs: what clients ask first."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from broker.dev.polling import wait_until
from network.protocol.api import API
from network.protocol.errors import ErrorCode
from network.protocol.messages.describe_cluster import DescribeClusterRequest
from network.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from network.protocol.uuids import ZERO_UUID
from tests.support import wire
from tests.support.cluster import CLOCK, HOST, Broker, Cluster
from tests.support.sockets import RawClient, api_versions_frame
from tests.support.zookeeper import zookeeper_client

TOPIC, BROKER = 2, 4
FROM_TOPIC, STATIC, DEFAULT = 1, 4, 5
WAIT_MS = 30_000


@pytest.fixture
def broker(cluster: Cluster) -> Broker:
    return cluster.brokers[0]


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_api_versions_lists_the_same(broker: Broker, version: int) -> None:
    answer = wire.call(broker, wire.ASK_VERSIONS, version)
    assert answer.error_code == 0
    listed = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert list(listed) == sorted(listed)
    assert {0, 1, 2, 3, 18, 19, 20, 22, 32, 60} <= listed.keys()
    for key, (low, high) in listed.items():
        assert API[key].min_version <= low <= high <= API[key].max_version
    assert listed == {
        each.api_key: (each.min_version, each.max_version) for each in wire.call(broker, wire.ASK_VERSIONS, 0).api_keys
    }


def test_the_answer_to_api_versions_has_the_oldest_header(broker: Broker) -> None:
    client = RawClient(broker.port)
    client.send(api_versions_frame(9, version=3))
    answer = client.frame()
    client.close()
    # Correlation id, then at once the error code: no tagged fields in between, unlike every other flexible answer.
    assert struct.unpack_from(">ih", answer) == (9, 0)


# KIP-714, as Kafka 3.9 writes it: bodies of version 0, flexible.
TELEMETRY = {
    71: bytes(16) + b"\0",
    72: bytes(16) + struct.pack(">i?b", 1, False, 0) + b"\1\0",
    74: b"\0",
}


@pytest.mark.parametrize("key", TELEMETRY)
def test_client_telemetry_is_not_served_in_zookeeper_mode(broker: Broker, key: int) -> None:
    assert key not in {each.api_key for each in wire.call(broker, wire.ASK_VERSIONS, 3).api_keys}
    client = RawClient(broker.port)
    frame = struct.pack(">hhihb", key, 0, 1, -1, 0) + TELEMETRY[key]
    client.send(struct.pack(">i", len(frame)) + frame)
    assert client.is_closed()
    client.close()


def test_the_features_epoch_follows_the_znode(cluster: Cluster, broker: Broker) -> None:
    def epoch() -> int:
        return int(wire.call(broker, wire.ASK_VERSIONS, 3).finalized_features_epoch)

    with zookeeper_client(cluster.zookeeper) as zk:
        data, stat = zk.get("/feature")
        # The controller writes it right after its election, the broker sees it a moment later.
        assert wait_until(lambda: epoch() == stat.version, CLOCK, WAIT_MS)
        zk.set("/feature", data)
        assert wait_until(lambda: epoch() == stat.version + 1, CLOCK, WAIT_MS)


def test_null_is_all_topics_and_empty_is_none(cluster: Cluster, broker: Broker) -> None:
    name = wire.create_topic(cluster)
    for version in range(1, 13):
        every = wire.call(broker, MetadataRequest(topics=None), version)
        assert name in {topic.name for topic in every.topics}, version
        none = wire.call(broker, MetadataRequest(topics=[]), version)
        assert none.topics == []
        assert [(b.node_id, b.host, b.port) for b in none.brokers] == [(0, HOST, broker.port)]
        assert none.controller_id == 0
    oldest = wire.call(broker, MetadataRequest(topics=[]), 0)
    assert name in {topic.name for topic in oldest.topics}


def test_a_missing_topic_is_made_only_when_the_request_says_so(cluster: Cluster, broker: Broker) -> None:
    name = wire.fresh_name("auto")
    asked = [MetadataRequestTopic(name=name)]
    (topic,) = wire.call(broker, MetadataRequest(topics=asked, allow_auto_topic_creation=False), 12).topics
    assert ErrorCode.of(topic.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert name not in {t.name for t in wire.call(broker, MetadataRequest(topics=None), 12).topics}
    (topic,) = wire.call(broker, MetadataRequest(topics=asked), 12).topics
    assert ErrorCode.of(topic.error_code) in (
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    )
    wire.wait_for_leaders(cluster, name, 1)
    (topic,) = wire.call(broker, MetadataRequest(topics=asked, allow_auto_topic_creation=False), 12).topics
    assert [(p.partition_index, p.leader_id, p.isr_nodes) for p in topic.partitions] == [(0, 0, [0])]


def test_topics_are_found_by_id(cluster: Cluster, broker: Broker) -> None:
    name = wire.create_topic(cluster)
    (named,) = wire.call(broker, MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics
    assert named.topic_id != ZERO_UUID
    (found,) = wire.call(broker, MetadataRequest(topics=[MetadataRequestTopic(topic_id=named.topic_id)]), 12).topics
    assert (found.error_code, found.name) == (0, name)
    unknown = MetadataRequestTopic(topic_id=bytes(range(16)))
    (missing,) = wire.call(broker, MetadataRequest(topics=[unknown]), 12).topics
    assert (ErrorCode.of(missing.error_code), missing.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


def test_the_cluster_describes_itself(broker: Broker) -> None:
    answer = wire.call(broker, DescribeClusterRequest(), 1)
    metadata = wire.call(broker, MetadataRequest(topics=[]), 12)
    assert answer.error_code == 0
    assert answer.cluster_id == metadata.cluster_id
    assert len(answer.cluster_id) == 22
    assert answer.controller_id == 0
    assert [(b.broker_id, b.host, b.port) for b in answer.brokers] == [(0, HOST, broker.port)]
    asked = wire.call(broker, DescribeClusterRequest(endpoint_type=2), 1)
    assert ErrorCode.of(asked.error_code) is ErrorCode.MISMATCHED_ENDPOINT_TYPE
    asked = wire.call(broker, DescribeClusterRequest(endpoint_type=9), 1)
    assert ErrorCode.of(asked.error_code) is ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def configs(
    broker: Broker, kind: int, name: str, keys: list[str] | None = None, version: int = 4, **options: Any
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    result: DescribeConfigsResult
    (result,) = wire.call(broker, DescribeConfigsRequest(resources=[resource], **options), version).results
    return result


def test_topic_configs_say_where_they_come_from(cluster: Cluster, broker: Broker) -> None:
    name = wire.create_topic(cluster, configs={"retention.ms": "123456", "cleanup.policy": "compact"})
    result = configs(broker, TOPIC, name)
    found = {entry.name: entry for entry in result.configs}
    assert result.error_code == 0
    assert len(found) >= 30
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("123456", FROM_TOPIC)
    assert (found["cleanup.policy"].value, found["cleanup.policy"].config_source) == ("compact", FROM_TOPIC)
    assert (found["segment.bytes"].value, found["segment.bytes"].config_source) == ("1073741824", DEFAULT)
    assert (found["min.insync.replicas"].value, found["min.insync.replicas"].config_source) == ("1", STATIC)
    assert not any(entry.read_only or entry.is_sensitive for entry in result.configs)
    types = {name: entry.config_type for name, entry in found.items()}
    assert (types["retention.ms"], types["cleanup.policy"], types["preallocate"], types["segment.bytes"]) == (
        5,
        7,
        1,
        3,
    )


def test_chosen_configs_and_synonyms(cluster: Cluster, broker: Broker) -> None:
    name = wire.create_topic(cluster, configs={"segment.bytes": "100000"})
    result = configs(broker, TOPIC, name, ["segment.bytes", "no.such.key"], include_synonyms=True)
    (entry,) = result.configs
    assert [(s.name, s.value, s.source) for s in entry.synonyms] == [
        ("segment.bytes", "100000", FROM_TOPIC),
        ("log.segment.bytes", "1073741824", DEFAULT),
    ]


def test_broker_configs(cluster: Cluster, broker: Broker) -> None:
    found = {entry.name: entry for entry in configs(broker, BROKER, "0").configs}
    assert (found["broker.id"].value, found["broker.id"].read_only) == ("0", True)
    assert found["listeners"].value == f"PLAINTEXT://{broker.address}"
    assert found["log.dirs"].value == str(broker.data)
    assert (found["num.io.threads"].read_only, found["num.io.threads"].config_type) == (False, 3)
    for bad in ("1", "x"):
        assert ErrorCode.of(configs(broker, BROKER, bad).error_code) is ErrorCode.INVALID_REQUEST
    assert configs(broker, BROKER, "").error_code == 0
    assert ErrorCode.of(configs(broker, TOPIC, wire.fresh_name()).error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode.of(configs(broker, TOPIC, "a b").error_code) is ErrorCode.INVALID_TOPIC_EXCEPTION
