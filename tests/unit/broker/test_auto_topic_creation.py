"""A topic that cannot be made is told of once, however often clients ask for it."""

from __future__ import annotations

import logging
from typing import Any, cast
from unittest.mock import Mock

import pytest

from broker.cluster.metadata_cache import LiveBroker, MetadataCache
from broker.config.kafka_config import KafkaConfig
from broker.topics.auto_topic_creation import AutoTopicCreation
from broker.topics.topic_admin import TopicAdmin
from controller.zk.admin import AdminZkClient
from controller.zk.ops import Code
from controller.zk.session import ZkError
from network.protocol.errors import ApiError, ErrorCode
from timer.chance import SystemChance
from timer.clock import ManualClock
from timer.news import AGAIN_MS

OFFSETS = "__consumer_offsets"


class RefusingAdmin:
    """What an administration answers while there are fewer brokers than replicas."""

    def __init__(self) -> None:
        self.brokers = 1

    def create_topic(self, name: str, *_: object, **__: Any) -> None:
        if self.brokers < 3:
            text = f"Replication factor: 3 larger than available brokers: {self.brokers}."
            raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, text)


def test_the_offsets_topic_without_enough_brokers(caplog: pytest.LogCaptureFixture) -> None:
    clock, admin = ManualClock(), RefusingAdmin()
    config = KafkaConfig({"zookeeper.connect": "127.0.0.1:1", "broker.id": "0"})
    creation = AutoTopicCreation(config, cast(TopicAdmin, admin), clock, lambda: True)

    def told(times: int) -> list[str]:
        caplog.clear()
        for _ in range(times):
            creation.create([OFFSETS])
            clock.advance(1_000)
        return [record.getMessage() for record in caplog.records]

    with caplog.at_level(logging.WARNING):
        line = f"creating topic {OFFSETS} failed: INVALID_REPLICATION_FACTOR Replication factor: 3 larger than "
        assert told(100) == [f"{line}available brokers: 1."]
        admin.brokers = 2
        assert told(100) == [f"{line}available brokers: 2."]
        assert told(AGAIN_MS // 1_000) == [f"{line}available brokers: 2."]
        admin.brokers = 3
        assert told(1) == []
        admin.brokers = 1
        assert told(2) == [f"{line}available brokers: 1."]


class AwayAdmin:
    """What an administration meets while ZooKeeper is away."""

    def create_topic(self, *_: object, **__: Any) -> None:
        raise ZkError(Code.CONNECTION_LOSS)


@pytest.mark.parametrize("admin", [RefusingAdmin(), AwayAdmin()], ids=["brokers missing", "ZooKeeper away"])
def test_who_asks_another_broker_than_the_controller_asks_again(admin: Any) -> None:
    """Clients take these errors for final, and the other brokers would make the topic."""
    controls = False
    config = KafkaConfig({"zookeeper.connect": "127.0.0.1:1", "broker.id": "0"})
    creation = AutoTopicCreation(config, cast(TopicAdmin, admin), ManualClock(), lambda: controls)
    assert creation.create(["events"]) == {"events": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    controls = True
    assert creation.create(["events"])["events"] in (
        ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.UNKNOWN_SERVER_ERROR
    )  # fmt: skip


def test_a_topic_that_exists_is_told_of_where_brokers_are_missing() -> None:
    """Soon after a start, or when the controller is new, a broker may know neither all brokers nor the topics."""
    cache = MetadataCache(0)
    cache.begin_with(LiveBroker(0, {"PLAINTEXT": ("127.0.0.1", 9092)}, None))
    config = KafkaConfig({"zookeeper.connect": "127.0.0.1:1", "broker.id": "0", "default.replication.factor": "3"})
    zookeeper = Mock(spec=AdminZkClient, topic_exists=lambda name: name == "here")
    admin = TopicAdmin(config, zookeeper, cache, Mock(), SystemChance())
    creation = AutoTopicCreation(config, admin, ManualClock(), lambda: True)
    assert creation.create(["here", "new"]) == {
        "here": ErrorCode.LEADER_NOT_AVAILABLE, "new": ErrorCode.INVALID_REPLICATION_FACTOR
    }  # fmt: skip
