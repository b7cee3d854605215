"""Topics: created, described, extended and deleted as Apache Kafka does it."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from network.protocol.errors import ErrorCode
from network.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from network.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.cluster import Cluster


def fresh() -> str:
    return f"topic-{uuid.uuid4().hex[:12]}"


def create(cluster: Cluster, name: str, **options: Any) -> Any:
    wanted = CreatableTopic(name=name, **{"num_partitions": 1, "replication_factor": 1, **options})
    with cluster.client() as client:
        return client.call_controller(CreateTopicsRequest(topics=[wanted], timeout_ms=15_000)).topics[0]


def test_a_created_topic_is_in_the_metadata_with_its_id(cluster: Cluster) -> None:
    name = fresh()
    result = create(cluster, name, num_partitions=3)
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 3, 1)
    with cluster.client() as client:
        topic = client.topic(name)
    assert topic.topic_id == result.topic_id
    assert sorted(topic.partitions) == [0, 1, 2]
    assert {p.leader for p in topic.partitions.values()} == {0}


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("ümlaut", "'ümlaut' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        ("x" * 249, None),
    ],
)
def test_names(cluster: Cluster, name: str, fault: str | None) -> None:
    answer = create(cluster, name)
    if fault is None:
        assert answer.error_code == 0
    else:
        assert ErrorCode.of(answer.error_code) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert answer.error_message == f"Topic name is invalid: {fault}"


def test_a_name_is_taken_once(cluster: Cluster) -> None:
    name = fresh()
    assert create(cluster, name).error_code == 0
    again = create(cluster, name)
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert again.error_message == f"Topic '{name}' already exists."


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"replication_factor": 2}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"configs": [CreatableTopicConfig(name="no.such.key", value="1")]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [CreatableTopicConfig(name="retention.ms", value="soon")]}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_impossible_wishes(cluster: Cluster, options: dict[str, Any], code: ErrorCode) -> None:
    assert ErrorCode.of(create(cluster, fresh(), **options).error_code) is code


def test_a_deleted_topic_is_gone_and_its_name_free(cluster: Cluster) -> None:
    name = fresh()
    first = create(cluster, name)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=15_000)
    with cluster.client() as client:
        assert client.call_controller(request).responses[0].error_code == 0
    second = create(cluster, name)
    while second.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and "marked for deletion" in second.error_message:
        time.sleep(0.1)
        second = create(cluster, name)
    assert second.error_code == 0
    assert second.topic_id != first.topic_id
    unknown = DeleteTopicsRequest(topics=[DeleteTopicState(name=fresh())], timeout_ms=15_000)
    with cluster.client() as client:
        assert client.call_controller(unknown).responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
